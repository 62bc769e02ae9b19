#include "base/text/utf8.h"

namespace muster {

// Unicode, table 3-7.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

std::string ToUtf8(std::string_view text, size_t max_bytes) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view character = length == 0 ? std::string_view("?") : text.substr(0, length);
    if (clean.size() + character.size() > max_bytes) break;
    clean += character;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

}  // namespace muster
