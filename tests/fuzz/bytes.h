// An input as a list of choices. At its end every choice is 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::fuzz {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    const std::string_view one = Take(1);
    return one.empty() ? uint8_t{0} : static_cast<uint8_t>(one.front());
  }
  // As many as there are.
  std::string_view Take(size_t size) {
    const std::string_view taken = rest_.substr(0, std::min(size, rest_.size()));
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace muster::fuzz
