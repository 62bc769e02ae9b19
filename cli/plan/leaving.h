// When a node leaves by itself: the end of its machine is announced (--preemption-notice), or its deadline is near
// (--stop-before). Pure: reads files through a function.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "agent/host/core/host_core.h"
#include "cli/options/settings.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

inline constexpr absl::Duration kStopBefore = absl::Minutes(1);  // if only --deadline is given

// The source of preemption notices.
struct NoticePlan {
  v1::NoticeSource source;
  std::string shown = "off";  // "gce, at 169.254.169.254:80"
  std::string why;            // origin of that choice
};

// read_file: returns the text of a small file, nullopt if it cannot be read; called only for `auto`.
absl::StatusOr<NoticePlan> PlanNotice(
    const LeavingSettings& settings, const Environment& environment,
    const std::function<std::optional<std::string>(const std::string&)>& read_file);

struct DeadlinePlan {
  std::optional<host::StopBefore> stop;  // nullopt: no deadline, or --stop-before 0
  std::string deadline = "none";         // as shown to people
  std::string origin = "default";        // of the deadline
};

absl::StatusOr<DeadlinePlan> PlanDeadline(const LeavingSettings& settings, const Environment& environment);

}  // namespace muster::cli
