// Credentials that are a certificate, its key, and the authorities that the other ends' certificates must come
// from: mutual TLS 1.3. Which names they must have, `peer_name` says.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/peer_name.h"
#include "rendezvous/gate/validity.h"

namespace muster::rendezvous {

struct CertificateTexts {
  std::string cert;  // PEM: the certificate, then those between it and an authority
  std::string key;   // PEM, not encrypted
  std::string ca;    // PEM: the authorities, at least one
};

struct CertificateSet {
  std::shared_ptr<const Credentials> credentials;
  Validity validity;  // of the certificate and of an authority that vouches for it, together
  bool authority_ends_first = false;
  std::vector<std::string> authorities;  // a digest of each one's name and key, for comparisons
};

// The set, if its parts belong together: the key is the certificate's, an authority vouches for it, it has the
// name that the others demand of `role`, and is valid at `now` (nullopt: whenever). FailedPrecondition: what is
// wrong, and what to do. Pure.
absl::StatusOr<CertificateSet> MakeCertificateSet(const CertificateTexts& texts, const PeerName& name,
                                                  TlsRole role, std::optional<absl::Time> now);

}  // namespace muster::rendezvous
