#include "base/text/tokens.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"

namespace muster {

absl::Status CheckToken(std::string_view token) {
  if (!std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return absl::FailedPreconditionError("expected printable ASCII without blanks");
  }
  if (token.size() > kMaxTokenBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected at most ", kMaxTokenBytes, " bytes, not ", token.size()));
  }
  if (token.size() < kMinTokenBytes) {
    return absl::FailedPreconditionError(absl::StrCat("expected at least ", kMinTokenBytes, " characters, not ",
                                                      token.size(), "; muster token prints a good token"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParseTokens(std::string_view text) {
  std::vector<std::string> tokens;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(AsAbsl(text), '\n')) {
    ++number;
    const std::string token(AsStd(absl::StripTrailingAsciiWhitespace(line)));
    if (token.empty()) continue;
    if (tokens.size() == kMaxTokens) {
      return absl::FailedPreconditionError(
          absl::StrCat("line ", number,
                       " is one token too many: expected the new token on the first line and the "
                       "one before it on the second"));
    }
    if (const absl::Status usable = CheckToken(token); !usable.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("line ", number, ": ", usable.message()));
    }
    tokens.push_back(token);
  }
  if (tokens.empty()) return absl::FailedPreconditionError("the file is empty");
  return tokens;
}

}  // namespace muster
