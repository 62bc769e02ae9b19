#include "rendezvous/transport/serving.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/gate/gate.h"
#include "rendezvous/transport/address.h"
#include "rendezvous/transport/peer_address.h"

namespace muster::rendezvous {
namespace {

constexpr char kAnywhere[] = "192.0.2.1";  // reserved for documentation; nothing is sent to it
constexpr size_t kDescriptorsOfNode = 3;   // its connection, and the two ends between gate and gRPC
constexpr size_t kSpareDescriptors = 128;  // of the process itself, and for connections that end or begin

}  // namespace

absl::Duration LeaseOf(const v1::NodeConfig& config) {
  return config.single_node() ? absl::ZeroDuration() : absl::Milliseconds(config.lease_ms());
}

ServerOptions ServerOptionsFrom(const v1::NodeConfig& config, std::shared_ptr<const LiveCredentials> credentials,
                                const std::string& instance) {
  return {.listen = {.host = config.primary().host(),
                     .port = static_cast<uint16_t>(config.primary().port()),
                     .loopback_only = config.loopback_only()},
          .credentials = std::move(credentials),
          .version = config.version(),
          .run_id = config.run_id(),
          .instance = instance,
          .lease = LeaseOf(config)};
}

std::string WarningOfFewDescriptors(const v1::NodeConfig& config, size_t limit) {
  const size_t needed = static_cast<size_t>(config.max_nodes()) * kDescriptorsOfNode + kSpareDescriptors;
  if (config.single_node() || limit >= needed) return "";
  return absl::StrCat("this process may open ", limit, " descriptors (ulimit -n), and a coordinator of ",
                      config.max_nodes(), " nodes needs ", needed,
                      ": some nodes will not be able to connect; raise the hard limit before muster starts "
                      "(ulimit -Hn, LimitNOFILE=, docker run --ulimit nofile=",
                      needed, ")");
}

Protection ProtectionOf(const v1::NodeConfig& config) {
  if (config.has_certificates()) return Protection::kCertificates;
  if (!config.tokens().empty()) return Protection::kToken;
  if (config.single_node()) return Protection::kNoPort;
  return config.loopback_only() ? Protection::kThisMachine : Protection::kNone;
}

std::optional<Note> NoteOfProtection(const v1::NodeConfig& config) {
  if (config.loopback_only() || config.single_node()) return std::nullopt;
  switch (ProtectionOf(config)) {
    case Protection::kCertificates:
      return Note{Severity::kInfo,
                  absl::StrCat("only nodes with a certificate from ", config.certificates().ca_file(),
                               " are let in, and their connections to this port are encrypted")};
    case Protection::kToken:
      return Note{Severity::kInfo,
                  "only nodes with the job's token are let in, and their connections to this port are encrypted"};
    case Protection::kNone:
      return Note{Severity::kWarning,
                  absl::StrCat("no token is set: whoever reaches port ", config.primary().port(),
                               " of this machine can join this job and end it; give all nodes the same one with "
                               "--token-file or MUSTER_TOKEN (muster token prints one)")};
    case Protection::kNoPort:
    case Protection::kThisMachine:
      break;
  }
  return std::nullopt;
}

std::vector<Note> ServingNotes(const v1::NodeConfig& config) {
  std::vector<Note> notes;
  if (std::optional<Note> protection = NoteOfProtection(config)) notes.push_back(*std::move(protection));
  std::string few = WarningOfFewDescriptors(config, DescriptorLimit());
  if (!few.empty()) notes.push_back({Severity::kWarning, std::move(few)});
  return notes;
}

Identity IdentityOf(const v1::NodeConfig& config) {
  return config.host_key().size() == kSecretBytes ? IdentityFrom(config.host_key()) : Identity();
}

DialPlan DialPlanFrom(const v1::NodeConfig& config, std::shared_ptr<const LiveCredentials> credentials) {
  return {.coordinator = config.primary(), .credentials = std::move(credentials), .lease = LeaseOf(config)};
}

std::string FirstLocalAddress(const v1::NodeConfig& config) {
  if (!config.local_addr().empty()) return config.local_addr();
  const std::string& primary = config.primary().host();
  if (IsLiteral(primary) && IsLocalAddress(primary).value_or(false)) return primary;
  if (config.loopback_only() || config.single_node()) return "127.0.0.1";
  if (config.min_nodes() > 1) return "";
  // This node may form a round alone, and then no member's connection shows the address: use the default route's.
  const std::string routed = LocalAddressTowards(kAnywhere);
  return routed.empty() ? "127.0.0.1" : routed;
}

}  // namespace muster::rendezvous
