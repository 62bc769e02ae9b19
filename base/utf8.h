// Text from outside made fit for a protobuf string, which must be UTF-8: names of processes and programs need not
// be, and a cut may fall within a character.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// At most max_bytes of text; bytes that are not UTF-8 become '?'. A character that does not fit whole is left out.
std::string ToUtf8(std::string_view text, size_t max_bytes);

}  // namespace muster
