#include "base/wire/time_spent.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/text/duration.h"

namespace muster {
namespace {

// Seconds do not matter in hours.
std::string Rough(int64_t ms) {
  const absl::Duration time = absl::Milliseconds(ms);
  return muster::FormatDuration(absl::Trunc(time, time >= absl::Hours(1) ? absl::Minutes(1) : absl::Seconds(1)));
}

}  // namespace

std::string DescribeTime(const v1::TimeSpent& time) {
  const std::pair<int64_t, const char*> kinds[] = {{time.stepping_ms(), "in steps"},
                                                   {time.repeating_ms(), "in steps done again"},
                                                   {time.running_ms(), "running"},
                                                   {time.starting_ms(), "starting"},
                                                   {time.warming_up_ms(), "to the first step"},
                                                   {time.restarting_ms(), "restarting"},
                                                   {time.waiting_ms(), "waiting for nodes"},
                                                   {time.stalled_ms(), "stalled"}};
  std::vector<std::string> parts;
  for (const auto& [ms, what] : kinds) {
    if (ms >= 1'000) parts.push_back(absl::StrCat(Rough(ms), " ", what));
  }
  if (parts.empty()) return "under a second";
  const std::string again = time.repeated_round() == 0
                                ? ""
                                : absl::StrCat("; round ", time.repeated_round(), " went from step ",
                                               time.repeated_from(), " back to ", time.repeated_to());
  return absl::StrCat(Rough(time.counted_ms()), ": ", absl::StrJoin(parts, ", "), again);
}

nlohmann::ordered_json TimeObject(const v1::TimeSpent& time) {
  const auto seconds = [](int64_t ms) { return static_cast<double>(ms) / 1'000; };
  nlohmann::ordered_json object;
  object["counted_s"] = seconds(time.counted_ms());
  object["waiting_s"] = seconds(time.waiting_ms());
  object["restarting_s"] = seconds(time.restarting_ms());
  object["starting_s"] = seconds(time.starting_ms());
  object["warming_up_s"] = seconds(time.warming_up_ms());
  object["stepping_s"] = seconds(time.stepping_ms());
  object["repeating_s"] = seconds(time.repeating_ms());
  object["running_s"] = seconds(time.running_ms());
  object["stalled_s"] = seconds(time.stalled_ms());
  object["repeated"] = nullptr;
  if (time.repeated_round() != 0)
    object["repeated"] = {
        {"round", time.repeated_round()}, {"from", time.repeated_from()}, {"to", time.repeated_to()}};
  return object;
}

}  // namespace muster
