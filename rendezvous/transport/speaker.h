// Who speaks on a stream. A host signs that this connection is its own, so nobody can take its part in the job,
// though all nodes have the same token and learn each other's ids. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/crypto/identity.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

// The proof that goes with the first status on a connection.
// binding: Codec::binding() of this end of the connection; empty without a token.
v1::HostProof ProveHost(const Identity& host, std::string_view run_id, std::string_view binding);

// Whether the host with this id is at the other end of the connection.
bool IsProved(const v1::HostProof& proof, std::string_view host_id, std::string_view run_id,
              std::string_view binding);

// One end's view of one stream.
class Speaker {
 public:
  // Why this status is not the one speaker's of the stream (Unauthenticated, or InvalidArgument: another host
  // spoke before); OK: it is, or it names no host. binding: as above, of the coordinator's end.
  absl::Status Hear(const v1::AgentStatus& status, std::string_view binding);

  const std::string& host_id() const { return host_id_; }  // proved; empty: none yet

 private:
  std::string host_id_;
};

}  // namespace muster::rendezvous
