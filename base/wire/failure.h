// Reads a worker's failure: how the worker ended, as text for people, and whether it was started at all.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/exit_codes.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster {

// Whether the worker never executed anything, because the machine could not make its process, or not in time, or
// an option turned out to be wrong. Then the exit code is muster's own: no worker chose it.
inline bool WasNeverStarted(const v1::Failure& failure) {
  return failure.pid() == 0 && (failure.exit_code() == kExitFault || failure.exit_code() == kExitUsage);
}

// After an echo, for its cause to end, too: the process that closed its sockets may take longer for the rest of
// its end than its peers for the whole of theirs.
inline constexpr absl::Duration kEchoPatience = absl::Seconds(2);

// Whether the worker failed because a peer had gone: its error text or the final exception of its other texts says
// so, in the words of sockets, gloo, NCCL and TCPStore, and no signal but SIGABRT ended it.
bool SoundsLikeAnEcho(const v1::Failure& failure);

// What follows a line about a failure that may be an echo, before its cause is known; else empty.
std::string DescribeEcho(const v1::Failure& failure, int world_size);

// How the worker ended, after its name: "exited with code 7", "was killed (SIGKILL)".
std::string DescribeEnd(const v1::Failure& failure);

}  // namespace muster
