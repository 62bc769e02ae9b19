// Whether the former holder of this node's place, a process of the same machine, is dead: asked at most every
// kProbeInterval, one at a time. Pure.
#pragma once

#include <string>

#include "base/core/time.h"

namespace muster::agent {

inline constexpr absl::Duration kProbeInterval = absl::Seconds(1);

class PredecessorProbe {
 public:
  // process: Holder.process. True: the shell must probe it now, and OnAnswer must follow.
  bool Take(BootTime now, const std::string& process);
  bool OnAnswer(const std::string& process, bool dead);  // true: the death is news
  const std::string& dead() const { return dead_; }      // Holder.process; empty: none is known

 private:
  std::string asked_;
  BootTime next_ = absl::InfinitePast();
  std::string dead_;
};

}  // namespace muster::agent
