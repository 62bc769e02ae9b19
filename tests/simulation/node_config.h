// The configuration of a node of the simulated job, and its deadline.
#pragma once

#include <optional>

#include "tests/simulation/processes.h"

namespace muster::simulation {

v1::NodeConfig MakeConfig(const Scenario& scenario, int place, const Machine& machine);

// A host that starts near the deadline gets none, as if its job had been given more time.
std::optional<host::StopBefore> MakeStopBefore(const Scenario& scenario, const Machine& machine, Micros now);
// From then on a node may leave, because it starts no round that would end soon.
absl::Time MayLeaveFrom(const host::StopBefore& stop);

}  // namespace muster::simulation
