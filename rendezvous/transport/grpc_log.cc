#include "rendezvous/transport/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/match.h"

namespace muster::rendezvous {
namespace {

// Never destroyed: gRPC's threads may outlive main().
std::function<void(std::string)>& Sink() {
  static auto* sink = new std::function<void(std::string)>();
  return *sink;
}

void Forward(gpr_log_func_args* args) { Sink()("grpc: " + std::string(args->message)); }

}  // namespace

void SetGrpcLogSink(std::function<void(std::string line)> sink) {
  Sink() = std::move(sink);
  gpr_set_log_function(&Forward);
  // Errors are always passed on, even if the image sets NONE.
  const char* const verbosity = std::getenv("GRPC_VERBOSITY");
  const std::string wanted = verbosity == nullptr ? "" : verbosity;
  const bool more = absl::EqualsIgnoreCase(wanted, "DEBUG") || absl::EqualsIgnoreCase(wanted, "INFO");
  if (!more) gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

}  // namespace muster::rendezvous
