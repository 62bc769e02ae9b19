#include "rendezvous/gate/key.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <cstddef>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/crypto/openssl_start.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr size_t kIdentityBytes = 16;
constexpr std::string_view kSalt = "muster gate 1";

// OpenSSL's parameters are not const, but only read.
OSSL_PARAM Octets(const char* name, std::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

std::string Expand(std::string_view token, std::string_view info, size_t bytes) {
  StartOpenSsl();
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr),
                                                              &EVP_KDF_free);
  MUSTER_CHECK(kdf != nullptr, "OpenSSL has HKDF");
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()),
                                                                          &EVP_KDF_CTX_free);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                                   Octets(OSSL_KDF_PARAM_KEY, token), Octets(OSSL_KDF_PARAM_SALT, kSalt),
                                   Octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  std::string out(bytes, '\0');
  const int derived =
      EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(), parameters);
  MUSTER_CHECK(derived == 1, "HKDF succeeds");
  return out;
}

}  // namespace

GateKey DeriveKey(std::string_view token, std::string_view run_id) {
  const std::string identity = Expand(token, absl::StrCat("identity ", AsAbsl(run_id)), kIdentityBytes);
  return {.identity = absl::BytesToHexString(identity),
          .secret = Expand(token, absl::StrCat("secret ", AsAbsl(run_id)), kSecretBytes)};
}

}  // namespace muster::rendezvous
