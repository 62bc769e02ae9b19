#include "base/crypto/sidecar_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/crypto/digest.h"
#include "base/crypto/openssl_start.h"

namespace muster {
namespace {

constexpr size_t kNonceBytes = 32;

// role: so that no end can send the other's proof back to it. The hash has one length, so no two claims have one
// text.
std::string Proof(std::string_view role, std::string_view token, std::string_view hello,
                  std::string_view host_nonce) {
  StartOpenSsl();
  const std::string claim =
      absl::StrCat("muster sidecar 2 ", AsAbsl(role), " ", Sha256(hello), AsAbsl(host_nonce));
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned size = 0;
  const unsigned char* const made =
      HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
           reinterpret_cast<const unsigned char*>(claim.data()), claim.size(), code.data(), &size);
  MUSTER_CHECK(made != nullptr, "OpenSSL has HMAC");
  return {reinterpret_cast<const char*>(code.data()), size};
}

}  // namespace

std::string ProofOfHost(std::string_view token, std::string_view hello, std::string_view host_nonce) {
  return Proof("host", token, hello, host_nonce);
}

std::string ProofOfSidecar(std::string_view token, std::string_view hello, std::string_view host_nonce) {
  return Proof("sidecar", token, hello, host_nonce);
}

bool SameProof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string NewNonce() {
  std::string nonce(kNonceBytes, '\0');
  MUSTER_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()), "getrandom fails");
  return nonce;
}

}  // namespace muster
