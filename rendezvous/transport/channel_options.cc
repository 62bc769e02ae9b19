#include "rendezvous/transport/channel_options.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdlib>

namespace muster::rendezvous {
namespace {

// More than the coordinator's margin (1 s and 1 %), with room for rounding on both ends.
constexpr absl::Duration kAboveLease = absl::Seconds(5);

// Peers that were started with a shorter lease ping more often; the server must accept that.
constexpr absl::Duration kMaxPingInterval = absl::Seconds(5);

// gRPC inflates a message before it looks at its limit of size: 500 KiB become 500 MiB. Nobody here compresses.
constexpr int kIdentityAlone = 1 << GRPC_COMPRESS_NONE;

// gRPC would measure the bandwidth by a ping for each message that it reads: a heartbeat would cost twice as much.
constexpr int kNoBandwidthProbe = 0;

int Millis(absl::Duration d) { return static_cast<int>(absl::ToInt64Milliseconds(d)); }

}  // namespace

absl::Duration KeepaliveTime(absl::Duration lease) { return lease + lease / 100 + kAboveLease; }

void ConfigureServer(absl::Duration lease, grpc::ServerBuilder* builder) {
  const absl::Duration keepalive = KeepaliveTime(lease);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(keepalive));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(keepalive));  // also sets TCP_USER_TIMEOUT
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              Millis(std::min(keepalive / 2, kMaxPingInterval)));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder->AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kIdentityAlone);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, kNoBandwidthProbe);
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxViewBytes);
}

grpc::ChannelArguments ClientArguments(absl::Duration lease) {
  grpc::ChannelArguments arguments;
  const int keepalive_ms = Millis(KeepaliveTime(lease));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // the agent core retries
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kIdentityAlone);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, kNoBandwidthProbe);
  arguments.SetMaxReceiveMessageSize(kMaxViewBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  return arguments;
}

void SanitizeGrpcEnvironment() {
  for (const char* name : {"GRPC_ENABLE_FORK_SUPPORT", "GRPC_POLL_STRATEGY", "GRPC_EXPERIMENTS",
                           "GRPC_SSL_CIPHER_SUITES", "GRPC_DNS_RESOLVER"}) {
    unsetenv(name);
  }
}

}  // namespace muster::rendezvous
