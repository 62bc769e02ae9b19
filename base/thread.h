// Starts a thread, or says why there is none: std::thread throws, and nobody here catches.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"

namespace muster {

// Why the kernel refused a process or a thread. EPERM never comes from a shortage: seccomp profiles from before
// clone3 (Linux 5.3) answer with it, and the C library tries clone() instead only where the answer is ENOSYS.
inline std::string WhyRefused(const std::error_code& error) {
  if (error != std::errc::operation_not_permitted) return error.message();
  return "an old seccomp profile refuses clone3 here (" + error.message() +
         "): update the container runtime (Docker 20.10.10 or newer) or run with seccomp=unconfined";
}

// ResourceExhausted: the machine gives no thread.
template <typename Function>
absl::StatusOr<std::thread> StartThread(Function function) {
  try {
    return std::thread(std::move(function));
  } catch (const std::system_error& error) {
    const bool shortage = error.code() != std::errc::operation_not_permitted;
    return absl::ResourceExhaustedError(std::string("cannot start a thread") +
                                        (shortage ? " (ulimit -u, pids.max): " : ": ") + WhyRefused(error.code()));
  }
}

}  // namespace muster
