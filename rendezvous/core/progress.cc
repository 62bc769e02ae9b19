#include "rendezvous/core/progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/wire/ranges.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// A sign of life came so much after the start of its round: each node counts the time before the first one, too.
constexpr absl::Duration kClearlyAfter = absl::Seconds(1);

bool IsShowing(BootTime now, const Job& job, const Host& host) {
  return host.part.in_round && !host.part.succeeded && job.Claims(host) && host.IsAttached() &&
         now <= host.last_status_at + kShownLately;
}

// Calls take(rank, value) for each rank of which a node shows more than 0.
template <typename ListOf, typename Take>
void ForEachShown(BootTime now, const Job& job, const ListOf& list_of, const Take& take) {
  for (const auto& [id, host] : job.hosts) {
    if (!IsShowing(now, job, host)) continue;
    const auto& reported = list_of(host.status);
    for (int local_rank = 0; local_rank < std::min(reported.size(), host.part.workers); ++local_rank) {
      const int64_t value = reported.Get(local_rank);
      if (value > 0) take(host.part.round.first_rank() + local_rank, value);
    }
  }
}

template <typename ListOf>
ShownByRank ByRank(BootTime now, const Job& job, const ListOf& list_of) {
  ShownByRank shown;
  ForEachShown(now, job, list_of, [&shown](int rank, int64_t value) { shown[rank] = value; });
  return shown;
}

int64_t Median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.empty() ? 0 : *middle;
}

constexpr auto kSteps = [](const v1::AgentStatus& status) -> const auto& { return status.steps(); };

// Since the last sign of life of any worker, and the last touch of any progress file; nullopt: not known.
struct Signs {
  std::optional<absl::Duration> quiet = {}, file = {};
};

Signs SignsOf(BootTime now, const Job& job) {
  Signs signs;
  const auto take = [](std::optional<absl::Duration>* least, absl::Duration age) {
    *least = least->has_value() ? std::min(**least, age) : age;
  };
  for (const auto& [id, host] : job.hosts) {
    if (!host.part.in_round || !job.Claims(host)) continue;
    const absl::Duration since = now - host.last_status_at;
    const v1::AgentStatus& status = host.status;
    if (status.has_quiet_ms()) take(&signs.quiet, absl::Milliseconds(status.quiet_ms()) + since);
    if (status.has_progress_file_ms()) take(&signs.file, absl::Milliseconds(status.progress_file_ms()) + since);
  }
  return signs;
}

// As MedianOf(NewestSteps()), without a map: it is asked each second, of very many ranks.
int64_t MedianStep(BootTime now, const Job& job) {
  std::vector<int64_t> steps;
  ForEachShown(now, job, kSteps, [&steps](int, int64_t step) { steps.push_back(step); });
  return Median(std::move(steps));
}

bool IsOddlySilent(const Job& job, const Signs& signs) {
  if (job.state != State::kRunning || job.steps.average() == 0 || !signs.quiet) return false;
  const absl::Duration step = absl::Seconds(1'000) / job.steps.average();
  return *signs.quiet >= std::max(kOddSilence, kOddSteps * step);
}

}  // namespace

ShownByRank StepRates(BootTime now, const Job& job) {
  return ByRank(
      now, job, [](const v1::AgentStatus& status) -> const auto& { return status.step_rates(); });
}

ShownByRank TouchRates(BootTime now, const Job& job) {
  return ByRank(
      now, job, [](const v1::AgentStatus& status) -> const auto& { return status.touch_rates(); });
}

ShownByRank NewestSteps(BootTime now, const Job& job) { return ByRank(now, job, kSteps); }

int64_t MedianOf(const ShownByRank& shown) {
  std::vector<int64_t> values;
  for (const auto& [rank, value] : shown) values.push_back(value);
  return Median(std::move(values));
}

Pace PaceNow(BootTime now, const Job& job) {
  const int64_t steps = MedianOf(StepRates(now, job));
  if (steps > 0) return {.rate = steps};
  const int64_t touches = MedianOf(TouchRates(now, job));
  return {.rate = touches, .by_touches = touches > 0};
}

std::optional<absl::Duration> OddSilenceOf(BootTime now, const Job& job) {
  const Signs signs = SignsOf(now, job);
  return IsOddlySilent(job, signs) ? signs.quiet : std::nullopt;
}

TimeLedger::Moment MomentOf(BootTime now, const Job& job) {
  TimeLedger::Moment moment;
  // While a new coordinator finds out what runs, that runs.
  const bool runs = job.state == State::kRunning || (job.state == State::kRecovering && job.greatest.IsKnown());
  if (job.IsOver()) {
    moment.state = TimeLedger::State::kOver;
  } else if (!runs) {
    const bool waits = job.gathering.first_round || (job.state == State::kGathering && !AbsentPlaces(job).empty());
    moment.state = waits ? TimeLedger::State::kWaiting : TimeLedger::State::kRestarting;
  } else {
    const Signs signs = SignsOf(now, job);
    moment.state = TimeLedger::State::kRunning;
    moment.round = job.greatest.number();
    moment.is_watched = signs.quiet.has_value();
    moment.has_shown_signs = signs.quiet && *signs.quiet + kClearlyAfter < now - job.greatest.since;
    if (moment.has_shown_signs) moment.sign = now - *signs.quiet;
    moment.is_stalled = (signs.quiet && *signs.quiet > job.hang.judge.limit()) || IsOddlySilent(job, signs);
    moment.step = MedianStep(now, job);
  }
  return moment;
}

v1::Progress ProgressOf(BootTime now, const Job& job) {
  v1::Progress progress;
  const Signs signs = SignsOf(now, job);
  progress.set_watched(signs.quiet || job.options.hang_timeout != absl::InfiniteDuration());
  if (signs.quiet) progress.set_quiet_ms(WireMilliseconds(*signs.quiet));
  if (signs.file) progress.set_progress_file_ms(WireMilliseconds(*signs.file));
  const ShownByRank steps = NewestSteps(now, job);
  progress.set_ranks(static_cast<int32_t>(steps.size()));
  progress.set_median_step(MedianOf(steps));
  const auto slowest = std::min_element(steps.begin(), steps.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (slowest != steps.end() && slowest->second < progress.median_step()) {
    progress.set_slowest_rank(slowest->first);
    progress.set_slowest_step(slowest->second);
  }
  const bool goes_on = job.state == State::kRunning && !IsOddlySilent(job, signs);
  const Pace pace = goes_on ? PaceNow(now, job) : Pace();
  progress.set_by_touches(pace.by_touches);
  progress.set_rate(pace.rate);
  progress.set_hour_rate(job.steps.average());
  progress.set_hour_ms(WireMilliseconds(job.steps.span()));
  return progress;
}

}  // namespace muster::rendezvous
