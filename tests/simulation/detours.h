// Wrong destinations of an agent that looks for its coordinator: another job's coordinator, a server or a proxy
// that refuses or resets the stream, an outdated address.
#pragma once

#include "tests/simulation/execution.h"

namespace muster::simulation {

class Detours {
 public:
  Detours(Environment* env, Execution* execution) : scenario_(env->scenario()), env_(env), execution_(execution) {}

  // Whether this attempt to connect leads elsewhere. If so, its outcome is planned here.
  bool Take(AgentProcess* agent, uint64_t attempt, Micros delay);

 private:
  void ReachAnotherJob(AgentProcess* agent, uint64_t attempt);
  void RefuseStream(AgentProcess* agent, uint64_t attempt);
  void EndStream(AgentProcess* agent, uint64_t attempt, int code, bool was_open);

  const Scenario& scenario_;
  Environment* env_;
  Execution* execution_;
};

}  // namespace muster::simulation
