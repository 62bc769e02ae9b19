#include "base/stacks/processor_need.h"

#include <algorithm>

namespace muster {

int ProcessorNeed(const std::map<pid_t, ProcessorUse>& before, const std::map<pid_t, ProcessorUse>& after,
                  absl::Duration between) {
  absl::Duration need;
  for (const auto& [pid, now] : after) {
    const auto then = before.find(pid);
    if (then == before.end()) continue;
    const absl::Duration used = now.used - then->second.used;
    need += std::max(absl::ZeroDuration(), used);
    if (used < kLeastUse) continue;
    const absl::Duration most = std::max(absl::ZeroDuration(), between - used);
    need += std::clamp(now.waited - then->second.waited, absl::ZeroDuration(), most);
  }
  return static_cast<int>(100 * absl::FDivDuration(need, between));
}

}  // namespace muster
