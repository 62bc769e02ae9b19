// Converts text from outside for a protobuf string, which must be UTF-8: names of processes and programs may
// contain other bytes, and a cut may split a character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// Bytes of the well-formed character at the start of a text that is not empty; 0: the text is malformed there.
size_t Utf8Length(std::string_view text);

// At most max_bytes of text; invalid bytes become '?'. A character that does not fit completely is left out.
std::string ToUtf8(std::string_view text, size_t max_bytes);

}  // namespace muster
