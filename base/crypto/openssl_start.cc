#include "base/crypto/openssl_start.h"

#include <openssl/ssl.h>

#include "base/core/check.h"

namespace muster {

void StartOpenSsl() {
  static const int started = OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  MUSTER_CHECK(started == 1, "OpenSSL starts");
}

}  // namespace muster
