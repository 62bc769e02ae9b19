// What a process that speaks gRPC needs at its start: entropy, descriptors, threads, a clean environment.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster::rendezvous {

uint64_t Entropy();  // from the kernel

void RaiseDescriptorLimit();  // to what is allowed: more than 1,024 agents need more than 1,024 sockets

// Whether the machine gives the threads without which gRPC neither works nor says so. Blocks for less than 1 ms.
absl::Status CheckThreadsForGrpc();

// All of it, for a process that will listen. Call before gRPC is touched.
absl::Status PrepareForGrpc();

// gRPC 1.51 closes a listener for good when one accept fails, as it does with no descriptor left, and says so only
// in its log: each line is to be shown here, from any thread.
void NoteGrpcLog(const std::string& line);
bool ListenerDied();  // since it was last asked

}  // namespace muster::rendezvous
