// Cuts, escapes and joins text. Cutting never splits a character, since a protobuf string must be UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
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

// The last line that is not empty; empty if there is none.
std::string LastLine(std::string_view text);

// Escapes foreign text for one line of a log, so that it cannot end, colour or reverse the line: control
// characters (C0, DEL, C1), characters that end a line or change its direction, and bytes that are not UTF-8
// become \n, \t, or \xNN for each byte. Other UTF-8 stays. Escaping twice is the same as once.
std::string OneLine(const std::string& text);

// Whether this can be an address (without brackets, perhaps with a zone: fe80::1%eth0) or the name of a host:
// letters, digits, and ".-_:%" alone. Options and messages of other nodes are checked by the same rule. Workers
// find it in their environment (MASTER_ADDR), and scripts put it into commands. Also true of an empty text.
bool IsHostText(std::string_view text);

// "a, b and 7 more"
inline std::string JoinAtMost(const std::vector<std::string>& items, size_t most) {
  std::string text;
  for (size_t i = 0; i < items.size() && i < most; ++i) text += (i > 0 ? ", " : "") + items[i];
  if (items.size() > most) text += " and " + std::to_string(items.size() - most) + " more";
  return text;
}

}  // namespace muster
