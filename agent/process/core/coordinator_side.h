// The agent's side towards the coordinator: when to connect, which directives to obey, and which statuses to send.
//
// This side reads the records of the node and of the host; only AgentCore changes them. Pure, and not
// thread-safe: it lives on the agent's loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/process/core/effects.h"
#include "agent/process/core/held_events.h"
#include "agent/process/core/host_side.h"
#include "agent/process/core/node_record.h"
#include "agent/process/core/predecessor_probe.h"
#include "agent/process/core/reconnect.h"
#include "agent/process/core/sent_statuses.h"
#include "base/core/allowance.h"
#include "base/core/time.h"
#include "base/core/waiting_line.h"

namespace muster::agent {

inline constexpr double kLinkLinesBurst = 20,
                        kLinkLinesPerSecond = 0.1;                 // that the coordinator is lost, and found
inline constexpr absl::Duration kConnectLimit = absl::Seconds(5);  // time limit of one attempt

class CoordinatorSide {
 public:
  // entropy: for the jitter of reconnects. Both others must outlive this.
  CoordinatorSide(uint64_t entropy, const NodeRecord* node, const HostSide* host)
      : node_(*node), host_(*host), delays_(entropy) {}
  CoordinatorSide(const CoordinatorSide&) = delete;
  CoordinatorSide& operator=(const CoordinatorSide&) = delete;

  void Begin(BootTime now);  // call it first
  // Events as in AgentCore. Some return how this node ends; nullopt: it goes on.
  void OnConnected(BootTime now, const std::string& local_address, Effects* out);
  void OnLocalAddress(BootTime now, const std::string& address, Effects* out);
  std::optional<NodeEnd> OnDisconnected(BootTime now, const std::string& why, int refused_code, Effects* out);
  void OnProbed(BootTime now, const std::string& process, bool dead, Effects* out);
  void ConnectNow(BootTime now) { link_.Down("", now); }  // at the next Watch
  // Connects when it is time. counted: running time of this process since the last call.
  std::optional<NodeEnd> Watch(BootTime now, absl::Duration counted, Effects* out);
  void OnTick(BootTime now, Effects* out);  // sends a status after each beat; logs what this node waits for
  void TellIfChanged(BootTime now, Effects* out);
  void Tell(BootTime now, Effects* out);  // sends a status now

  // Directives that cannot be obeyed: a refusal, and one of another version of the protocol.
  std::optional<NodeEnd> OnRefused(BootTime now, const v1::Refused& refused, Effects* out);
  std::optional<NodeEnd> OnOtherProtocol(BootTime now, uint32_t protocol, Effects* out);
  // For the others, in this order; each returns whether the directive goes on.
  bool IsNewer(const v1::Directive& directive) const;
  bool Admit(BootTime now, const v1::Directive& directive, Effects* out);
  bool KnowsOrder(const v1::Directive& directive, Effects* out);
  void OnOrder(BootTime now, const v1::Directive& directive, Effects* out);  // the host obeys it
  // When the status was sent that a directive echoes; nullopt: not known.
  std::optional<BootTime> WhenSent(const v1::StatusId& echo);

  const CoordinatorLink& link() const { return link_; }
  const SentStatuses& sent() const { return sent_; }
  const HeldEvents& events() const { return events_; }

 private:
  void Drop(const std::string& why, BootTime retry_at, Effects* out);
  NodeTurn Turn() const;
  v1::AgentStatus MakeStatus() const;
  void AddForThisSession(BootTime now, v1::AgentStatus* status) const;
  void SetWaiting(BootTime now, std::string what, Effects* out, bool lasts = false);

  const NodeRecord& node_;
  const HostSide& host_;
  CoordinatorLink link_;
  ReconnectDelays delays_;
  SentStatuses sent_;
  HeldEvents events_;
  v1::DirectiveId newest_;
  std::string local_address_;
  bool unknown_order_reported_ = false;
  bool unsound_directive_reported_ = false;
  int place_in_line_ = 0;  // among the spares, from the newest WAIT; 0: not a spare
  PredecessorProbe probe_;
  WaitingLine waiting_;
  Allowance link_lines_{kLinkLinesBurst, kLinkLinesPerSecond};
};

}  // namespace muster::agent
