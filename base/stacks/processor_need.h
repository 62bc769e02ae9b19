// How much of a processor the processes of a rank need, from two looks at them. On a busy machine one that spins
// has but a part of a processor, and waits for it the rest of the time. Pure.
#pragma once

#include <sys/types.h>

#include <map>

#include "absl/time/time.h"

namespace muster {

// What one process has used since its start.
struct ProcessorUse {
  absl::Duration used;    // by all of its threads
  absl::Duration waited;  // for how long its first thread could run but had no processor
};

// One that spins uses up its share, some milliseconds, whenever it has a processor. One that is woken for a moment
// uses less, and may have waited long for that.
inline constexpr absl::Duration kLeastUse = absl::Milliseconds(2);

// In percent of one processor. A process that has ended meanwhile counts for nothing: its times are gone. Waits
// count only of those that have used kLeastUse, and for no longer than the time between the looks, because the
// kernel counts a wait when it ends.
int ProcessorNeed(const std::map<pid_t, ProcessorUse>& before, const std::map<pid_t, ProcessorUse>& after,
                  absl::Duration between);

}  // namespace muster
