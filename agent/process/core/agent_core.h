// The agent core: turns the coordinator's directive and the host's status into the host's directive and the
// agent's status. It decides one node's part in the job and nothing else.
//
// Pure: an event and the time go in, effects come out, and the caller carries them out in the given order. Not
// thread-safe: it lives on the agent's loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/process/core/host_watch.h"
#include "agent/process/core/predecessor_probe.h"
#include "agent/process/core/reconnect.h"
#include "agent/process/core/sent_statuses.h"
#include "base/core/allowance.h"
#include "base/core/driver.h"
#include "base/core/note.h"
#include "base/core/time.h"
#include "base/core/waiting_line.h"
#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kMaxCountedSilence = absl::Milliseconds(250);
inline constexpr size_t kMaxReasonShown = 4096;  // bytes; a coordinator's own are shorter
inline constexpr double kLinkLinesBurst = 20,
                        kLinkLinesPerSecond = 0.1;                      // that the coordinator is lost, and found
inline constexpr double kStopLinesBurst = 20, kStopLinesPerSecond = 1;  // about orders to stop
inline constexpr absl::Duration kDefaultBeat = absl::Milliseconds(500);
inline constexpr absl::Duration kConnectLimit = absl::Seconds(5);   // time limit of one attempt
inline constexpr absl::Duration kLinger = absl::Milliseconds(250);  // of the primary's host, after the last close

// Effects.

// Listen on the primary's port, which only one process of this machine can do. Answered by OnPortClaimed.
struct ClaimPort {};
struct FreePort {};  // listen no more
// Prepare the session to the coordinator, which is in this process if it serves. Comes before the first Connect,
// and once more when a member becomes the primary.
struct TakeRole {
  bool serves = false;
  bool was_in_job = false;  // this node has reached the job's coordinator before, perhaps by an earlier agent
};
struct SendToCoordinator {
  v1::AgentStatus status;
};
struct SendToHost {
  v1::HostDirective directive;
};
struct Connect {};     // open a session; answered by OnConnected or OnDisconnected
struct Disconnect {};  // close the session in order; not answered
// The host is dead or does not respond: send it SIGKILL if it lives, wait for its end, and end everything that it
// started (base/proc/orphans.h has the evidence). Answered by OnHostSwept or OnHostNotSwept.
struct EndHost {
  std::vector<v1::Worker> workers;
  bool kill_first = false;
};
// Find out whether the former holder of a place, or a process that it left behind, is alive. What it left behind
// is ended. Answered by OnProbed.
struct Probe {
  std::string process;  // Holder.process
};
struct ExitAgent {
  int exit_code = 0;
  std::string reason;
  bool at_once = false;  // like a kill: no message is waited for
};
using Effect = std::variant<ClaimPort, FreePort, TakeRole, SendToCoordinator, SendToHost, Connect, Disconnect,
                            EndHost, Probe, ExitAgent, Note>;
using Effects = std::vector<Effect>;

// Whether a node finds out by itself that it is the primary.
bool MayServe(const v1::NodeConfig& config);

// "the coordinator" where it stands alone, else "the primary": what people call it in messages.
const char* TitleOfCoordinator(const v1::NodeConfig& config);

// What the host reports about this node's part of the newest round.
bool StartedLast(const v1::HostStatus& host);
v1::Phase PhaseOf(const v1::HostStatus& host, bool host_gone);

class AgentCore {
 public:
  // entropy: for the jitter of reconnects.
  explicit AgentCore(uint64_t entropy) : delays_(entropy) {}

  // The first status brings the configuration and the memory of the previous agent, and with them the role.
  void OnHostStatus(BootTime now, const v1::HostStatus& status, Effects* out);
  // After an OnDisconnected of an attempt that has reached no coordinator. is_here: it has led to an address of
  // this machine; port_is_free: and nobody listens there.
  void OnUnanswered(BootTime now, bool is_here, bool port_is_free, Effects* out);
  void OnPortClaimed(BootTime now, bool used_by_other, Effects* out);
  // The coordinator in this process, which listens, has let a node in.
  void OnReached(BootTime now, Effects* out);
  // The link to the host closed. Before this agent has a role, it exits: it has started nothing. If the host died,
  // its pidfd fires within moments, before or after. If the host lives, a newer agent has taken over.
  void OnHostLinkClosed(BootTime now, Effects* out);
  // The host's pidfd fired: the host has ended.
  void OnHostClosed(BootTime now, Effects* out);
  void OnHostSwept(BootTime now, Effects* out);
  // The host closed the link and goes on: it has replaced this agent.
  void OnHostLives(BootTime now, Effects* out);
  // The host has ended, but some of its processes could not be ended in time, or could not be examined. `left`
  // names them.
  void OnHostNotSwept(BootTime now, const std::string& left, Effects* out);

  void OnConnected(BootTime now, const std::string& local_address, Effects* out);
  void OnDirective(BootTime now, const v1::Directive& directive, Effects* out);
  // why: human-readable. refused_code: the exit code (77) if whoever answers at the coordinator's address has
  // rejected the session, else 0. A new node ends with it if that goes on: see kRefusalPatience.
  void OnDisconnected(BootTime now, const std::string& why, int refused_code, Effects* out);
  // The address by which other nodes reach this one, when it is learned after the connection: the primary's own
  // session crosses no network, so the primary learns its address from a member's session.
  void OnLocalAddress(BootTime now, const std::string& address, Effects* out);
  void OnProbed(BootTime now, const std::string& process, bool dead, Effects* out);
  // The files of credentials have changed: what they hold now, for the agents after this one.
  void OnCredentials(BootTime now, const std::vector<std::string>& texts, Effects* out);

  // The end of this machine was announced; `why` is the reason as a sentence. The node leaves as after a SIGTERM.
  void OnNotice(BootTime now, const std::string& why, Effects* out);
  // Whether agents of other nodes are connected to the coordinator in this process.
  void OnServesOthers(BootTime now, bool others, Effects* out);

  void OnTick(BootTime now, Effects* out);

  bool configured() const { return configured_; }
  const v1::NodeConfig& config() const { return config_; }
  const v1::Memory& memory() const { return memory_; }
  bool finished() const { return finished_; }

 private:
  // agent_core.cc: events, and the host's directive.
  void ChooseRole(BootTime now, Effects* out);
  void BeginRole(BootTime now, bool serves, Effects* out);
  void Serve(BootTime now, Effects* out);  // a member becomes the primary
  void WithdrawCandidate(Effects* out);
  void UseHostStatus(BootTime now, Effects* out);
  bool IsNewer(const v1::Directive& directive) const;
  void OnOtherProtocol(BootTime now, uint32_t protocol, Effects* out);
  void OnUnknownOrder(Effects* out);
  bool IsSound(const v1::Directive& directive, Effects* out);
  void AskHost(const v1::Directive& directive);
  void ApplyOrder(BootTime now, const v1::Directive& directive, Effects* out);
  void TryLater(BootTime now, const std::string& why, Effects* out);
  void OnRefused(BootTime now, const v1::Refused& refused, Effects* out);
  bool IsAnotherJobs(int exit_code) const;
  void LearnRound(BootTime now, const v1::Round& round);
  void LearnPrimaryEnded(const v1::Directive& directive);
  void LearnVerdict(BootTime now, const v1::Verdict& verdict);
  void ExtendLease(const v1::Directive& directive);
  void ApplyStop(BootTime now, const v1::Stop& stop, Effects* out);
  void ApplyWait(BootTime now, const v1::Wait& wait, Effects* out);
  void ExitWith(BootTime now, int code, const std::string& reason, bool alone, Effects* out);
  // Exits without a RELEASE. A known verdict takes precedence over the given code and reason.
  void ExitAlone(BootTime now, int code, const std::string& reason, Effects* out);
  void Leave(const std::string& reason, Effects* out);  // ends this agent, not the host
  void TellHost(BootTime now, Effects* out);
  void WatchHost(BootTime now, absl::Duration counted, Effects* out);
  void BeginEndingHost(BootTime now, bool kill_first, Effects* out);  // and what it started
  bool Leased() const;
  absl::Duration LeaseDuration() const;
  absl::Duration Beat() const;
  void SetWaiting(BootTime now, std::string what, Effects* out);

  // When to connect to the coordinator, and when to give up.
  void WatchCoordinator(BootTime now, Effects* out);
  void GiveUpOnCoordinator(BootTime now, Effects* out);
  absl::Duration RefusalPatience() const;     // of a node that was never let in
  absl::Duration CoordinatorTimeout() const;  // how long this agent may be without a coordinator
  const char* OptionOfCoordinatorTimeout() const;
  std::string WhyNoCoordinator() const;
  NodeTurn Turn() const;
  std::string NameOfCoordinator() const;

  // agent_status.cc: the status for the coordinator.
  void TellCoordinator(BootTime now, Effects* out);
  void TellIfChanged(BootTime now, Effects* out);
  void AddForThisSession(BootTime now, v1::AgentStatus* status) const;
  v1::AgentStatus MakeStatus() const;
  void DescribeRound(v1::AgentStatus* status) const;
  void AddMoments(BootTime now, v1::AgentStatus* status) const;
  void AddAges(BootTime now, v1::Round* last) const;
  std::string Digest(const v1::AgentStatus& status) const;

  bool configured_ = false;
  bool owns_address_ = false;  // as the newest attempt has shown, the primary's address is this machine's
  bool is_candidate_ = false;  // listens, and serves once the primary's address has led somebody here
  bool finished_ = false;
  v1::NodeConfig config_;
  v1::HostStatus host_;  // the newest
  HostWatch host_watch_;
  std::string how_host_ended_;  // as AgentStatus.how_host_ended
  bool was_suspended_ = false;  // and its lease ended meanwhile
  v1::Memory memory_;           // stored by the host for the next agent

  // Towards the host.
  uint64_t host_directive_seq_ = 0;
  v1::HostDirective order_;  // only its `order` is set
  BootTime lease_deadline_ = absl::InfinitePast();
  BootTime last_tick_ = absl::InfinitePast();
  BootTime host_told_at_ = absl::InfinitePast();
  bool serves_others_ = false;
  std::string leave_;  // reason why this node leaves; empty: it does not

  // Towards the coordinator.
  CoordinatorLink link_;
  ReconnectDelays delays_;
  SentStatuses sent_;
  v1::DirectiveId newest_;
  std::string local_address_;
  bool unknown_order_reported_ = false;
  bool unsound_directive_reported_ = false;
  int place_in_line_ = 0;  // among the spares, from the newest WAIT; 0: not a spare
  PredecessorProbe probe_;

  WaitingLine waiting_;
  Allowance stop_lines_{kStopLinesBurst, kStopLinesPerSecond};
  Allowance link_lines_{kLinkLinesBurst, kLinkLinesPerSecond};
};

using AgentDriver = CoreDriver<AgentCore, Effect>;

}  // namespace muster::agent
