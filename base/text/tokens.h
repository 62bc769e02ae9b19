// The tokens of a job, as a file or a variable gives them: one, or while they are changed node by node, the new
// one and the one before it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// Why a coordinator refuses a node that says that it shows its second token next. It is logged, but those who wait
// do not hear that this node is missing.
inline constexpr char kFirstTokenRefused[] =
    "its first token is not this job's, and it says that it shows its second one next";

inline constexpr size_t kMaxTokenBytes = 4096;
inline constexpr size_t kMinTokenBytes = 22;  // of base64: 128 bits. A shorter one can be found by trying.
inline constexpr size_t kMaxTokens = 2;
// Each token with its line end, and some blank lines.
inline constexpr size_t kMaxTokenFileBytes = kMaxTokens * kMaxTokenBytes + 1024;

// FailedPrecondition: it cannot be a token. The message does not contain it.
absl::Status CheckToken(std::string_view token);

// One token on each line; blanks at the end of a line and blank lines do not count. FailedPrecondition: there is
// no token, a bad one, or more than kMaxTokens. Messages do not contain tokens.
absl::StatusOr<std::vector<std::string>> ParseTokens(std::string_view text);

}  // namespace muster
