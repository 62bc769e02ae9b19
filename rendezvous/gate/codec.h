// One end of a connection as a transformation of bytes: what the peer sends becomes what the application reads,
// and the reverse. No I/O and no clock, so that all of it can be tested and fuzzed without sockets.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/core/time.h"

namespace muster::rendezvous {

// The errors of a client that does not accept what the server has shown begin so.
inline constexpr char kDistrusted[] = "the coordinator's certificate";

// After an error nothing but the bytes already in `out` may be sent, and the connection must be closed. Codes:
// Unauthenticated: the peer has not our token, or says that we have not its own. InvalidArgument: it does not
// speak this protocol. ResourceExhausted: it exceeds a limit. FailedPrecondition: another fault of the peer.
class Codec {
 public:
  virtual ~Codec() = default;

  // Call first. Appends what to send before anything is received.
  virtual absl::Status Start(std::string* /*out*/) { return absl::OkStatus(); }
  // Appends to `plain` what the application reads, and to `out` what to answer.
  virtual absl::Status FromPeer(BootTime now, std::string_view bytes, std::string* plain, std::string* out) = 0;
  // The application writes. Only once it is ready.
  virtual absl::Status ToPeer(std::string_view plain, std::string* out) = 0;
  // The peer is no stranger any more.
  virtual void Trust() {}
  // Says that nothing follows.
  virtual void Close(std::string* /*out*/) {}

  // Once it is ready: bytes that only the two ends of this connection know; empty: it is not encrypted. Who signs
  // them proves that it is at this connection's other end, and not somewhere between.
  virtual std::string binding() const { return ""; }

  // The peer has shown what it must before the application hears of it.
  virtual bool ready() const = 0;
};

}  // namespace muster::rendezvous
