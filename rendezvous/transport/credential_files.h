// The files that hold this node's credentials, as its configuration names them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/peer_name.h"
#include "rendezvous/transport/credential_news.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxCertificateFileBytes = 256 * 1024;

// What a process begins with.
struct FirstCredentials {
  MadeCredentials made;                    // null credentials: the job has none
  std::optional<CredentialSource> source;  // where newer ones will be; nullopt: they came from no file
};

// From what the configuration holds, or from what its files have held since, if that is usable; newest: empty if
// they have not changed. role: see RoleOf. FailedPrecondition: the configuration holds no usable certificates.
absl::StatusOr<FirstCredentials> FirstFrom(const v1::NodeConfig& config, TlsRole role,
                                           const FileTexts& newest = {});

// The same, for a process that does not live long enough to watch files. Null: the job has none.
absl::StatusOr<std::shared_ptr<LiveCredentials>> CredentialsFrom(const v1::NodeConfig& config);

// What the log of a node with these certificates would say of their age now; empty: nothing.
std::string WarningOnAge(const v1::NodeConfig& config, absl::Time now);

// As which a node's certificate must be accepted, as far as that is known at its start.
TlsRole RoleOf(const v1::NodeConfig& config);

// Reads what the files hold into the message. Blocks, perhaps for ever. Errors: those of ReadSecretFile, with the
// option and the file. warning: see SecretFile; only the key can cause one. May be null.
absl::Status ReadCertificates(v1::Certificates* files, std::string* warning = nullptr);

// Whether a node can begin with the certificates of its configuration. FailedPrecondition: what is wrong, and what
// to do; InvalidArgument: the name is wrong.
absl::Status CheckCertificates(const v1::NodeConfig& config, TlsRole role, absl::Time now);

}  // namespace muster::rendezvous
