#include "rendezvous/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <utility>

namespace muster::rendezvous {
namespace {

// Never destroyed: gRPC's threads may outlive main.
std::function<void(std::string)>& Sink() {
  static auto* sink = new std::function<void(std::string)>();
  return *sink;
}

void Forward(gpr_log_func_args* args) { Sink()("grpc: " + std::string(args->message)); }

}  // namespace

void SetGrpcLogSink(std::function<void(std::string line)> sink) {
  Sink() = std::move(sink);
  gpr_set_log_function(&Forward);
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

}  // namespace muster::rendezvous
