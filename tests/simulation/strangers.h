// Strangers that contact the coordinator: nodes of another job, or of another version of muster, with texts of the
// maximum length.
#pragma once

#include "tests/simulation/execution.h"

namespace muster::simulation {

class Strangers {
 public:
  Strangers(Environment* env, Cluster* cluster, Execution* execution, Checks* checks)
      : env_(env), cluster_(cluster), execution_(execution), checks_(checks) {}

  void Knock();

 private:
  v1::AgentStatus Draw(const CoordinatorHome& home);

  Environment* env_;
  Cluster* cluster_;
  Execution* execution_;
  Checks* checks_;
};

}  // namespace muster::simulation
