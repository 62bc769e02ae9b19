// Hashes that stand for long or secret bytes. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace muster {

std::string Sha256(std::string_view bytes);  // 32 bytes

// The first half of it: 32 hexadecimal digits. Nobody finds other bytes with the same one.
std::string ShortHash(std::string_view bytes);

}  // namespace muster
