#include "rendezvous/gate/peer_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"

namespace muster::rendezvous {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr size_t kMaxDnsName = 253;
constexpr size_t kMaxSpiffeId = 2048;  // SPIFFE-ID, section 2.3
constexpr size_t kMaxShownNames = 4;

bool IsDigitOrLetter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

bool IsDnsName(std::string_view text) {
  if (text.empty() || text.size() > kMaxDnsName) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsDigitOrLetter(c) || c == '-' || c == '.' || c == '_'; });
}

// A part of a SPIFFE ID's path, section 2.2 of SPIFFE-ID.
bool IsSegment(std::string_view text) {
  const auto allowed = [](char c) { return IsDigitOrLetter(c) || c == '-' || c == '.' || c == '_'; };
  return !text.empty() && text != "." && text != ".." && std::all_of(text.begin(), text.end(), allowed);
}

// The trust domain is in lower case, section 2.1.
bool IsSpiffeStart(std::string_view text) {
  if (!text.starts_with(kScheme) || text.size() > kMaxSpiffeId) return false;
  text.remove_prefix(kScheme.size());
  const std::vector<std::string> parts = absl::StrSplit(AsAbsl(text), '/');
  const bool lower = std::none_of(parts[0].begin(), parts[0].end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return lower && std::all_of(parts.begin(), parts.end(), [](const std::string& part) { return IsSegment(part); });
}

const char* NameOf(TlsRole role) { return role == TlsRole::kPrimary ? "primary" : "node"; }

bool Contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

absl::StatusOr<PeerName> PeerName::Parse(std::string_view text, std::string_view run_id) {
  PeerName name;
  if (!text.starts_with(kScheme)) {
    if (!IsDnsName(text))
      return absl::InvalidArgumentError(
          "expected a DNS name, or spiffe://DOMAIN[/PREFIX] without a slash at its end");
    name.dns_ = std::string(text);
    return name;
  }
  if (!IsSpiffeStart(text)) {
    return absl::InvalidArgumentError(
        "expected spiffe://DOMAIN[/PREFIX] of letters, digits, '.', '-' and '_', the domain in lower case");
  }
  if (!IsSegment(run_id)) {
    return absl::FailedPreconditionError(
        "a run id that is part of a SPIFFE ID has only letters, digits, '.', '-' and '_': set such an --rdzv-id");
  }
  name.uri_ = absl::StrCat(AsAbsl(text), "/run/", AsAbsl(run_id), "/role/");
  return name;
}

bool PeerName::Admits(const CertificateNames& names, TlsRole role) const {
  if (!dns_.empty()) {
    return std::any_of(names.dns.begin(), names.dns.end(),
                       [this](const std::string& each) { return absl::EqualsIgnoreCase(each, dns_); });
  }
  // An SVID has exactly one URI, X509-SVID, section 2; of several it would not be clear who the holder is.
  if (names.uris.size() != 1) return false;
  const bool primary = Contains(names.uris, uri_ + NameOf(TlsRole::kPrimary));
  return primary || (role == TlsRole::kNode && Contains(names.uris, uri_ + NameOf(TlsRole::kNode)));
}

std::string PeerName::Wanted(TlsRole role) const {
  if (!dns_.empty()) return absl::StrCat("DNS:", dns_);
  const std::string primary = absl::StrCat("URI:", uri_, NameOf(TlsRole::kPrimary));
  return role == TlsRole::kPrimary ? primary : absl::StrCat("URI:", uri_, NameOf(role), " or ", primary);
}

std::string Shown(const CertificateNames& names) {
  std::vector<std::string> shown;
  for (const std::string& each : names.dns) shown.push_back("DNS:" + each);
  for (const std::string& each : names.uris) shown.push_back("URI:" + each);
  if (shown.empty()) return "no name";
  if (shown.size() > kMaxShownNames) shown.resize(kMaxShownNames);
  return absl::StrJoin(shown, ", ");
}

}  // namespace muster::rendezvous
