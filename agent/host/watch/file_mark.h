// What changes of a file when it is written or touched. A call may block, if the file system does not answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace muster::host {

// Modification time (seconds, nanoseconds), size, inode. nullopt: there is no such file, or no access to it.
using FileMark = std::optional<std::tuple<int64_t, int64_t, int64_t, uint64_t>>;

FileMark MarkOf(const std::string& path);

}  // namespace muster::host
