// A pipe whose ends close themselves. Any thread.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"

namespace muster {

struct Pipe {
  OwnedFd out;  // its reading end
  OwnedFd in;   // its writing end
};

// Not inherited by other programs. flags: O_NONBLOCK, or 0. Errors: no descriptor is left.
inline absl::StatusOr<Pipe> MakePipe(int flags = 0) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | flags) != 0) return absl::ErrnoToStatus(errno, "making a pipe");
  return Pipe{OwnedFd(ends[0]), OwnedFd(ends[1])};
}

}  // namespace muster
