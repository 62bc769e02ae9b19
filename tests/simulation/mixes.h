// The mixes of faults that a seed may have.
#pragma once

#include "tests/simulation/scenario.h"

namespace muster::simulation {

void DrawSwarm(Prng& prng, Scenario& scenario, bool rough);
void DrawAimed(Prng& prng, Scenario& scenario);
// These come from streams of their own, and replace all else of a seed.
void DrawHiddenRound(Prng prng, Scenario& scenario);
void DrawFarewell(Prng prng, Scenario& scenario);

void DrawAnew(Prng& prng, Scenario& scenario);  // job and habits; nothing but the seed is kept (scenario.cc)

}  // namespace muster::simulation
