#include "cli/plan/token.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace muster::cli {
namespace {

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

absl::StatusOr<std::string> TokenIn(const Setting<std::string>& file, const TokenReader& read) {
  const std::optional<std::string> text = read(file.value);
  if (!text) return Fault(file, "the file cannot be read");
  std::string token(AsStd(absl::StripTrailingAsciiWhitespace(*text)));
  if (token.empty()) return Fault(file, "the file is empty");
  // The value in the message is the file's name.
  if (const absl::Status usable = CheckToken(token); !usable.ok()) {
    return Fault(file, absl::StrCat("its content: ", usable.message()));
  }
  return token;
}

}  // namespace

absl::StatusOr<std::string> TokenOf(const Given<std::string>& file, const Environment& environment,
                                    const TokenReader& read) {
  if (file) return TokenIn(*file, read);
  const auto token = environment.find(kTokenVariable);
  if (token == environment.end() || token->second.empty()) return std::string();
  if (const absl::Status usable = CheckToken(token->second); !usable.ok()) {
    const bool ends_in_newline = token->second.ends_with("\n");
    return absl::FailedPreconditionError(absl::StrCat(kTokenVariable, ": ", usable.message(),
                                                      ends_in_newline ? "; a trailing newline is a blank" : ""));
  }
  return token->second;
}

}  // namespace muster::cli
