// What a coordinator believes of a round, or of a success, that it did not see itself. Nodes report them, and a
// node may be in other hands: it would have the job end as a success that is none.
//
// The host of this coordinator's own process was there, and is believed at once. Others are believed once every
// node that may hold a lease of the predecessor has had time to return, unless one contradicts. A node that has
// heard of the round from the predecessor does not contradict, whether or not it had a part in it. Nor is a
// success believed if a whole job's nodes are here that are all new.
#pragma once

#include <map>
#include <string>

#include "base/time.h"
#include "rendezvous/core/greatest_round.h"

namespace muster::rendezvous {

struct Job;

// For Round.members: host ids by node rank.
std::string MembersDigest(const std::map<int, std::string>& members);

// Judges the greatest round by what the nodes report now. To be called before each decision.
void WeighRound(BootTime now, Job* job);

// A node carries a verdict 0 that this coordinator has not reached itself. Until it is judged, no round begins or
// ends.
bool WeighsASuccess(const Job& job);
// Open as long as there is something to wait for. For a job that weighs one.
Belief WeighSuccess(BootTime now, Job* job);
std::string WhoContradictsSuccess(const Job& job);

}  // namespace muster::rendezvous
