// How this folder reaches the loop thread and reads the time. Both are given from outside, so that it depends on
// no event loop.
#pragma once

#include <functional>

#include "base/time.h"

namespace muster::rendezvous {

// From any thread: runs the closure later on the loop thread, in order of posting, never from inside the call.
using Post = std::function<void(std::function<void()>)>;

using Clock = std::function<BootTime()>;

}  // namespace muster::rendezvous
