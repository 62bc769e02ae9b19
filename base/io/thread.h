// Starts a thread or returns an error; std::thread itself throws, and muster catches no exceptions elsewhere.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"

namespace muster {

// Explains why the kernel refused to start a process or a thread. EPERM never means a shortage: seccomp profiles
// older than clone3 (Linux 5.3) return it for clone3, and the C library falls back to clone() only on ENOSYS.
inline std::string WhyRefused(const std::error_code& error) {
  if (error != std::errc::operation_not_permitted) return error.message();
  return "an old seccomp profile refuses clone3 here (" + error.message() +
         "): update the container runtime (Docker 20.10.10 or newer) or run with seccomp=unconfined";
}

// ResourceExhausted: the thread could not be started.
template <typename Function>
absl::StatusOr<std::thread> StartThread(Function function) {
  try {
    return std::thread(std::move(function));
  } catch (const std::system_error& error) {
    const bool shortage = error.code() != std::errc::operation_not_permitted;
    return absl::ResourceExhaustedError(std::string("cannot start a thread") +
                                        (shortage ? " (ulimit -u, ulimit -v, pids.max): " : ": ") +
                                        WhyRefused(error.code()));
  }
}

}  // namespace muster
