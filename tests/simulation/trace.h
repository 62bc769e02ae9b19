// The readable log of one world: a line per event, only when asked for.
#pragma once

#include <cstdio>
#include <string>

#include "tests/simulation/prng.h"

namespace muster::simulation {

class Trace {
 public:
  explicit Trace(bool on) : on_(on) {}
  bool on() const { return on_; }

  void Line(Micros now, const char* category, const std::string& text) const {
    if (!on_) return;
    std::printf("%11.6f  %-11s %s\n", static_cast<double>(now) / kSecond, category, text.c_str());
  }

 private:
  bool on_;
};

}  // namespace muster::simulation
