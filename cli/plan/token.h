// The tokens that the nodes of a job share: the content of a file (--token-file), or MUSTER_TOKEN. They are no
// option themselves: every user can read a command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/environment.h"
#include "base/io/secret_file.h"
#include "cli/options/settings.h"
#include "cli/plan/secret_reader.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

inline constexpr char kTokenFileOption[] = "token-file";

struct OwnTokens {
  std::vector<std::string> tokens;  // the first is shown, each is accepted; empty: none
  std::string file = {};            // where they came from, an absolute path; empty: no file
  std::vector<std::string> warnings = {};
};

// The file takes precedence. FailedPrecondition: the file cannot be read, other users can change it, or a token is
// no good one.
absl::StatusOr<OwnTokens> TokensOf(const Given<std::string>& file, const Environment& environment,
                                   const SecretReader& read);

// Whether this configuration holds secrets.
inline bool HasCredentials(const v1::NodeConfig& config) {
  return !config.tokens().empty() || config.has_certificates() || !config.http_token().empty();
}

// A file of credentials that an option or variable names, which the errors and the warning name, too.
// FailedPrecondition: it cannot be read, or its owner or mode is wrong.
absl::StatusOr<SecretFile> ReadNamedFile(const Setting<std::string>& file, FileKind kind, size_t max_bytes,
                                         const SecretReader& read);

}  // namespace muster::cli
