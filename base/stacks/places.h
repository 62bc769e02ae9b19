// Where ranks stand, in words: those that stand at the same place are one group. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/stacks/rank_snapshot.h"

namespace muster {

// Where a rank stands: "in all_reduce, called at train.py:88 (step)", "at train.py:12 (wait_for_data)", or,
// without a Python stack, "it waits, in do_wait of the kernel (py-spy is not installed)". The innermost frame of
// the user's own code counts: which line of the library below it is reached is chance.
std::string WhereIs(const RankSnapshot& rank);

// The same after words that name its state: ", at train.py:12 (wait_for_data)", ", in do_wait of the kernel
// (py-spy is not installed)"; empty: nothing else is known.
std::string WhereBesideState(const RankSnapshot& rank);

// How many of the innermost frames are code that came with Python or with a package: what the user's own code has
// called.
size_t LibraryFrames(const PythonThread& thread);

struct RankGroup {
  std::string where;                       // as the first of them stands
  std::vector<const RankSnapshot*> ranks;  // by rank
};

// By their Python stacks. Else by whether they compute or wait, and those that wait by the function of the kernel
// in which they do; or by their state, if the kernel stops or holds them. The smallest group first; of equal ones
// that with the lowest rank. Refers to `ranks`.
std::vector<RankGroup> GroupByPlace(const std::vector<RankSnapshot>& ranks);

}  // namespace muster
