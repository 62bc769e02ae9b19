// A pipe in the place of a terminal, for tests of what is written there.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace muster {

struct Pipe {
  Pipe() {
    if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
  }
  ~Pipe() {
    for (int fd : fds) {
      if (fd >= 0) close(fd);
    }
  }
  void CloseIn() {
    close(fds[1]);
    fds[1] = -1;
  }
  std::string ReadAvailable(int wait_ms) {
    std::string all;
    char bytes[65536];
    pollfd ready{fds[0], POLLIN, 0};
    while (poll(&ready, 1, wait_ms) > 0) {
      const ssize_t got = read(fds[0], bytes, sizeof(bytes));
      if (got <= 0) break;
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }
  int fds[2];
};

}  // namespace muster
