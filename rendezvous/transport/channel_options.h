// Every gRPC setting of muster, for both ends, in one place. The defaults are wrong for us almost everywhere.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/time/time.h"

namespace muster::rendezvous {

inline constexpr int kMaxMessageBytes = 1 << 20;  // of one status or directive; both are small
inline constexpr int kMaxStreamsPerConnection = 16;
inline constexpr absl::Duration kHandshakeLimit = absl::Seconds(10);  // of a connection that says nothing
inline constexpr absl::Duration kNameLimit = absl::Seconds(3);        // of resolving the primary's name
inline constexpr absl::Duration kAddressLimit = absl::Seconds(2);     // of connecting to one address of the name

// The server sends this key, with its version, as soon as it has taken a stream: who does not is no coordinator.
inline constexpr char kServerKey[] = "muster-coordinator";
// With it, so that a primary can tell whether it has reached itself: ServerOptions::instance.
inline constexpr char kServerInstanceKey[] = "muster-instance";
// With it, for people who compare clocks: milliseconds since 1970. Nothing is decided by it.
inline constexpr char kServerTimeKey[] = "muster-time";

// The lease decides who lives. gRPC's own timers are longer than lease and margin: they clear up dead sockets
// only.
absl::Duration KeepaliveTime(absl::Duration lease);

void ConfigureServer(absl::Duration lease, grpc::ServerBuilder* builder);
grpc::ChannelArguments ClientArguments(absl::Duration lease);

// Takes settings of gRPC out of the environment that would change how it works; those for its log stay. Before the
// first gRPC object and while there is one thread.
void SanitizeGrpcEnvironment();

}  // namespace muster::rendezvous
