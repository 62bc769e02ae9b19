#include "base/crypto/identity.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <cstddef>
#include <memory>

#include "base/core/check.h"
#include "base/crypto/digest.h"
#include "base/crypto/openssl_start.h"

namespace muster {
namespace {

constexpr size_t kKeyBytes = 32;  // of a public key, RFC 8032, section 5.1.5
constexpr size_t kSignatureBytes = 64;

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* Bytes(std::string* text) { return reinterpret_cast<unsigned char*>(text->data()); }

Context NewContext() {
  Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  MUSTER_CHECK(context != nullptr, "OpenSSL makes a context");
  return context;
}

Key PrivateKey(std::string_view secret) {
  StartOpenSsl();
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Bytes(secret), secret.size()), &EVP_PKEY_free);
  MUSTER_CHECK(key != nullptr, "any 32 bytes are a private key");
  return key;
}

}  // namespace

std::string NewSecret() {
  std::string secret(kSecretBytes, '\0');
  MUSTER_CHECK(getrandom(secret.data(), secret.size(), 0) == static_cast<ssize_t>(secret.size()),
               "getrandom fails");
  return secret;
}

Identity IdentityFrom(std::string_view secret) {
  const Key key = PrivateKey(secret);
  std::string public_key(kKeyBytes, '\0');
  size_t size = public_key.size();
  MUSTER_CHECK(EVP_PKEY_get_raw_public_key(key.get(), Bytes(&public_key), &size) == 1 && size == kKeyBytes,
               "a private key has a public one");
  return {.id = IdOf(public_key), .public_key = public_key, .secret = std::string(secret)};
}

std::string IdOf(std::string_view public_key) { return ShortHash(public_key); }

std::string Sign(const Identity& identity, std::string_view message) {
  const Key key = PrivateKey(identity.secret);
  const Context context = NewContext();
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  const bool done = EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                    EVP_DigestSign(context.get(), Bytes(&signature), &size, Bytes(message), message.size()) == 1;
  MUSTER_CHECK(done && size == kSignatureBytes, "OpenSSL signs");
  return signature;
}

bool IsSignedBy(std::string_view public_key, std::string_view message, std::string_view signature) {
  if (public_key.size() != kKeyBytes || signature.size() != kSignatureBytes) return false;
  StartOpenSsl();
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(public_key), public_key.size()),
                &EVP_PKEY_free);
  const Context context = NewContext();
  return key != nullptr && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(message), message.size()) == 1;
}

}  // namespace muster
