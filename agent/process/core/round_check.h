// Whether a round can be as the coordinator describes it, beyond the ranges of its fields (base/wire/ranges.h).
// Without a token whoever answers at the coordinator's address is obeyed, and what it says gets into the workers'
// environment, and from there into scripts. Pure.
#pragma once

#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

// What no coordinator says of a round that this node is to start, for one line; empty: nothing. slots: how many
// workers it starts.
std::string WhyUnsound(const v1::Round& round, int slots);

// The same for a directive, and the run in it.
std::string WhyUnsound(const v1::Directive& directive, int slots);

}  // namespace muster::agent
