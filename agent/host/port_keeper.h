// Reserves a TCP port for a round's master endpoint with a socket that is bound and never listens. The kernel
// gives such a port to no process that asks for any port. Once it is shared the socket has SO_REUSEADDR, so that
// worker 0's store can bind the port and listen on it, as could any other process. Lives on the loop thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace muster::host {

struct PortRange {
  uint16_t low = 0;  // both 0: any port
  uint16_t high = 0;
  uint16_t except = 0;  // the coordinator's port; a second bind would succeed, and worker 0 would listen there
};

class PortKeeper {
 public:
  explicit PortKeeper(PortRange range) : range_(range) {}
  ~PortKeeper() { Drop(); }
  PortKeeper(const PortKeeper&) = delete;
  PortKeeper& operator=(const PortKeeper&) = delete;

  // Reserves a port, different from the previous one unless the range has only one, and then releases the previous
  // one. Errors: no port of the range is free.
  absl::StatusOr<uint16_t> Renew();
  // Call it when the workers start. A port of a range is shared from the beginning, since several nodes of one
  // machine may be given the same one.
  void Share();
  void Drop();

  uint16_t port() const { return port_; }  // 0: none

 private:
  int KeepAny() const;  // descriptor, or -1 with errno
  int KeepInRange();    // descriptor, or -1 with errno

  const PortRange range_;
  int fd_ = -1;
  uint16_t port_ = 0;
};

}  // namespace muster::host
