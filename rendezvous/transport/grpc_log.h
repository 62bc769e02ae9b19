// Redirects gRPC's own log, by default only its errors.
#pragma once

#include <functional>
#include <string>

namespace muster::rendezvous {

// Calls `sink` with each line, from gRPC's threads and possibly concurrently. Call once per process, before the
// first gRPC object is created. GRPC_VERBOSITY and GRPC_TRACE apply, but errors are always logged.
void SetGrpcLogSink(std::function<void(std::string line)> sink);

}  // namespace muster::rendezvous
