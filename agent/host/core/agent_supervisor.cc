#include "agent/host/core/agent_supervisor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::host {

AgentSupervisor::GivesUp AgentSupervisor::Start(BootTime now, bool exiting, Effects* out) {
  starts_.push_back(now);
  while (!starts_.empty() && now - starts_.front() > kAgentRestartWindow) starts_.pop_front();
  if (static_cast<int>(starts_.size()) > kMaxAgentRestarts && !exiting) {
    return absl::StrCat("the agent process died ", kMaxAgentRestarts, " times within ",
                        absl::FormatDuration(kAgentRestartWindow));
  }
  Next(out);
  return std::nullopt;
}

void AgentSupervisor::Next(Effects* out) {
  ++number_;
  attached_ = true;
  config_sent_ = false;
  applied_seq_ = 0;
  silence_ = absl::ZeroDuration();
  has_spoken_ = false;
  out->push_back(StartAgent{number_});
  if (number_ > 1) Say(Severity::kInfo, absl::StrCat("agent ", number_, " takes over"), out);
}

bool AgentSupervisor::TakeRetry(BootTime now) {
  if (now < retry_at_) return false;
  retry_at_ = absl::InfiniteFuture();
  return true;
}

bool AgentSupervisor::Admit(const v1::HostDirective& directive) {
  if (!Is(directive.agent_number())) return false;
  silence_ = absl::ZeroDuration();
  has_spoken_ = true;
  absence_ = absl::ZeroDuration();
  failing_.reset();
  if (directive.seq() <= applied_seq_) return false;
  applied_seq_ = directive.seq();
  return true;
}

void AgentSupervisor::OnClosed(BootTime now) {
  attached_ = false;
  gone_at_ = now;
}

// Retries after a pause, because the machine is short of a resource. The workers go on until their lease ends. The
// failure of the first agent is final: no workers run yet, so an exit at once costs nothing and shows the problem.
AgentSupervisor::GivesUp AgentSupervisor::OnFailed(BootTime now, const std::string& why, bool exiting,
                                                   Effects* out) {
  OnClosed(now);
  if (number_ == 1 && !exiting) return absl::StrCat("cannot start the first agent: ", why);
  Say(Severity::kError, absl::StrCat("cannot start an agent: ", why), out);
  if (exiting) return std::nullopt;
  if (!failing_) failing_.emplace();
  if (*failing_ < give_up_after_) {
    retry_at_ = now + kAgentRetry;
    return std::nullopt;
  }
  return absl::StrCat("no agent could be started for ", absl::FormatDuration(give_up_after_), ": ", why);
}

bool AgentSupervisor::OnTick(absl::Duration counted, const Need& need) {
  if (failing_) *failing_ += counted;
  const bool absent = !attached_ || !has_spoken_;
  absence_ = absent && need.waits_for_it ? absence_ + counted : absl::ZeroDuration();
  if (!attached_) return false;
  const bool needed = need.lease > absl::ZeroDuration() || need.waits_for_it;
  silence_ = needed ? silence_ + counted : absl::ZeroDuration();
  return silence_ >= SilenceLimit(need);
}

AgentSupervisor::GivesUp AgentSupervisor::StaysAway() const {
  if (!comes_ || absence_ < give_up_after_) return std::nullopt;
  return absl::StrCat("no agent from the sidecar has responded for ", absl::FormatDuration(give_up_after_),
                      " (--coordinator-timeout)");
}

// Nothing depends on an agent before its first message: until then the lease, which the host watches itself, ends
// the workers in time.
absl::Duration AgentSupervisor::SilenceLimit(const Need& need) const {
  if (need.lease == absl::ZeroDuration()) return kLoneAgentSilence;
  const bool starting = !has_spoken_;
  return starting ? std::max(need.lease / 2, kFirstWordLimit) : need.lease / 2;
}

void AgentSupervisor::SaySilent(const Need& need, Effects* out) const {
  const bool leased = need.lease > absl::ZeroDuration();
  Say(Severity::kWarning,
      absl::StrCat("agent ", number_, " has been silent for ", absl::FormatDuration(SilenceLimit(need)),
                   leased ? ": stopping the workers and " : ": ",
                   comes_   ? "closing its link"
                   : leased ? "killing the agent"
                            : "starting another"),
      out, {.event = leased ? events::kAgentLost : ""});
}

AgentSupervisor::GivesUp AgentSupervisor::KillSilent(BootTime now, const Need& need, bool exiting, Effects* out) {
  out->push_back(KillAgent{});
  attached_ = false;
  if (exiting) {
    gone_at_ = now;
    return std::nullopt;
  }
  if (need.lease == absl::ZeroDuration()) return std::nullopt;
  if (!has_spoken_ && !failing_) failing_.emplace();
  if (!failing_ || *failing_ < give_up_after_) return std::nullopt;
  return absl::StrCat("no agent has responded for ", absl::FormatDuration(give_up_after_));
}

bool AgentSupervisor::Stamp(v1::HostStatus* status) {
  status->set_agent_number(number_);
  status->set_seq(++status_seq_);
  status->set_applied_seq(applied_seq_);
  return !std::exchange(config_sent_, true);
}

}  // namespace muster::host
