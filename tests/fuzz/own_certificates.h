// A node's certificates, made at the start of a target.
#pragma once

#include <memory>

#include "base/core/check.h"
#include "rendezvous/gate/certificates.h"
#include "rendezvous/gate/peer_name.h"
#include "tests/unit/rendezvous/gate/certificate_maker.h"

namespace muster::rendezvous {

// Those of a node that may be the primary, from this authority.
inline std::shared_ptr<const Credentials> OwnCertificates(const MadeCertificate& authority) {
  const MadeCertificate own = MakeCertificate(CertificateWish(), &authority);
  const auto name = PeerName::Parse(kDefaultTlsName, "run");
  MUSTER_CHECK(name.ok(), "the default is a name");
  const auto made = MakeCertificateSet({.cert = own.cert, .key = own.key, .ca = authority.cert}, *name,
                                       TlsRole::kPrimary, absl::Now());
  MUSTER_CHECK(made.ok(), "they belong together");
  return made->credentials;
}

}  // namespace muster::rendezvous
