// When to say what one waits for: after a second, when it changes, and then ever more rarely. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"

namespace muster {

class WaitingLine {
 public:
  // What is waited for from now on; empty: nothing. The answer is a line to be said now, if any.
  std::optional<std::string> Set(BootTime now, std::string what);
  std::optional<std::string> OnTick(BootTime now);

 private:
  std::string what_;
  BootTime since_ = absl::InfinitePast();
  BootTime next_ = absl::InfiniteFuture();
};

}  // namespace muster
