#include "agent/core/predecessor_probe.h"

namespace muster::agent {

bool PredecessorProbe::Take(BootTime now, const std::string& holder_id) {
  if (holder_id == dead_ || !asked_.empty() || now < next_) return false;
  asked_ = holder_id;
  next_ = now + kProbeInterval;
  return true;
}

bool PredecessorProbe::OnAnswer(const std::string& holder_id, bool dead) {
  if (asked_ != holder_id) return false;
  asked_.clear();
  if (dead) dead_ = holder_id;
  return dead;
}

}  // namespace muster::agent
