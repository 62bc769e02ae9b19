// What the codecs of TLS 1.3 have in common, whether the ends prove who they are by a key or by a certificate. For
// this folder only.
#pragma once

#include <openssl/ossl_typ.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "rendezvous/gate/codec.h"

namespace muster::rendezvous {

// How one end of one connection proves itself and checks the other. All errors are Unauthenticated, unless the
// other end is not of muster.
class TlsProof {
 public:
  virtual ~TlsProof() = default;

  virtual void Attach(SSL* ssl) = 0;  // before the handshake
  // The handshake has succeeded: whether that proves what it must.
  virtual absl::Status Check(SSL* ssl) const = 0;
  // The handshake has failed. alert: what the other end sent (SSL_AD_...), 0: nothing, the failure is ours.
  virtual absl::Status WhyRefused(SSL* ssl, int alert) const = 0;

  // At a server, of a client that does not speak TLS but HTTP/2, as one of muster without credentials does; what
  // it is answered.
  virtual absl::Status WhyNoTls(std::string* answer) const = 0;
  virtual size_t max_handshake_bytes() const = 0;  // from one peer
};

std::shared_ptr<SSL_CTX> MakeTlsContext(const SSL_METHOD* method);

std::unique_ptr<Codec> MakeTlsCodec(const std::shared_ptr<SSL_CTX>& context, std::unique_ptr<TlsProof> proof,
                                    bool server);

// By which a server that wants certificates refuses a client that offers a key. OpenSSL does not send
// certificate_required before a version is agreed on; no server of TLS 1.3 sends this one otherwise (RFC 8446,
// section 6).
inline constexpr int kNoCertificateAlert = 111;  // certificate_unobtainable

// Whether the client's first message offers a pre-shared key. Only for a callback of SSL_CTX_set_client_hello_cb.
bool OffersKey(SSL* ssl);

// The text of OpenSSL's first error, for people. FailedPrecondition.
absl::Status OpenSslFault(const std::string& what);

}  // namespace muster::rendezvous
