#include "rendezvous/transport/auth.h"

#include <cstddef>

namespace muster::rendezvous {

bool TokenMatches(std::string_view expected, std::string_view presented) {
  if (expected.empty()) return true;
  volatile unsigned char difference = expected.size() == presented.size() ? 0 : 1;
  for (size_t i = 0; i < presented.size(); ++i) {
    const auto a = static_cast<unsigned char>(expected[i % expected.size()]);
    const auto b = static_cast<unsigned char>(presented[i]);
    difference = static_cast<unsigned char>(difference | (a ^ b));
  }
  return difference == 0;
}

}  // namespace muster::rendezvous
