// A short name for long or secret bytes. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// The first half of the SHA-256: 32 hexadecimal digits. Nobody finds other bytes with the same one.
std::string ShortHash(std::string_view bytes);

}  // namespace muster
