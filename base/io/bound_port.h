// A TCP port that a socket is bound to, at every address of this machine, on which nobody listens.
#pragma once

#include <cstdint>

#include "base/io/owned_fd.h"

namespace muster {

// port: 0: any. shared: others that are bound so may have it, too, but not while somebody listens on it. Not
// valid: errno says why.
OwnedFd BindPort(uint16_t port, bool shared);

}  // namespace muster
