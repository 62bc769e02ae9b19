// Many names in few words, as Slurm writes them: "gpu-[01-16,18]", "login". Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::cli {

// Names that differ in their last number alone share one entry; it keeps leading zeros. In the order of the names,
// by which numbers count as numbers; a name that occurs twice is shown once.
std::string NameRanges(const std::vector<std::string>& names);

}  // namespace muster::cli
