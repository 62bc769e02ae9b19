// The coordinator's states and all transitions between them, each with its condition. Coordinator::Enter() checks
// every transition against this table, and a test compares the table with this folder's README.
#pragma once

#include <string_view>
#include <vector>

#include "base/core/time.h"

namespace muster::rendezvous {

struct Job;

enum class State { kRecovering, kGathering, kRunning, kDraining, kVerdict, kReleasing };

struct Transition {
  State from;
  State to;
  std::string_view event;
  std::string_view guard;   // condition
  std::string_view effect;  // order sent to all nodes
  // What must hold of the job when the state is entered: the condition, or as much of it as a glance at the whole
  // job can tell. A step that forgets a rule fails here, in every simulated and every real job.
  bool (*holds)(BootTime now, const Job& job);
};

std::string_view Name(State state);
const std::vector<Transition>& Transitions();
// Whether the job, which is in state `from`, may enter `to` now.
bool MayEnter(State to, BootTime now, const Job& job);

}  // namespace muster::rendezvous
