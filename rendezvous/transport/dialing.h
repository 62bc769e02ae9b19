// An agent's way to its coordinator: a dialer, and a gRPC channel over the connection that it makes.
#pragma once

#include <grpcpp/channel.h>

#include <future>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/dialer.h"

namespace muster::rendezvous {

struct DialPlan {
  v1::Endpoint coordinator;
  std::shared_ptr<const LiveCredentials> credentials;  // null: none
  absl::Duration lease;                                // gRPC's timers are set longer than this
};

// choice: which of its credentials this node shows.
DialTarget TargetOf(const DialPlan& plan, const std::shared_ptr<const Credentials>& shown, size_t choice);

// application: from the dialer's on_connected. The channel is used for one call.
std::shared_ptr<grpc::Channel> ChannelOver(OwnedFd application, const DialPlan& plan);

// A connection that was made in one go. The dialer must outlive the channel's calls.
struct Dialled {
  // Why the connection has ended; OK: it has not. Set before a call on the channel fails for that reason, of which
  // gRPC itself only knows that its socket was closed. Any thread.
  absl::Status WhyEnded() const;

  std::shared_future<absl::Status> ended;
  std::unique_ptr<Dialer> dialer;
  std::shared_ptr<grpc::Channel> channel;
};
// Blocks, at most for about `limit` for each token that this node has. Errors: those of Dialer; DeadlineExceeded:
// it was not connected in time.
absl::StatusOr<Dialled> DialWithin(const DialPlan& plan, absl::Duration limit);

}  // namespace muster::rendezvous
