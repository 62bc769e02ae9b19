// The only source of randomness in a simulated world: splitmix64 on integers, so that a seed gives the same
// schedule with every compiler and library.
#pragma once

#include <cstdint>

namespace muster::simulation {

using Micros = int64_t;  // virtual microseconds since the world began

inline constexpr Micros kMillisecond = 1000;
inline constexpr Micros kSecond = 1000 * kMillisecond;

class Prng {
 public:
  // The seed is scattered first: neighbouring seeds must not be the same stream, shifted.
  explicit Prng(uint64_t seed) : state_(seed) {
    state_ = Next() ^ 0x6A09E667F3BCC909u;
    state_ = Next();
  }

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // 0 <= result < n. The bias of the modulus does not matter here.
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : Next() % n; }
  int64_t Between(int64_t low, int64_t high) { return low + static_cast<int64_t>(Below(high - low + 1)); }
  bool Chance(int percent) { return static_cast<int>(Below(100)) < percent; }

  // Roughly exponential with this mean, at most eight times the mean: -ln(u) by integers.
  Micros Exponential(Micros mean) {
    const uint64_t u = Next() | 1;
    const int zeros = __builtin_clzll(u);
    const uint64_t mantissa = (u << zeros) << 1 >> 48;  // 16 bits after the leading one
    const int64_t minus_log2 =
        ((zeros + 1) << 16) - static_cast<int64_t>(mantissa);  // 16.16, linear between powers
    const int64_t value = mean * minus_log2 / 65536 * 693 / 1000;
    return value > 8 * mean ? 8 * mean : value;
  }

  // Spread over orders of magnitude between low and high (both positive).
  Micros Skewed(Micros low, Micros high) {
    int doublings = 0;
    while ((low << (doublings + 1)) <= high) ++doublings;
    const Micros from = low << Below(doublings + 1);
    const Micros value = Between(from, 2 * from);
    return value > high ? high : value;
  }

 private:
  uint64_t state_;
};

}  // namespace muster::simulation
