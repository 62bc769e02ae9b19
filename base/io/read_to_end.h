// Reads what a descriptor holds. Any thread; blocks as long as the file system does.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

namespace muster {

// Appends to `text` up to the end, or until that has more than max_bytes bytes. Returns errno; 0: no error.
inline int ReadToEnd(int fd, size_t max_bytes, std::string* text) {
  std::array<char, 4096> chunk;
  while (text->size() <= max_bytes) {
    const ssize_t got = read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    text->append(chunk.data(), static_cast<size_t>(got));
  }
  return 0;
}

}  // namespace muster
