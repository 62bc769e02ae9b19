// How a process ends.
#pragma once

#include "agent/host/core/host_core.h"

namespace muster::simulation {

inline host::Ending BySignal(int signal) {
  host::Ending ending;
  ending.by_signal = true;
  ending.number = signal;
  return ending;
}

inline host::Ending WithCode(int code) {
  host::Ending ending;
  ending.number = code;
  return ending;
}

}  // namespace muster::simulation
