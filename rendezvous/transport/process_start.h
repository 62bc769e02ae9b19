// Prepares a process for gRPC: entropy, descriptors, threads, a clean environment.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster::rendezvous {

uint64_t Entropy();  // from the kernel

void RaiseDescriptorLimit();  // to the hard limit: more than 1,024 agents need more than 1,024 sockets

// Checks that the process can start the threads without which gRPC fails silently. Blocks for less than 1 ms.
absl::Status CheckThreadsForGrpc();

// All preparations, for a process that will listen. Call before any use of gRPC.
absl::Status PrepareForGrpc();

}  // namespace muster::rendezvous
