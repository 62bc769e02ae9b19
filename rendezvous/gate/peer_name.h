// Which names a certificate must have so that its holder is a node of this run (--tls-name). Pure.
//
// A fixed name is one DNS name for all: whoever has a certificate with it, from this authority, is in. A SPIFFE ID
// names run and role as well: spiffe://DOMAIN[/PREFIX]/run/RUN/role/ROLE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::rendezvous {

inline constexpr char kDefaultTlsName[] = "muster";

enum class TlsRole {
  kPrimary,  // it may run the coordinator, and be a node
  kNode,
};

// The names of a certificate (subjectAltName), RFC 5280, section 4.2.1.6.
struct CertificateNames {
  std::vector<std::string> dns;
  std::vector<std::string> uris;
};

class PeerName {
 public:
  // text: as given. InvalidArgument: it is neither a DNS name nor the beginning of a SPIFFE ID.
  // FailedPrecondition: the run id cannot be a part of one.
  static absl::StatusOr<PeerName> Parse(std::string_view text, std::string_view run_id);

  // Whether a certificate with these names may act in this role.
  bool Admits(const CertificateNames& names, TlsRole role) const;

  // For people: "DNS:muster", "URI:spiffe://...".
  std::string Wanted(TlsRole role) const;

 private:
  PeerName() = default;

  std::string dns_;  // empty: a SPIFFE ID
  std::string uri_;  // up to and including "/role/"
};

// For people: "DNS:a, URI:b"; "no name".
std::string Shown(const CertificateNames& names);

}  // namespace muster::rendezvous
