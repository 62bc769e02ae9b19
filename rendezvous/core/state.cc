#include "rendezvous/core/state.h"

namespace muster::rendezvous {

std::string_view Name(State state) {
  switch (state) {
    case State::kRecovering:
      return "RECOVERING";
    case State::kGathering:
      return "GATHERING";
    case State::kRunning:
      return "RUNNING";
    case State::kDraining:
      return "DRAINING";
    case State::kVerdict:
      return "VERDICT";
    case State::kReleasing:
      return "RELEASING";
  }
  return "?";
}

}  // namespace muster::rendezvous
