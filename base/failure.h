// What a failure means that no exit code of a worker expresses.
#pragma once

#include "base/exit_codes.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster {

// Whether the worker never executed anything, because the machine could not make its process, or not in time. Then
// the exit code is muster's own: no worker chose it.
inline bool WasNeverStarted(const v1::Failure& failure) {
  return failure.pid() == 0 && failure.exit_code() == kExitFault;
}

}  // namespace muster
