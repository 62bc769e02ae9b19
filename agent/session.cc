#include "agent/session.h"

namespace muster::agent {

v1::AgentStatus Coalesce(const v1::AgentStatus& waiting, const v1::AgentStatus& newer) {
  const bool refers_to_waiting = newer.unchanged_since() != 0 && waiting.unchanged_since() == 0 &&
                                 newer.unchanged_since() == waiting.id().seq();
  if (!refers_to_waiting) return newer;
  v1::AgentStatus whole = waiting;
  *whole.mutable_id() = newer.id();
  *whole.mutable_applied() = newer.applied();
  whole.set_in_job_ms(newer.in_job_ms());
  whole.set_gathering_ms(newer.gathering_ms());
  return whole;
}

}  // namespace muster::agent
