// All gRPC settings of muster, for both ends. gRPC's defaults do not suit muster in most cases.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/time/time.h"

namespace muster::rendezvous {

inline constexpr int kMaxMessageBytes = 1 << 20;                // of one status or directive; both are small
inline constexpr int kMaxViewBytes = 4 << 20;                   // of a JobView: 200 bytes for each of 20,000 nodes
inline constexpr int kMaxStreamsPerConnection = 1;              // at a time
inline constexpr absl::Duration kNameLimit = absl::Seconds(3);  // for resolving the primary's name
inline constexpr absl::Duration kAddressLimit = absl::Seconds(2);  // for connecting to one address of the name

// The server sends this metadata key, with its version, when it accepts a stream. A server that does not send it
// is no coordinator.
inline constexpr char kServerKey[] = "muster-coordinator";

// Sent along with ServerOptions::instance, so that a primary can find out whether it has reached itself.
inline constexpr char kServerInstanceKey[] = "muster-instance";

// Sent along for `muster env --check`, which compares clocks: milliseconds since 1970. No decision uses it.
inline constexpr char kServerTimeKey[] = "muster-time";

// The lease decides whether a node counts as alive. gRPC's timers are longer than lease and margin and only clean
// up dead sockets.
absl::Duration KeepaliveTime(absl::Duration lease);

void ConfigureServer(absl::Duration lease, grpc::ServerBuilder* builder);
grpc::ChannelArguments ClientArguments(absl::Duration lease);

// Removes gRPC's settings from the environment, except those for its log. Call before the first gRPC object is
// created, while the process has one thread.
void SanitizeGrpcEnvironment();

}  // namespace muster::rendezvous
