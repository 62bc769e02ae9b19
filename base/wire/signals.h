// Signals that people send to workers (`muster signal`).
#pragma once

#include <algorithm>
#include <csignal>
#include <iterator>

namespace muster {

// Whether it goes to all processes of a worker's group. Another signal, such as SIGUSR1, goes only to the
// processes that handle it: nobody expects that it ends one, as it does with all others.
inline bool GoesToGroup(int signal) {
  constexpr int kSuch[] = {SIGKILL, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGABRT, SIGSTOP, SIGCONT};
  return std::find(std::begin(kSuch), std::end(kSuch), signal) != std::end(kSuch);
}

}  // namespace muster
