// The readable log of one world: a line for each event, only where somebody takes it.
#pragma once

#include <functional>
#include <string>

#include "tests/simulation/prng.h"

namespace muster::simulation {

using TakeLine = std::function<void(Micros now, const std::string& category, const std::string& text)>;

class Trace {
 public:
  explicit Trace(TakeLine take) : take_(std::move(take)) {}
  bool on() const { return take_ != nullptr; }

  void Line(Micros now, const char* category, const std::string& text) const {
    if (take_) take_(now, category, text);
  }

 private:
  TakeLine take_;
};

}  // namespace muster::simulation
