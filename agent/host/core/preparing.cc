// Between rounds: whether this node is fit for the next round. Its GPUs must be free of the last round's workers,
// and its preflight must pass; without either check it is fit at once. Until it is fit it makes no offer, so the
// coordinator puts it in no round.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "agent/host/core/host_core.h"
#include "agent/host/core/report.h"
#include "base/ids.h"
#include "base/signal_name.h"
#include "base/text.h"

namespace muster::host {
namespace {

// "71, 72 and 3 more"
std::string Names(const std::set<int64_t>& pids) {
  std::vector<std::string> names;
  names.reserve(pids.size());
  for (const int64_t pid : pids) names.push_back(absl::StrCat(pid));
  return JoinAtMost(names, kMaxGpuPidsNamed);
}

}  // namespace

// Whether the coordinator has ended the last round. Until then a node that has failed or succeeded only reports
// that: the job may be over, and then a preflight would be useless.
bool HostCore::RoundIsClosed() const {
  const bool says_so = outcome_ == v1::OUTCOME_FAILED || outcome_ == v1::OUTCOME_SUCCEEDED;
  const bool stopped = Compare(memory_.stopped(), started_) >= 0;
  const bool superseded = Compare(memory_.last().id(), started_) > 0;  // no STOP for it will come
  return !IsSet(started_) || !says_so || stopped || superseded;
}

void HostCore::Prepare(BootTime now, Effects* out) {
  if (finished_ || Active() || exit_ || leave_ || memory_.has_verdict()) return;
  if (fitness_ == Fitness::kUnfit && now >= retry_at_) fitness_ = Fitness::kUnknown;
  if (fitness_ != Fitness::kUnknown) return;
  const bool preflight = options_.preflight_timeout > absl::ZeroDuration();
  if (!gpus_may_be_held_ && !preflight) return BecomeFit(now, out);
  if (!RoundIsClosed()) return;
  if (!gpus_may_be_held_) return GpusAreFree(now, out);
  fitness_ = Fitness::kGpus;
  gpus_since_ = now;
  ask_gpus_at_ = absl::InfiniteFuture();
  out->push_back(AskGpus{});
}

void HostCore::WatchPreparing(BootTime now, Effects* out) {
  if (fitness_ == Fitness::kGpus && now >= ask_gpus_at_) {
    ask_gpus_at_ = absl::InfiniteFuture();
    out->push_back(AskGpus{});
  }
  if (fitness_ == Fitness::kPreflight && now - preflight_since_ >= options_.preflight_timeout) {
    EndPreflight(now, out);
  }
  Prepare(now, out);
}

std::string HostCore::Preparing() const {
  switch (fitness_) {
    case Fitness::kGpus:
      return "workers of its last round may still hold its GPUs";
    case Fitness::kPreflight:
    case Fitness::kEnding:
      return "its preflight runs";
    default:
      return "";
  }
}

void HostCore::BecomeFit(BootTime now, Effects* out) {
  if (!unfit_why_.empty()) Say(Severity::kInfo, "this node is usable again", out, {.event = events::kNodeUsable});
  unfit_why_.clear();
  retry_pause_ = kUnfitRetry;
  fitness_ = Fitness::kFit;
  offer_asked_at_ = now;
  out->push_back(RenewOffer{});
}

void HostCore::BecomeUnfit(BootTime now, const std::string& why, Effects* out) {
  unfit_why_ = CutUtf8(why, kMaxUnfitText);
  Say(Severity::kWarning,
      absl::StrCat(unfit_why_, "; this node joins no round; next attempt in ", absl::FormatDuration(retry_pause_)),
      out, {.event = events::kNodeUnusable});
  fitness_ = Fitness::kUnfit;
  retry_at_ = now + retry_pause_;
  retry_pause_ = std::min(2 * retry_pause_, kMaxUnfitRetry);
  SendStatus(out);
}

// ---- GPUs ---------------------------------------------------------------------------------------------------

// In its own PID namespace a node cannot know which of the driver's pids were its workers. There every listed
// process may be one, for a limited time; a process that stays longer belongs to another job, as on a shared GPU,
// and is not waited for again. The node stays fit in that case.
void HostCore::OnGpuUsers(BootTime now, const GpuUsers& users, Effects* out) {
  if (finished_ || fitness_ != Fitness::kGpus) return;
  if (!users.trouble.empty()) {
    if (!std::exchange(gpus_were_silent_, true)) {
      Say(Severity::kWarning,
          absl::StrCat("cannot find out which processes hold the GPUs, so the GPUs are assumed to be free: ",
                       users.trouble),
          out);
    }
    return GpusAreFree(now, out);
  }
  std::set<int64_t> held = users.old_workers;
  if (!options_.driver_pids) {
    held.insert(users.others.begin(), users.others.end());
    for (const int64_t stranger : gpu_strangers_) held.erase(stranger);
  }
  if (held.empty()) return GpusAreFree(now, out);
  const absl::Duration limit = options_.driver_pids ? options_.gpu_release_timeout
                                                    : std::min(options_.gpu_release_timeout, kUnknownGpuUsers);
  if (now - gpus_since_ < limit) {
    ask_gpus_at_ = now + kGpuPoll;
    return;
  }
  if (options_.driver_pids) {
    BecomeUnfit(now,
                absl::StrCat("GPUs of ", options_.config.hostname(), " are still held by exited workers (",
                             held.size() == 1 ? "pid " : "pids ", Names(held), ") after ",
                             absl::FormatDuration(limit), " (--gpu-release-timeout)"),
                out);
    return;
  }
  Say(Severity::kInfo,
      absl::StrCat("unknown processes hold GPUs (pids as the driver numbers them: ", Names(held),
                   "); assuming that they belong to other jobs"),
      out);
  gpu_strangers_.insert(held.begin(), held.end());
  GpusAreFree(now, out);
}

void HostCore::GpusAreFree(BootTime now, Effects* out) {
  gpus_may_be_held_ = false;
  if (options_.preflight_timeout == absl::ZeroDuration()) return BecomeFit(now, out);
  fitness_ = Fitness::kPreflight;
  preflight_since_ = now;
  preflight_ending_.reset();
  preflight_last_line_.clear();
  out->push_back(StartPreflight{});
  SendStatus(out);
}

// ---- the preflight ------------------------------------------------------------------------------------------

void HostCore::OnPreflightEnded(BootTime now, const Ending& ending, Effects* out) {
  if (finished_ || fitness_ != Fitness::kPreflight) return;
  preflight_ending_ = ending;
  EndPreflight(now, out);
}

// No worker is alive between rounds, so every process that the sweep finds was left by the preflight.
void HostCore::EndPreflight(BootTime now, Effects* out) {
  fitness_ = Fitness::kEnding;
  preflight_ending_since_ = now;
  out->push_back(Sweep{});
}

void HostCore::OnPreflightSwept(BootTime now, const std::string& left, Effects* out) {
  if (finished_ || fitness_ != Fitness::kEnding) return;
  if (left.empty()) {
    out->push_back(GatherPreflightOutput{});
    return;
  }
  const bool stuck = now - preflight_ending_since_ > kStuckAfterKill;
  if (!stuck || !PreflightMatters() || !unfit_why_.empty()) return;
  unfit_why_ = CutUtf8(absl::StrCat("processes that the preflight left on ", options_.config.hostname(),
                                    " survive SIGKILL: ", left),
                       kMaxUnfitText);
  Say(Severity::kError, unfit_why_, out);
  SendStatus(out);
}

bool HostCore::PreflightMatters() const { return !exit_ && !leave_ && !memory_.has_verdict(); }

void HostCore::OnPreflightOutput(BootTime now, const std::string& last_line, Effects* out) {
  if (finished_ || fitness_ != Fitness::kEnding) return;
  preflight_last_line_ = last_line;
  fitness_ = Fitness::kUnknown;
  if (!PreflightMatters()) return WatchEnd(now, out);
  const std::string why = WhyPreflightFailed();
  if (!why.empty()) {
    BecomeUnfit(now, absl::StrCat("preflight failed on ", options_.config.hostname(), ": ", why), out);
    return;
  }
  Say(Severity::kInfo,
      absl::StrCat("preflight passed in ",
                   absl::FormatDuration(absl::Trunc(now - preflight_since_, absl::Milliseconds(1)))),
      out);
  BecomeFit(now, out);
}

// "exit code 3: no such GPU"; empty if the preflight passed.
std::string HostCore::WhyPreflightFailed() const {
  if (preflight_ending_ && preflight_ending_->ok()) return "";
  std::string why;
  std::string output = preflight_last_line_;
  if (!preflight_ending_) {
    why = absl::StrCat("timed out after ", absl::FormatDuration(options_.preflight_timeout),
                       " (--preflight-timeout)");
  } else if (preflight_ending_->by_signal) {
    const std::string name = SignalName(preflight_ending_->number);
    why = absl::StrCat("killed by signal ", preflight_ending_->number,
                       name.empty() ? "" : absl::StrCat(" (", name, ")"));
  } else {
    why = absl::StrCat("exit code ", preflight_ending_->number);
  }
  if (preflight_ending_ && !preflight_ending_->error_text.empty()) output = preflight_ending_->error_text;
  const std::string shown(absl::StripAsciiWhitespace(Printable(output)));
  return shown.empty() ? why : absl::StrCat(why, ": ", OneLine(shown));
}

// For the end of the job, or of this node's part in it.
bool HostCore::EndPreparing(BootTime now, Effects* out) {
  if (fitness_ == Fitness::kPreflight) EndPreflight(now, out);
  if (fitness_ == Fitness::kGpus) fitness_ = Fitness::kUnknown;
  return fitness_ != Fitness::kEnding || now - preflight_ending_since_ > kStuckAfterKill;
}

}  // namespace muster::host
