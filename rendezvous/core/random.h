// Random numbers from given entropy: epochs and pauses need them, and the core has no source of its own.
#pragma once

#include <cstdint>

namespace muster::rendezvous {

class Random {  // splitmix64
 public:
  explicit Random(uint64_t entropy) : state_(entropy) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace muster::rendezvous
