#include "rendezvous/transport/speaker.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/wire/ids.h"

namespace muster::rendezvous {
namespace {

// Without a token there is no binding: whoever hears such a proof can repeat it, but others cannot make one.
std::string Claim(std::string_view host_id, std::string_view run_id, std::string_view binding) {
  // Neither an id nor hexadecimal digits contain a space, so no two claims have one text.
  return absl::StrCat("muster attach 1 ", AsAbsl(host_id), " ", absl::BytesToHexString(AsAbsl(binding)), " ",
                      AsAbsl(run_id));
}

}  // namespace

v1::HostProof ProveHost(const Identity& host, std::string_view run_id, std::string_view binding) {
  v1::HostProof proof;
  proof.set_public_key(host.public_key);
  proof.set_signature(Sign(host, Claim(host.id, run_id, binding)));
  return proof;
}

bool IsProved(const v1::HostProof& proof, std::string_view host_id, std::string_view run_id,
              std::string_view binding) {
  return IdOf(proof.public_key()) == host_id &&
         IsSignedBy(proof.public_key(), Claim(host_id, run_id, binding), proof.signature());
}

// A status of another protocol is not checked: it changes nothing, and the coordinator tells the node which
// versions differ.
absl::Status Speaker::Hear(const v1::AgentStatus& status, std::string_view binding) {
  if (status.host_id().empty() || status.protocol() != kProtocol) return absl::OkStatus();
  if (status.host_id() == host_id_) return absl::OkStatus();
  if (!host_id_.empty()) return absl::InvalidArgumentError("a second host spoke on the stream of another one");
  if (!IsProved(status.proof(), status.host_id(), status.run_id(), binding))
    return absl::UnauthenticatedError("it has not proved that it is the host whose id it names");
  host_id_ = status.host_id();
  return absl::OkStatus();
}

}  // namespace muster::rendezvous
