// Which pod this process is in. Any thread.
#pragma once

#include <string>

namespace muster {

// The same for all containers of one pod, and for no other pod: they share a network namespace. Empty: not in a
// container.
std::string PodHere();

}  // namespace muster
