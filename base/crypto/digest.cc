#include "base/crypto/digest.h"

// The functions of EVP, which OpenSSL prefers, make tables of all algorithms first: most of what a short run
// computes.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <cstddef>

#include "absl/strings/escaping.h"

namespace muster {
namespace {

constexpr size_t kShortBytes = 16;

}  // namespace

std::string Sha256(std::string_view bytes) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(hash.data()), &context);
  return hash;
}

std::string ShortHash(std::string_view bytes) {
  return absl::BytesToHexString(Sha256(bytes).substr(0, kShortBytes));
}

}  // namespace muster
