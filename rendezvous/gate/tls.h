// The codecs of connections with a token: TLS 1.3 whose ends prove to each other that they have the same
// pre-shared key (RFC 8446, section 2.2), with a fresh Diffie-Hellman exchange for each connection. There are no
// certificates, no tickets, no resumption and no early data.
//
// Thread rule: an object of either class may make codecs on any thread; a codec lives on one.
#pragma once

#include <openssl/ossl_typ.h>

#include <memory>
#include <vector>

#include "rendezvous/gate/codec.h"
#include "rendezvous/gate/key.h"

namespace muster::rendezvous {

class TlsServer {
 public:
  // keys: any of them lets a client in; not empty.
  explicit TlsServer(std::vector<GateKey> keys);

  std::unique_ptr<Codec> Accept() const;

 private:
  std::shared_ptr<SSL_CTX> context_;
  std::shared_ptr<const std::vector<GateKey>> keys_;
};

class TlsClient {
 public:
  // shows_next: it has another key, which it shows if this one is refused. It says so to the server, whose log
  // says it, too: while tokens are replaced nothing is wrong with that.
  explicit TlsClient(GateKey key, bool shows_next = false);

  std::unique_ptr<Codec> Connect() const;

 private:
  std::shared_ptr<SSL_CTX> context_;
  std::shared_ptr<const std::vector<GateKey>> keys_;
  bool shows_next_;
};

}  // namespace muster::rendezvous
