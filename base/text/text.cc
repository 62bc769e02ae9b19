#include "base/text/text.h"

#include <algorithm>
#include <string_view>

#include "base/text/utf8.h"

namespace muster {
namespace {

// U+0080 to U+009F: control characters; U+2028 to U+202E, U+2066 to U+2069: ends of lines and changes of
// direction.
bool IsHarmful(std::string_view character) {
  const auto at = [&](size_t i) { return i < character.size() ? static_cast<unsigned char>(character[i]) : 0u; };
  if (character.size() == 1) return at(0) < 0x20 || at(0) == 0x7f;
  if (at(0) == 0xc2) return at(1) < 0xa0;
  return at(0) == 0xe2 &&
         ((at(1) == 0x80 && at(2) >= 0xa8 && at(2) <= 0xae) || (at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9));
}

}  // namespace

bool IsHostText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || std::string_view(".-_:%").find(c) != std::string_view::npos;
  });
}

std::string LastLine(std::string_view text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string_view::npos) return "";
  const size_t newline = text.rfind('\n', end);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return std::string(text.substr(begin, end + 1 - begin));
}

std::string OneLine(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string line;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = Utf8Length(rest);
    const std::string_view character = rest.substr(0, length == 0 ? 1 : length);
    rest.remove_prefix(character.size());
    if (character == "\n") {
      line += "\\n";
    } else if (character == "\t") {
      line += "\\t";
    } else if (length > 0 && !IsHarmful(character)) {
      line += character;
    } else {
      for (const unsigned char byte : character) {
        line.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
      }
    }
  }
  return line;
}

}  // namespace muster
