// The agent's side towards its host: the directive that the host gets, until when the lease lets the workers run,
// and what becomes of a host that is silent or has ended.
//
// It does not know the coordinator's side: AgentCore passes on what the coordinator orders. Pure, and not
// thread-safe: it lives on the agent's loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/process/core/effects.h"
#include "agent/process/core/host_watch.h"
#include "agent/process/core/node_record.h"
#include "base/core/allowance.h"
#include "base/core/time.h"

namespace muster::agent {

inline constexpr double kStopLinesBurst = 20, kStopLinesPerSecond = 1;  // about orders to stop
inline constexpr absl::Duration kLinger = absl::Milliseconds(250);  // of the primary's host, after the last close

class HostSide {
 public:
  explicit HostSide(const NodeRecord* node) : node_(*node) {}
  HostSide(const HostSide&) = delete;
  HostSide& operator=(const HostSide&) = delete;

  // Call it first. lease_deadline_boot_ns: what the host knows from an earlier agent; 0: nothing.
  void Begin(int64_t lease_deadline_boot_ns);
  void OnStatus() { watch_.Heard(); }
  void OnLinkClosed(BootTime now);
  void OnClosed(BootTime now, Effects* out);
  void OnSwept(BootTime now, Effects* out);
  void ReportedAs(uint64_t seq) { watch_.ToldAs(seq); }  // the status that reports HOST_GONE
  // counted: running time of this process since the last call. Returns why this agent leaves; nullopt: it stays.
  std::optional<std::string> Watch(BootTime now, absl::Duration counted, Effects* out);

  // What a directive of the coordinator means for the host: the lease, a hang, and the order.
  // sent: when this node sent the status that the directive echoes; nullopt: not known.
  void ExtendLease(const v1::Directive& directive, std::optional<BootTime> sent);
  void PassOn(const v1::Directive& directive);
  // Call it before LearnOrder: a STOP is compared with the newest one in the memory.
  void Obey(BootTime now, const v1::Directive& directive, Effects* out);

  // Has the host exit without a RELEASE; nullopt: does nothing. A known verdict takes precedence over `end`.
  void ExitAlone(BootTime now, const std::optional<NodeEnd>& end, Effects* out);

  void SetLeave(BootTime now, const std::string& why, Effects* out);
  void SetServesOthers(BootTime now, bool others, Effects* out);
  void Tell(BootTime now, Effects* out);       // sends the host a directive now
  void TellIfDue(BootTime now, Effects* out);  // sends one after each beat of the link

  bool exiting() const { return order_.has_exit(); }  // the host was told to exit
  BootTime lease_deadline() const { return lease_deadline_; }
  const HostWatch& watch() const { return watch_; }

 private:
  void BeginEnding(BootTime now, const std::string& how, bool kill_first, Effects* out);
  void Stop(const std::string& cause, int64_t grace_ms);
  void SayStopping(BootTime now, const v1::Stop& stop, Effects* out);
  void ExitWith(BootTime now, const NodeEnd& end, bool alone, Effects* out);

  const NodeRecord& node_;
  HostWatch watch_;
  bool was_suspended_ = false;  // and its lease ended meanwhile
  uint64_t seq_ = 0;            // of the last directive
  v1::HostDirective order_;     // only its `order` is set
  BootTime lease_deadline_ = absl::InfinitePast();
  BootTime told_at_ = absl::InfinitePast();
  bool serves_others_ = false;
  std::string leave_;  // reason why this node leaves; empty: it does not
  Allowance stop_lines_{kStopLinesBurst, kStopLinesPerSecond};
};

}  // namespace muster::agent
