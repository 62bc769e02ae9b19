// Whether this machine has what the debugger of --debug needs when a round starts.
#pragma once

#include <optional>

#include "agent/host/core/debugged_rank.h"

namespace muster::host {

std::optional<Undebuggable> CheckDebugger(const DebuggedRank& debugged, const v1::Round& round, int slots);

}  // namespace muster::host
