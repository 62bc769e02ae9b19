// Whether another process has taken the port on which rank 0 must listen.
#pragma once

#include <cstdint>
#include <string>

namespace muster::host {

// The process that listens on the port, "python3 (pid 71)". Empty: none, or one that descends from this process: a
// worker's child may have inherited the socket. Blocks for at most twice kHolderSearchLimit, if somebody listens.
std::string WhoTook(uint16_t port);

}  // namespace muster::host
