#include "cli/status/remote_view.h"

#include <optional>

#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "cli/status/door_visits.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/transport/channel_options.h"
#include "rendezvous/transport/credential_files.h"
#include "rendezvous/transport/inquiry.h"
#include "rendezvous/transport/serving.h"

namespace muster::cli {

absl::StatusOr<v1::JobView> ViewAt(const HostPort& endpoint, const std::string& run_id,
                                   const std::vector<std::string>& tokens, const v1::Question& question) {
  v1::NodeConfig config;
  config.set_run_id(run_id);
  config.mutable_tokens()->Assign(tokens.begin(), tokens.end());
  config.mutable_primary()->set_host(endpoint.host);
  config.mutable_primary()->set_port(endpoint.port.value_or(kDefaultRendezvousPort));
  rendezvous::SanitizeGrpcEnvironment();
  ASSIGN_OR_RETURN(const auto credentials, rendezvous::CredentialsFrom(config));
  EventLoop loop;
  RETURN_IF_ERROR(loop.status());
  std::optional<absl::StatusOr<v1::JobView>> told;
  rendezvous::Inquiry inquiry(rendezvous::DialPlanFrom(config, credentials), {}, question, kViewLimit, &loop,
                              [&](const absl::StatusOr<v1::JobView>& view) {
                                told = view;
                                loop.Stop();
                              });
  loop.Run();
  return told.value_or(absl::CancelledError("nothing was asked"));
}

}  // namespace muster::cli
