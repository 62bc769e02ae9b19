// Reserves a TCP port for a round's master endpoint with a socket that is bound, never listens, and has
// SO_REUSEADDR. The kernel gives such a port to no process that asks for any port, and still lets worker 0's store
// bind it and listen on it. Lives on the loop thread.
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
