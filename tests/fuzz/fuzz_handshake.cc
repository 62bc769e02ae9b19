// A stranger's bytes at each codec of a connection: none of them gets through without the token, and whoever
// speaks the wrong protocol is refused. The first byte chooses the codec and the size of the pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/core/check.h"
#include "rendezvous/gate/frame_guard.h"
#include "rendezvous/gate/guarded.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/gate/tls.h"
#include "tests/fuzz/own_certificates.h"

using muster::rendezvous::Codec;
using muster::rendezvous::Credentials;
using muster::rendezvous::DeriveKey;
using muster::rendezvous::Guarded;
using muster::rendezvous::kPreface;
using muster::rendezvous::MakeAuthority;
using muster::rendezvous::OwnCertificates;
using muster::rendezvous::PlainClient;
using muster::rendezvous::PlainServer;
using muster::rendezvous::TlsClient;
using muster::rendezvous::TlsServer;
using muster::rendezvous::VisitorBytes;

namespace {

constexpr char kToken[] = "a-token-of-more-than-22-characters";

enum Kind { kTlsServer, kTlsClient, kPlainServer, kPlainClient, kCertificateServer, kCertificateClient, kKinds };

std::unique_ptr<Codec> Make(Kind kind, VisitorBytes* shared) {
  static const auto* const server = new TlsServer({DeriveKey(kToken, "run")});
  static const auto* const client = new TlsClient(DeriveKey(kToken, "run"));
  static const auto* const certificates = new std::shared_ptr<const Credentials>(OwnCertificates(MakeAuthority()));
  switch (kind) {
    case kTlsServer:
      return std::make_unique<Guarded>(server->Accept(), shared, 1);
    case kTlsClient:
      return client->Connect();
    case kPlainServer:
      return std::make_unique<Guarded>(PlainServer(), shared, 1);
    case kCertificateServer:
      return std::make_unique<Guarded>((*certificates)->Accept(), shared, 1);
    case kCertificateClient:
      return (*certificates)->Connect(0);
    default:
      return std::make_unique<Guarded>(PlainClient());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto kind = static_cast<Kind>(data[0] % kKinds);
  const size_t piece = data[0] / kKinds + 1u;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);

  VisitorBytes shared([](uint64_t) { MUSTER_CHECK(false, "nobody else is here"); });
  const std::unique_ptr<Codec> codec = Make(kind, &shared);
  std::string plain, out;
  absl::Status status = codec->Start(&out);
  for (size_t at = 0; at < bytes.size() && status.ok(); at += piece) {
    status = codec->FromPeer(absl::UnixEpoch(), bytes.substr(at, piece), &plain, &out);
  }
  const bool encrypted = kind != kPlainServer && kind != kPlainClient;
  if (encrypted) {
    MUSTER_CHECK(!codec->ready() && plain.empty(), "nobody gets in without the token or a certificate");
  } else {
    MUSTER_CHECK(plain == bytes.substr(0, plain.size()), "what comes through is what was sent");
  }
  if (kind == kPlainServer && !plain.empty()) {
    MUSTER_CHECK(plain.substr(0, kPreface.size()) == kPreface.substr(0, plain.size()),
                 "HTTP/2 alone comes through");
  }
  return 0;
}
