// Who a host is: a key pair that it makes at its start (Ed25519, RFC 8032). Its id is a hash of the public key, so
// whoever shows the id and a signature is that host, and nobody needs a list of hosts to check it. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr size_t kSecretBytes = 32;

struct Identity {
  std::string id;          // the public key's ShortHash
  std::string public_key;  // 32 bytes
  std::string secret;      // kSecretBytes: the private key, for the host's own agents alone
};

std::string NewSecret();  // random
// secret: an Identity's.
Identity IdentityFrom(std::string_view secret);

std::string IdOf(std::string_view public_key);
std::string Sign(const Identity& identity, std::string_view message);  // 64 bytes
// False also for what is no key or no signature.
bool IsSignedBy(std::string_view public_key, std::string_view message, std::string_view signature);

}  // namespace muster
