// The host's agent: which one it obeys, when it starts another, and when it gives up on agents.
//
// The host obeys its newest agent alone. An agent that ended is replaced at once, one that could not be started
// after a pause, and one that is silent is killed first. Agents that die too often, or do not respond for the
// coordinator timeout, are a fault of muster or of the machine; then the host gives up. It does so at once if its
// first agent cannot be started.
//
// A host in a container of its own starts no agent: agents come from the sidecar. There the newest one that came
// counts, however often they come, and the host gives up if none is there for the coordinator timeout while it
// needs one. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "agent/host/core/effects.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr absl::Duration kAgentRestartWindow = absl::Seconds(10);
inline constexpr int kMaxAgentRestarts = 5;  // deaths of agents within the window that count as a fault of muster
inline constexpr absl::Duration kAgentRetry = absl::Seconds(3);  // after an agent could not be started
// Timeout of an agent in a job without a lease, while the host waits for it.
inline constexpr absl::Duration kLoneAgentSilence = absl::Seconds(10);
// Timeout for the first message of an agent. It sends none before it is configured: it starts, and may look up the
// primary's name for 2 s, which is as long as half of a short lease.
inline constexpr absl::Duration kFirstWordLimit = absl::Seconds(10);

class AgentSupervisor {
 public:
  // Why the host gives up on agents; nullopt: it does not.
  using GivesUp = std::optional<std::string>;

  // give_up_after: how long agents may fail to start, to send anything, or to come. comes: they come by
  // themselves.
  AgentSupervisor(absl::Duration give_up_after, bool comes) : give_up_after_(give_up_after), comes_(comes) {}

  bool comes() const { return comes_; }

  uint64_t number() const { return number_; }  // of the newest agent; the first is 1
  bool attached() const { return attached_; }  // there is a link to it
  bool Is(uint64_t number) const { return attached_ && number == number_; }
  // When the link was lost; nullopt: it is open, or was never lost.
  std::optional<BootTime> gone_at() const { return attached_ ? std::nullopt : gone_at_; }

  // exiting: the host ends already, so no agent is a reason to give up.
  [[nodiscard]] GivesUp Start(BootTime now, bool exiting, Effects* out);
  // An agent has come by itself; it replaces one that is there.
  void Take(Effects* out) { Next(out); }
  // True once, when the time has come to try again after OnFailed.
  bool TakeRetry(BootTime now);

  // A directive arrived. True: it is of the newest agent and newer than the last, so the host obeys it.
  bool Admit(const v1::HostDirective& directive);
  void OnClosed(BootTime now);
  [[nodiscard]] GivesUp OnFailed(BootTime now, const std::string& why, bool exiting, Effects* out);

  // What the silence of an agent means depends on whether anything needs the agent.
  struct Need {
    absl::Duration lease = absl::ZeroDuration();  // zero: the job has none, so running workers need no agent
    bool waits_for_it = false;  // without a lease: the host waits for the agent, to start workers or to end
  };
  // counted: time since the last tick in which this process ran. True: the agent has been silent for too long.
  bool OnTick(absl::Duration counted, const Need& need);
  // Agents come by themselves, and while the host needed one, none of them has spoken for too long.
  GivesUp StaysAway() const;
  void SaySilent(const Need& need, Effects* out) const;
  [[nodiscard]] GivesUp KillSilent(BootTime now, const Need& need, bool exiting, Effects* out);
  void Abandon() { attached_ = false; }  // the host has given up

  // Fills in the number of a status, and what it answers. True: the agent does not have the configuration yet.
  bool Stamp(v1::HostStatus* status);

 private:
  absl::Duration SilenceLimit(const Need& need) const;
  void Next(Effects* out);

  const absl::Duration give_up_after_;
  const bool comes_;
  uint64_t number_ = 0;
  bool attached_ = false;
  bool config_sent_ = false;
  uint64_t status_seq_ = 0;   // counts on with the next agent
  uint64_t applied_seq_ = 0;  // of this agent's directives
  // Counts only time in which this process ran, so that its own pause is not taken for the agent's silence.
  absl::Duration silence_;
  absl::Duration absence_;  // in the same time, while the host waited for an agent and none had spoken
  bool has_spoken_ = false;
  std::deque<BootTime> starts_;  // within kAgentRestartWindow
  BootTime retry_at_ = absl::InfiniteFuture();
  // For how long no agent has sent a message, in this host's own running time: a host that was stopped has not
  // tried.
  std::optional<absl::Duration> failing_;
  std::optional<BootTime> gone_at_;
};

}  // namespace muster::host
