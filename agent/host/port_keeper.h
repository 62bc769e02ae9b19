// Keeps a TCP port for a round's master endpoint: bound, never listening, with SO_REUSEADDR. The kernel hands such
// a port to nobody who asks for any port, and still lets worker 0's store bind and listen on it. Loop thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace muster::host {

struct PortRange {
  uint16_t low = 0;  // both 0: any port
  uint16_t high = 0;
  uint16_t except = 0;  // the coordinator's, which it shares with whoever keeps it: then both would listen there
};

class PortKeeper {
 public:
  explicit PortKeeper(PortRange range) : range_(range) {}
  ~PortKeeper() { Drop(); }
  PortKeeper(const PortKeeper&) = delete;
  PortKeeper& operator=(const PortKeeper&) = delete;

  // Keeps a port, another one than before where the range has more than one; the old one is dropped after that.
  // Errors: no port of the range is free.
  absl::StatusOr<uint16_t> Renew();
  void Drop();

  uint16_t port() const { return port_; }  // 0: none

 private:
  int KeepAny() const;  // -1 and errno
  int KeepInRange();    // -1 and errno

  const PortRange range_;
  int fd_ = -1;
  uint16_t port_ = 0;
};

}  // namespace muster::host
