// The coordinator's states and all transitions between them. Enter() checks each transition against this table,
// and a test compares the table with this folder's README.
#pragma once

#include <string_view>
#include <vector>

namespace muster::rendezvous {

enum class State { kRecovering, kGathering, kRunning, kDraining, kVerdict, kReleasing };

struct Transition {
  State from;
  State to;
  std::string_view event;
  std::string_view guard;   // condition
  std::string_view effect;  // order sent to all nodes
};

std::string_view Name(State state);
const std::vector<Transition>& Transitions();
bool IsListed(State from, State to);

}  // namespace muster::rendezvous
