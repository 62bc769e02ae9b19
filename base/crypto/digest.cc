#include "base/crypto/digest.h"

#include <openssl/evp.h>

#include <array>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "base/core/check.h"
#include "base/crypto/openssl_start.h"

namespace muster {
namespace {

constexpr size_t kShortBytes = 16;

}  // namespace

std::string Sha256(std::string_view bytes) {
  StartOpenSsl();
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  const int hashed = EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha256(), nullptr);
  MUSTER_CHECK(hashed == 1 && size >= kShortBytes, "OpenSSL has SHA-256");
  return {reinterpret_cast<const char*>(hash.data()), size};
}

std::string ShortHash(std::string_view bytes) {
  return absl::BytesToHexString(Sha256(bytes).substr(0, kShortBytes));
}

}  // namespace muster
