// The sidecar of a host in another container decides here: when it tries to reach the host, when it starts and
// when it kills an agent, and with which exit code it ends. There is one agent at a time. Pure.
//
// The link to the host may close because the host has ended, or because it no longer listens to this agent. The
// sidecar cannot tell at once, so it tries to reach a host while the agent goes on: an agent whose host has ended
// waits for the proof of that, and reports it. Only if a host answers, the agent must make room for the next one.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/core/note.h"
#include "base/core/time.h"
#include "base/core/waiting_line.h"

namespace muster::agent {

inline constexpr absl::Duration kConnectRetry = absl::Milliseconds(100);
// From our options to the host's answer: it counts accelerators and resolves names in between.
inline constexpr absl::Duration kAnswerLimit = absl::Minutes(2);
// For a host that was there to come back. Then the sidecar ends, and so does a pod whose training container is not
// started again; where it is, the sidecar is too.
inline constexpr absl::Duration kReturnLimit = absl::Minutes(1);
// For a host that a sidecar has never met, and whose container has left a result of success in this pod: the job
// was over when this sidecar was started again. A container that failed is perhaps being started again, so it is
// awaited.
inline constexpr absl::Duration kStrangersResultWait = absl::Seconds(30);
// From the end of its link to the SIGKILL for an agent that goes on though a host has answered. The agent leaves
// kHostEndWait after the end, and may take another second to send its last words.
inline constexpr absl::Duration kLeaveLimit = absl::Seconds(4);
// The same from the proof that its host has ended: it reports that for up to kGoneLimit.
inline constexpr absl::Duration kReportLimit = absl::Seconds(15);
// Agents that end within this time are started anew at once only a few times in a row.
inline constexpr absl::Duration kQuickEnd = absl::Seconds(1);
inline constexpr int kQuickEndsInARow = 5;
inline constexpr absl::Duration kAgentRetry = absl::Seconds(1);

// Connect to the host, and tell it our options. Ends an attempt that is under way. Answer: OnWelcome, OnRefused or
// OnNotReached.
struct CallHost {};
struct StartAgentOver {};  // the newest connection that was welcomed. Answer: nothing, or OnAgentNotStarted
struct KillOwnAgent {};    // SIGKILL
struct EndSidecar {
  int exit_code = 0;
};
using SidecarEffect = std::variant<CallHost, StartAgentOver, KillOwnAgent, EndSidecar, Note>;
using SidecarEffects = std::vector<SidecarEffect>;

// What a host has left for its sidecar when it ended.
struct HostResult {
  std::string host_id;
  int exit_code = 0;
  bool of_this_pod = false;  // left by a container of the pod that this sidecar is in
};

class SidecarCore {
 public:
  // socket: for people. first_wait: how long the host may take to come.
  SidecarCore(std::string socket, absl::Duration first_wait)
      : socket_(std::move(socket)), first_wait_(first_wait) {}

  void Begin(BootTime now, SidecarEffects* out);
  void OnTick(BootTime now, SidecarEffects* out);

  // retryable_exit_code: instead of 69 and 75; 0: none.
  void OnWelcome(BootTime now, const std::string& host_id, int retryable_exit_code, SidecarEffects* out);
  void OnRefused(BootTime now, int exit_code, const std::string& why, SidecarEffects* out);
  void OnNotReached(BootTime now, const std::string& why, const std::optional<HostResult>& left,
                    SidecarEffects* out);

  void OnAgentNotStarted(BootTime now, const std::string& why, SidecarEffects* out);
  void OnAgentEnded(BootTime now, SidecarEffects* out);
  void OnLinkClosed(BootTime now, SidecarEffects* out);  // the agent's, by its host
  void OnHostEnded(BootTime now, SidecarEffects* out);   // the agent's host, and all processes of its container

  // This process was asked to end. text: the signal, for people.
  void OnEndSignal(BootTime now, const std::string& text, SidecarEffects* out);

  bool finished() const { return finished_; }

 private:
  void Seek(BootTime now, absl::Duration limit, SidecarEffects* out);
  void Call(BootTime now, SidecarEffects* out);
  void GiveUp(const std::string& why, SidecarEffects* out);
  bool IsTheEnd(BootTime now, const HostResult& left) const;
  void StartAgent(BootTime now, SidecarEffects* out);
  void MakeRoom(BootTime now, SidecarEffects* out);
  void End(int exit_code, SidecarEffects* out);
  bool AgentIsInTheWay(BootTime now) const;

  const std::string socket_;
  const absl::Duration first_wait_;

  // The search for a host.
  bool seeking_ = false;
  std::optional<BootTime> called_at_;  // no answer yet
  BootTime next_call_ = absl::InfiniteFuture();
  BootTime seeking_since_ = absl::InfiniteFuture();
  absl::Duration search_limit_ = absl::InfiniteDuration();
  bool welcomed_ = false;  // a host waits for its agent
  std::string host_id_;    // of the newest host that has welcomed us; empty: none
  int retryable_exit_code_ = 0;
  WaitingLine waiting_;

  // The agent.
  std::optional<BootTime> agent_since_;  // nullopt: none runs
  std::optional<BootTime> link_closed_at_;
  std::optional<BootTime> host_ended_at_;
  bool killed_ = false;
  int quick_ends_ = 0;  // in a row
  BootTime start_not_before_ = absl::InfinitePast();

  std::optional<BootTime> asked_at_;  // to end
  bool finished_ = false;
};

}  // namespace muster::agent
