#include "cli/plan/token.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/tokens.h"

namespace muster::cli {
namespace {

// 64 or 65 if it cannot be read; 65 if it can be, but its owner, mode or content is wrong: the command line is
// right.
absl::Status WrongFile(const Setting<std::string>& file, const absl::Status& why) {
  const Origin blamed = absl::IsFailedPrecondition(why) ? Origin::kMusterVariable : file.origin;
  return Fault(blamed, file.source, file.text, std::string(AsStd(why.message())));
}

absl::StatusOr<OwnTokens> TokensIn(const Setting<std::string>& file, const SecretReader& read) {
  ASSIGN_OR_RETURN(const SecretFile content, ReadNamedFile(file, FileKind::kSecret, kMaxTokenFileBytes, read));
  absl::StatusOr<std::vector<std::string>> tokens = ParseTokens(content.text);
  if (!tokens.ok()) return WrongFile(file, tokens.status());
  return OwnTokens{.tokens = *std::move(tokens), .file = content.path, .warning = content.warning};
}

}  // namespace

absl::StatusOr<SecretFile> ReadNamedFile(const Setting<std::string>& file, FileKind kind, size_t max_bytes,
                                         const SecretReader& read) {
  absl::StatusOr<SecretFile> content = read(file.value, kind, max_bytes);
  if (!content.ok()) return WrongFile(file, content.status());
  if (!content->warning.empty())
    content->warning = absl::StrCat(ShownWithValue(file.source, file.text), ": ", content->warning);
  return content;
}

absl::StatusOr<OwnTokens> TokensOf(const Given<std::string>& file, const Environment& environment,
                                   const SecretReader& read) {
  if (file) return TokensIn(*file, read);
  const auto token = environment.find(kTokenVariable);
  if (token == environment.end() || token->second.empty()) return OwnTokens();
  if (const absl::Status usable = CheckToken(token->second); !usable.ok()) {
    const bool ends_in_newline = token->second.ends_with("\n");
    return absl::FailedPreconditionError(absl::StrCat(kTokenVariable, ": ", usable.message(),
                                                      ends_in_newline ? "; a trailing newline is a blank" : ""));
  }
  return OwnTokens{.tokens = {token->second}};
}

}  // namespace muster::cli
