// The coordinator's states. What leads from one to the next: states.h.
#pragma once

#include <string_view>

namespace muster::rendezvous {

enum class State { kRecovering, kGathering, kRunning, kDraining, kVerdict, kReleasing };

std::string_view Name(State state);

}  // namespace muster::rendezvous
