// When a node is to leave by itself: its machine's end is announced (--preemption-notice), or its time is nearly
// over (--stop-before). Pure: the machine is asked through the function that is given.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "agent/host/core/host_core.h"
#include "cli/options/settings.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

inline constexpr absl::Duration kStopBefore = absl::Minutes(1);  // where a deadline was said and nothing else

// Where the end of this machine is announced.
struct NoticePlan {
  v1::NoticeSource source;
  std::string shown = "off";  // "gce, at 169.254.169.254:80"
  std::string why;            // where that is from
};

// read_file: a small file's text, nullopt if it cannot be read; only asked for `auto`.
absl::StatusOr<NoticePlan> PlanNotice(
    const Settings& settings, const Environment& environment,
    const std::function<std::optional<std::string>(const std::string&)>& read_file);

struct DeadlinePlan {
  std::optional<host::StopBefore> stop;  // none: the node has no deadline, or is not to care
  std::string deadline = "none";         // for people, and where it is from
  std::string from = "default";
};

absl::StatusOr<DeadlinePlan> PlanDeadline(const Settings& settings, const Environment& environment);

}  // namespace muster::cli
