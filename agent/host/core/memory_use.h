// How much memory this node's container uses.
#pragma once

#include <cstdint>

namespace muster::host {

struct MemoryUse {
  uint64_t used = 0;   // bytes, without pages of files, which the kernel gives up first
  uint64_t limit = 0;  // bytes; 0: none, or not known
};

}  // namespace muster::host
