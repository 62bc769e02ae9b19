#include "agent/process/core/predecessor_probe.h"

namespace muster::agent {

bool PredecessorProbe::Take(BootTime now, const std::string& process) {
  if (process == dead_ || !asked_.empty() || now < next_) return false;
  asked_ = process;
  next_ = now + kProbeInterval;
  return true;
}

bool PredecessorProbe::OnAnswer(const std::string& process, bool dead) {
  if (asked_ != process) return false;
  asked_.clear();
  if (dead) dead_ = process;
  return dead;
}

}  // namespace muster::agent
