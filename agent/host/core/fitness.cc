#include "agent/host/core/fitness.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "agent/host/core/ladder.h"
#include "agent/host/core/report.h"
#include "base/exit_codes.h"
#include "base/text/text.h"
#include "base/wire/ids.h"

namespace muster::host {
namespace {

// The option that limits the time of a check.
const char* LimitOption(Check check) { return check == Check::kSetup ? "--hook-timeout" : "--preflight-timeout"; }

}  // namespace

const char* NameOf(Check check) { return check == Check::kSetup ? "setup" : "preflight"; }

bool RoundIsClosed(const v1::Memory& memory, const v1::RoundId& started, v1::Outcome outcome) {
  const bool says_so = outcome == v1::OUTCOME_FAILED || outcome == v1::OUTCOME_SUCCEEDED;
  const bool stopped = Compare(memory.stopped(), started) >= 0;
  const bool superseded = Compare(memory.last().id(), started) > 0;  // no STOP for it will come
  return !IsSet(started) || !says_so || stopped || superseded;
}

Fitness::Fitness(const HostOptions& options)
    : hostname_(options.config.hostname()),
      setup_timeout_(options.setup_timeout),
      preflight_timeout_(options.preflight_timeout),
      gpus_(options.gpu_release_timeout, options.driver_pids) {}

std::string Fitness::Preparing() const {
  switch (state_) {
    case State::kGpus:
      return absl::StrCat("workers of its last round may still hold its GPUs; waiting up to ",
                          absl::FormatDuration(gpus_.limit()), " (--gpu-release-timeout)");
    case State::kCheck:
    case State::kEnding:
      return absl::StrCat("its ", NameOf(check_), " runs, for up to ", absl::FormatDuration(LimitOfCheck()), " (",
                          LimitOption(check_), ")");
    default:
      return "";
  }
}

bool Fitness::Prepare(BootTime now, const Job& job, Effects* out) {
  if (!job.wants_node) return false;
  if (state_ == State::kUnfit && now >= retry_at_) state_ = State::kUnknown;
  if (state_ != State::kUnknown) return false;
  const std::optional<Check> check = FirstCheck();
  if (!gpus_.may_be_held() && !check) return BecomeFit(now, out);
  if (!job.round_closed) return false;
  if (!gpus_.may_be_held()) return BeginCheck(now, *check, out);
  state_ = State::kGpus;
  gpus_.Begin(now, out);
  return false;
}

bool Fitness::OnTick(BootTime now, const Job& job, Effects* out) {
  if (state_ == State::kGpus) gpus_.OnTick(now, out);
  if (state_ == State::kCheck && now - check_since_ >= LimitOfCheck()) EndCheck(now, out);
  return Prepare(now, job, out);
}

bool Fitness::BecomeFit(BootTime now, Effects* out) {
  if (!why_.empty()) Say(Severity::kInfo, "this node is usable again", out, {.event = events::kNodeUsable});
  why_.clear();
  retry_pause_ = kUnfitRetry;
  state_ = State::kFit;
  offer_asked_at_ = now;
  out->push_back(RenewOffer{});
  return false;  // the answer to RenewOffer changes the status
}

bool Fitness::BecomeUnfit(BootTime now, const std::string& why, Effects* out) {
  why_ = CutUtf8(why, kMaxUnfitText);
  Say(Severity::kWarning,
      absl::StrCat(why_, "; this node joins no round; next attempt in ", absl::FormatDuration(retry_pause_)), out,
      {.event = events::kNodeUnusable});
  state_ = State::kUnfit;
  retry_at_ = now + retry_pause_;
  retry_pause_ = std::min(2 * retry_pause_, kMaxUnfitRetry);
  return true;
}

void Fitness::WatchOffer(BootTime now, Effects* out) {
  if (!fit() || offer_port_ != 0 || now - offer_asked_at_ < kOfferRetry) return;
  offer_asked_at_ = now;
  out->push_back(RenewOffer{});
}

void Fitness::OnRoundOver() {
  offer_port_ = 0;
  state_ = State::kUnknown;
  gpus_.OnRoundOver();
}

bool Fitness::OnGpuUsers(BootTime now, const GpuUsers& users, Effects* out) {
  if (state_ != State::kGpus) return false;
  std::string held;
  switch (gpus_.OnUsers(now, users, &held, out)) {
    case GpuRelease::Answer::kAwaited:
      return false;
    case GpuRelease::Answer::kFree:
      if (const auto check = FirstCheck()) return BeginCheck(now, *check, out);
      return BecomeFit(now, out);
    case GpuRelease::Answer::kHeld:
      break;
  }
  return BecomeUnfit(now,
                     absl::StrCat("GPUs of ", hostname_, " are still held by exited workers (", held, ") after ",
                                  absl::FormatDuration(gpus_.limit()), " (--gpu-release-timeout)"),
                     out);
}

// ---- the checks ---------------------------------------------------------------------------------------------

std::optional<Check> Fitness::FirstCheck() const {
  if (setup_timeout_ > absl::ZeroDuration() && !is_set_up_) return Check::kSetup;
  if (preflight_timeout_ > absl::ZeroDuration()) return Check::kPreflight;
  return std::nullopt;
}

absl::Duration Fitness::LimitOfCheck() const {
  return check_ == Check::kSetup ? setup_timeout_ : preflight_timeout_;
}

bool Fitness::BeginCheck(BootTime now, Check check, Effects* out) {
  state_ = State::kCheck;
  check_ = check;
  check_since_ = now;
  ending_.reset();
  last_line_.clear();
  out->push_back(StartCheck{check});
  return true;
}

void Fitness::OnCheckEnded(BootTime now, const Ending& ending, Effects* out) {
  if (state_ != State::kCheck) return;
  ending_ = ending;
  EndCheck(now, out);
}

// No worker is alive between rounds, so every process that the sweep finds was left by the check.
void Fitness::EndCheck(BootTime now, Effects* out) {
  state_ = State::kEnding;
  ending_since_ = now;
  out->push_back(Sweep{});
}

bool Fitness::OnSwept(BootTime now, const std::string& left, bool wants_node, Effects* out) {
  if (state_ != State::kEnding) return false;
  if (left.empty()) {
    out->push_back(GatherCheckOutput{});
    return false;
  }
  const bool stuck = now - ending_since_ > kStuckAfterKill;
  return stuck && wants_node && why_.empty() && ReportSurvivors(left, out);
}

bool Fitness::OnCheckOutput(BootTime now, const std::string& last_line, bool wants_node, Effects* out) {
  if (state_ != State::kEnding) return false;
  last_line_ = last_line;
  state_ = State::kUnknown;
  return wants_node && JudgeCheck(now, out);
}

bool Fitness::ReportSurvivors(const std::string& left, Effects* out) {
  why_ = CutUtf8(
      absl::StrCat("processes that the ", NameOf(check_), " left on ", hostname_, " survive SIGKILL: ", left),
      kMaxUnfitText);
  Say(Severity::kError, why_, out);
  return true;
}

bool Fitness::JudgeCheck(BootTime now, Effects* out) {
  const std::string name = NameOf(check_);
  const std::string why = WhyCheckFailed();
  if (!why.empty()) return BecomeUnfit(now, absl::StrCat(name, " failed on ", hostname_, ": ", why), out);
  const absl::Duration took = absl::Trunc(now - check_since_, absl::Milliseconds(1));
  Say(Severity::kInfo, absl::StrCat(name, " passed in ", absl::FormatDuration(took)), out);
  if (check_ == Check::kPreflight) return BecomeFit(now, out);
  is_set_up_ = true;
  if (const auto next = FirstCheck()) return BeginCheck(now, *next, out);
  return BecomeFit(now, out);
}

// "exit code 3: no such GPU"; empty if the check passed.
std::string Fitness::WhyCheckFailed() const {
  if (ending_ && ending_->ok()) return "";
  std::string why;
  if (!ending_) {
    why = absl::StrCat("timed out after ", absl::FormatDuration(LimitOfCheck()), " (", LimitOption(check_), ")");
  } else {
    why = DescribeEnding(*ending_);
  }
  const bool explains = ending_ && !ending_->error_text.empty();
  if (explains && !ending_->by_signal && ending_->number == kExitFault) why = "it could not be started";
  const std::string output = Printable(explains ? ending_->error_text : last_line_);
  const std::string shown(absl::StripAsciiWhitespace(output));
  return shown.empty() ? why : absl::StrCat(why, ": ", OneLine(shown));
}

bool Fitness::End(BootTime now, Effects* out) {
  if (state_ == State::kCheck) EndCheck(now, out);
  if (state_ == State::kGpus) state_ = State::kUnknown;
  return state_ != State::kEnding || now - ending_since_ > kStuckAfterKill;
}

}  // namespace muster::host
