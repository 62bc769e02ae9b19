// Starts a thread, or says why there is none: std::thread throws, and nobody here catches.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"

namespace muster {

// ResourceExhausted: the machine gives no thread (ulimit -u, a container's pids.max, no memory).
template <typename Function>
absl::StatusOr<std::thread> StartThread(Function function) {
  try {
    return std::thread(std::move(function));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError("no thread can be started (ulimit -u, pids.max): " +
                                        error.code().message());
  }
}

}  // namespace muster
