// All transitions between the coordinator's states, each with its condition and what is done then. They drive: a
// step takes the first row of the present state whose condition holds. A test renders the table into this folder's
// README.
#pragma once

#include <string_view>
#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/actions.h"
#include "rendezvous/core/glance.h"
#include "rendezvous/core/state.h"

namespace muster::rendezvous {

struct Job;

struct Transition {
  State from;
  State to;
  std::string_view event;
  std::string_view guard;   // condition
  std::string_view effect;  // order sent to all nodes
  bool (*holds)(const Glance& glance);
  // nullptr: it is taken when the status is learned (learning.h), not in a step.
  Action* act;
};

const std::vector<Transition>& Transitions();

// The row that a step takes; nullptr: none.
const Transition* NextTransition(const Glance& glance);

// Whether a status may lead from the job's state to `to` as it is learned.
bool MayBeLearned(State to, BootTime now, const Job& job);

}  // namespace muster::rendezvous
