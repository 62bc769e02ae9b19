// The header of a message on a unix socket: its length, 4 bytes, little-endian.
#pragma once

#include <cstddef>
#include <string>

namespace muster {

inline constexpr size_t kFrameHeaderBytes = 4;

inline void AppendFrameHeader(size_t length, std::string* out) {
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) out->push_back(static_cast<char>((length >> (8 * i)) & 0xff));
}

inline size_t ParseFrameHeader(const char* bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) length |= size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return length;
}

}  // namespace muster
