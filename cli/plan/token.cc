#include "cli/plan/token.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::cli {

absl::StatusOr<std::string> TokenOf(const Environment& environment) {
  const auto token = environment.find(kTokenVariable);
  if (token == environment.end()) return std::string();
  // The token is sent as the value of a header; gRPC aborts on other bytes in one.
  if (!std::all_of(token->second.begin(), token->second.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return absl::FailedPreconditionError(absl::StrCat(
        kTokenVariable, ": expected printable ASCII without blanks (a file's trailing newline is a blank)"));
  }
  if (token->second.size() > kMaxTokenBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(kTokenVariable, ": expected at most ", kMaxTokenBytes, " bytes, not ", token->second.size()));
  }
  return token->second;
}

}  // namespace muster::cli
