// How often something may happen: so often at once, and so often more with each second. Pure.
#pragma once

#include <algorithm>

#include "base/core/time.h"

namespace muster {

class Allowance {
 public:
  Allowance(double burst, double per_second) : burst_(burst), per_second_(per_second), left_(burst) {}

  // Whether it may happen now. Time does not go back.
  bool Has(BootTime now) {
    if (now > counted_at_) {
      const double since = counted_at_ == absl::InfinitePast() ? 0 : absl::ToDoubleSeconds(now - counted_at_);
      left_ = std::min(burst_, left_ + since * per_second_);
      counted_at_ = now;
    }
    return left_ >= 1;
  }
  // Whether it may happen as often at once as ever.
  bool IsFull(BootTime now) { return Has(now) && left_ >= burst_; }
  void Spend() { left_ -= 1; }
  void GiveBack() { left_ = std::min(burst_, left_ + 1); }

  // Spends one if there is one; returns whether there was.
  bool Take(BootTime now) {
    if (!Has(now)) return false;
    Spend();
    return true;
  }

 private:
  double burst_;
  double per_second_;
  double left_;
  BootTime counted_at_ = absl::InfinitePast();
};

}  // namespace muster
