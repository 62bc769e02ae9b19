// The checks that run along with a simulated cluster: the parts of the world report what happens to them.
#pragma once

#include "tests/simulation/conduct.h"
#include "tests/simulation/environment.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/policies.h"

namespace muster::simulation {

struct Checks {
  Checks(Environment* env, const Cluster* cluster)
      : invariants(env->scenario(), env, cluster),
        policies(env->scenario(), env, cluster, &invariants),
        conduct(env->scenario(), env, cluster, &invariants) {}

  Invariants invariants;
  Policies policies;
  Conduct conduct;
};

}  // namespace muster::simulation
