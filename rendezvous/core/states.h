// The coordinator's states and every way from one to another. What is not in the table does not happen: Enter()
// checks it, and a test renders the table into this folder's README.
#pragma once

#include <string_view>
#include <vector>

namespace muster::rendezvous {

enum class State { kRecovering, kGathering, kRunning, kDraining, kVerdict, kReleasing };

struct Transition {
  State from;
  State to;
  std::string_view event;   // what happened
  std::string_view guard;   // and under which condition
  std::string_view effect;  // what everybody is told
};

std::string_view Name(State state);
const std::vector<Transition>& Transitions();
bool IsListed(State from, State to);

}  // namespace muster::rendezvous
