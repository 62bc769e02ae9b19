// gRPC's own log, errors only, given to whoever wants it.
#pragma once

#include <functional>
#include <string>

namespace muster::rendezvous {

// sink is called from gRPC's threads, possibly at the same time, with one line. Set once in a process, before the
// first gRPC object. GRPC_VERBOSITY and GRPC_TRACE, where set, are obeyed; but errors always come.
void SetGrpcLogSink(std::function<void(std::string line)> sink);

}  // namespace muster::rendezvous
