#include "rendezvous/core/progress.h"

#include <algorithm>
#include <vector>

#include "base/wire/ranges.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

bool IsShowing(BootTime now, const Job& job, const Host& host) {
  return host.part.in_round && !host.part.succeeded && job.Claims(host) && host.IsAttached() &&
         now <= host.last_status_at + kShownLately;
}

template <typename ListOf>
ShownByRank ByRank(BootTime now, const Job& job, const ListOf& list_of) {
  ShownByRank shown;
  for (const auto& [id, host] : job.hosts) {
    if (!IsShowing(now, job, host)) continue;
    const auto& reported = list_of(host.status);
    for (int local_rank = 0; local_rank < std::min(reported.size(), host.part.workers); ++local_rank) {
      const int64_t value = reported.Get(local_rank);
      if (value > 0) shown[host.part.round.first_rank() + local_rank] = value;
    }
  }
  return shown;
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

ShownByRank NewestSteps(BootTime now, const Job& job) {
  return ByRank(
      now, job, [](const v1::AgentStatus& status) -> const auto& { return status.steps(); });
}

int64_t MedianOf(const ShownByRank& shown) {
  std::vector<int64_t> sorted;
  for (const auto& [rank, value] : shown) sorted.push_back(value);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return sorted.empty() ? 0 : *middle;
}

std::optional<int64_t> RateNow(BootTime now, const Job& job) {
  if (job.state != State::kRunning) return 0;
  const ShownByRank lines = StepRates(now, job);
  const int64_t rate = MedianOf(lines.empty() ? TouchRates(now, job) : lines);
  return rate == 0 ? std::nullopt : std::optional(rate);
}

v1::Progress ProgressOf(BootTime now, const Job& job) {
  v1::Progress progress;
  std::optional<absl::Duration> quiet, file;
  const auto take = [](std::optional<absl::Duration>* least, absl::Duration age) {
    *least = least->has_value() ? std::min(**least, age) : age;
  };
  for (const auto& [id, host] : job.hosts) {
    if (!host.part.in_round || !job.Claims(host)) continue;
    const absl::Duration since = now - host.last_status_at;
    const v1::AgentStatus& status = host.status;
    if (status.has_quiet_ms()) take(&quiet, absl::Milliseconds(status.quiet_ms()) + since);
    if (status.has_progress_file_ms()) take(&file, absl::Milliseconds(status.progress_file_ms()) + since);
  }
  progress.set_watched(quiet.has_value());
  if (quiet) progress.set_quiet_ms(WireMilliseconds(*quiet));
  if (file) progress.set_progress_file_ms(WireMilliseconds(*file));
  const ShownByRank steps = NewestSteps(now, job);
  progress.set_ranks(static_cast<int32_t>(steps.size()));
  progress.set_median_step(MedianOf(steps));
  const auto slowest = std::min_element(steps.begin(), steps.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (slowest != steps.end()) {
    progress.set_slowest_rank(slowest->first);
    progress.set_slowest_step(slowest->second);
  }
  progress.set_by_touches(StepRates(now, job).empty() && !TouchRates(now, job).empty());
  progress.set_rate(RateNow(now, job).value_or(0));
  progress.set_hour_rate(job.steps.average());
  progress.set_hour_ms(WireMilliseconds(job.steps.span()));
  return progress;
}

}  // namespace muster::rendezvous
