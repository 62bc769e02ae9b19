// Log lines that any node can cause share one budget, since a node can come back under ever new names.
#pragma once

#include "base/core/allowance.h"
#include "base/core/time.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

inline constexpr double kNodeLinesBurst = 2'000;
inline constexpr double kNodeLinesPerSecond = 1;
inline constexpr double kLeftOutLinesPerSecond = 1.0 / 600;  // that such lines are left out

class NodeLines {
 public:
  // Whether one more line may be logged. If not, it says now and then that lines are left out.
  bool Take(BootTime now, Effects* out) {
    if (lines_.Take(now)) return true;
    if (left_out_.Take(now)) {
      Say(Severity::kWarning,
          "too many nodes are unusable, usable again or confirmed dead: some of these lines are left out", out);
    }
    return false;
  }

 private:
  Allowance lines_{kNodeLinesBurst, kNodeLinesPerSecond};
  Allowance left_out_{1, kLeftOutLinesPerSecond};
};

}  // namespace muster::rendezvous
