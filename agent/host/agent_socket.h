// The unix socket on which a host that runs in a container of its own waits for its agent, and the first message
// of each visitor. Paths: the socket's folder is shared by both containers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/frame_exchange.h"
#include "base/io/owned_fd.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr absl::Duration kHelloLimit = absl::Seconds(5);   // from a connection to its first message
inline constexpr absl::Duration kAcceptRetry = absl::Seconds(1);  // after no descriptor was left for a visitor

// A host in a container of its own: its socket, and the sidecar that it took its configuration from.
struct AgentSocket {
  std::string path;
  OwnedFd listener;
  std::string tokens;      // one a line: each sidecar must have one of them; empty: none is demanded
  std::string token_file;  // where they came from, read again when a sidecar has none of them; empty: no file
  OwnedFd first;           // the connection of the first sidecar, which has not been answered; invalid: none
  v1::AgentHello accepted;
  v1::HostHello welcome;  // the answer to each sidecar that is taken
};

// What a sidecar must show before its hello counts. Tokens: one a line.
class TokenProof {
 public:
  // hello: the bytes of its first message.
  TokenProof(std::string hello, const std::string& tokens);

  v1::HostHello Challenge() const;
  // Whether this is the answer of someone who has one of the tokens.
  bool IsAnsweredBy(const IncomingFrame& frame) const;

 private:
  const std::string hello_;
  const std::string nonce_;
  const std::vector<std::string> tokens_;
};

// A connection to the socket, with the sidecar's message.
struct Visitor {
  OwnedFd connection;
  v1::AgentHello hello;
};

// Listens, and removes what an earlier host has left at this path. Who may connect chooses what runs here: see
// SocketModeAt. FailedPrecondition: the path is unusable, or another host listens there.
absl::StatusOr<OwnedFd> ListenForAgent(const std::string& path);

// Blocks until a sidecar has come. A program that connects and says something else is sent away. health: from
// ListenForHealth(), -1: none; it is answered meanwhile. DeadlineExceeded: nobody came.
absl::StatusOr<Visitor> AwaitFirstAgent(int listener, int health, const std::string& tokens, absl::Duration limit);

// The message that has arrived, if this host understands it. InvalidArgument otherwise.
absl::StatusOr<v1::AgentHello> ParseHello(const IncomingFrame& frame);

// PermissionDenied: what is said of a sidecar without the token.
absl::Status HasNoToken();

// How a sidecar's configuration differs from the first one, as a clause: "the variable MUSTER_NNODES was 2 and is
// 3". Empty: not at all. Pure.
std::string DifferenceOf(const v1::AgentHello& first, const v1::AgentHello& now);

// Answers a sidecar that the host cannot serve; exit_code: with which the sidecar should end. Best effort.
void Refuse(int connection, int exit_code, const std::string& why);

// The same for one that this host does not know as its own; says so in the log.
void RefuseHello(int connection, const absl::Status& why);

// Answers the others, and passes a pidfd of process 1 on. Whatever that process is, with its end the kernel has
// ended every process of this container's PID namespace.
absl::Status Welcome(int connection, const v1::HostHello& answer);

}  // namespace muster::host
