// The keys by which the ends of a connection prove to each other that they have the job's token. Neither token nor
// run id crosses the network, and neither can be found from what does, as long as the token cannot be guessed.
#pragma once

#include <string>
#include <string_view>

namespace muster::rendezvous {

struct GateKey {
  std::string identity;  // names the key in the clear; differs with token and run
  std::string secret;    // 32 bytes
};

// HKDF with SHA-256 (RFC 5869).
GateKey DeriveKey(std::string_view token, std::string_view run_id);

}  // namespace muster::rendezvous
