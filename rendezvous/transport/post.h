// How this folder posts to the loop thread and reads the time. Both are passed in, so that the folder depends on
// no event loop.
#pragma once

#include <functional>

#include "base/core/time.h"

namespace muster::rendezvous {

// Callable from any thread. Runs the closure later on the loop thread, in order of posting, never inside the call.
using Post = std::function<void(std::function<void()>)>;

using Clock = std::function<BootTime()>;

}  // namespace muster::rendezvous
