// Which ranks of a job that does not go on are most likely the reason. The others mostly wait for them, and so
// stand at one and the same place. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/stacks/places.h"
#include "base/stacks/rank_snapshot.h"

namespace muster {

struct Suspects {
  std::vector<int> ranks;  // sorted; empty: none differs from the others
  std::string why;  // a clause: "it is stopped", "they stand elsewhere than the other 6"; also why there is none
  bool by_state = false;  // which names the state of their processes
  bool is_weak = false;   // it may be chance: without stacks, say, the kernel may show two waits that differ
};

// The first of these that is true of some ranks, but not of all: they have ended; they are stopped; the kernel
// holds them where no signal reaches them; they stand at a place where fewer ranks stand than elsewhere. Of
// several places with as few ranks all are suspects, as two that wait for each other are, but not more than half
// of all ranks. If nobody stands elsewhere, those are that wait in no collective operation of torch, while others
// wait in one; a weak sign.
Suspects FindSuspects(const std::vector<RankSnapshot>& ranks);

// As GroupByPlace, but the groups with suspects come first. Refers to `ranks`.
std::vector<RankGroup> GroupsOfSuspectsFirst(const std::vector<RankSnapshot>& ranks, const Suspects& suspects);

// "suspect: rank 3: it is stopped", "suspects: ranks 2-3: they have ended". Of some suspects at least.
std::string Describe(const Suspects& suspects);

}  // namespace muster
