// Gives memory back that only the start of a process needed.
#pragma once

#include "absl/time/time.h"

namespace muster {

// A process of muster has done by then what it does once.
inline constexpr absl::Duration kStartIsOver = absl::Seconds(5);

// Unmaps the pages of the program's code and constants, most of which were touched by the start alone: what runs on is
// mapped again from the page cache, without reading the disk while it is there. Under memory pressure the kernel takes
// unmapped pages first. From any thread.
void DropStartPages();

}  // namespace muster
