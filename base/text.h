// Cuts, escapes and joins text. Cutting never splits a character, since a protobuf string must be UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster {

// The beginning of `text` (valid UTF-8), at most max_bytes long, without a partial character.
inline std::string CutUtf8(const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xc0) == 0x80) --max_bytes;
  return text.substr(0, max_bytes);
}

// The end of `text`, in the same way.
inline std::string CutUtf8Front(const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t begin = text.size() - max_bytes;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) ++begin;
  return text.substr(begin);
}

// Escapes foreign text for one line of a log, so that it cannot end, colour or reverse the line: control
// characters (C0, DEL, C1) and characters that end a line or change its direction become \n, \t, or \xNN for each
// byte. Other UTF-8 stays.
inline std::string OneLine(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto at = [&text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  std::string line;
  size_t escaped_until = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = at(i);
    const bool is_c1 = c == 0xc2 && at(i + 1) >= 0x80 && at(i + 1) < 0xa0;
    const bool is_direction = c == 0xe2 && ((at(i + 1) == 0x80 && at(i + 2) >= 0xa8 && at(i + 2) <= 0xae) ||
                                            (at(i + 1) == 0x81 && at(i + 2) >= 0xa6 && at(i + 2) <= 0xa9));
    if (is_c1) escaped_until = i + 2;
    if (is_direction) escaped_until = i + 3;
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (c < 0x20 || c == 0x7f || i < escaped_until) {
      line.append("\\x").append(1, kHex[c >> 4]).append(1, kHex[c & 15]);
    } else {
      line += text[i];
    }
  }
  return line;
}

// "a, b and 7 more"
inline std::string JoinAtMost(const std::vector<std::string>& items, size_t most) {
  std::string text;
  for (size_t i = 0; i < items.size() && i < most; ++i) text += (i > 0 ? ", " : "") + items[i];
  if (items.size() > most) text += " and " + std::to_string(items.size() - most) + " more";
  return text;
}

}  // namespace muster
