// Where the kernel counts the memory of this process's container.
#pragma once

#include <string>
#include <vector>

namespace muster::host {

struct MemoryCgroup {
  std::string folder;
  bool v2 = false;  // otherwise v1, whose files have other names
};

// The folders that may be this process's, the likeliest first: in a container the path that the kernel names may
// be that of the outer namespace, and the mount's root the container's.
std::vector<MemoryCgroup> MemoryCgroups();

}  // namespace muster::host
