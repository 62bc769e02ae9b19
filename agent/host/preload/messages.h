// Messages between the host and the preloading Python: fields, and descriptors beside them. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/core/time.h"

namespace muster::host {

inline constexpr size_t kMaxPreloadMessage = 64 * 1024;  // bytes

// Neither blocks nor waits.
absl::Status SendMessage(int socket, const std::vector<std::string>& fields, const std::vector<int>& fds);

// Waits until `until` at most. DeadlineExceeded: there was no message; Unavailable: the other end is closed.
absl::StatusOr<std::vector<std::string>> ReceiveMessage(int socket, BootTime until);

// Texts that cannot hold a zero byte, each ended by one.
std::string JoinTexts(const std::vector<std::string>& texts);

}  // namespace muster::host
