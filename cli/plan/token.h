// The token that the nodes of a job share: the content of a file (--token-file), or MUSTER_TOKEN. It is no option
// itself: every user can read a command line.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/environment.h"
#include "cli/options/settings.h"

namespace muster::cli {

inline constexpr char kTokenFileOption[] = "token-file";
inline constexpr char kTokenFileVariable[] = "MUSTER_TOKEN_FILE";
inline constexpr size_t kMaxTokenBytes = 4096;
inline constexpr size_t kMinTokenBytes = 22;  // of base64: 128 bits. A shorter one can be found by trying.

// Text of a small file; nullopt: it cannot be read.
using TokenReader = std::function<std::optional<std::string>(const std::string& path)>;

// Blanks at the end of the file do not count. The file takes precedence. Empty: neither is given.
// InvalidArgument or FailedPrecondition: the file cannot be read, or the token is no good one.
absl::StatusOr<std::string> TokenOf(const Given<std::string>& file, const Environment& environment,
                                    const TokenReader& read);

}  // namespace muster::cli
