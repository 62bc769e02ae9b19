// The start of a round: its number, its ranks, and what is forgotten of the one before.
#pragma once

#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/roster.h"

namespace muster::rendezvous {

struct Job;

// members: in the order of their ranks. job->why is the reason why it begins now.
void BeginRound(BootTime now, const std::vector<Candidate>& members, Job* job, Effects* out);

}  // namespace muster::rendezvous
