#include "cli/plan/token.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/text/tokens.h"

namespace muster::cli {
namespace {

// The option is right, what it names is not: 65, as for a hostfile.
absl::Status WrongFile(const Setting<std::string>& file, std::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(ShownWithValue(file.source, file.text), ": ", AsAbsl(why)));
}

absl::StatusOr<OwnTokens> TokensIn(const Setting<std::string>& file, const SecretReader& read) {
  ASSIGN_OR_RETURN(const SecretFile content, ReadNamedFile(file, FileKind::kSecret, kMaxTokenFileBytes, read));
  absl::StatusOr<std::vector<std::string>> tokens = ParseTokens(content.text);
  if (absl::StripAsciiWhitespace(content.text).empty()) {
    return WrongFile(file, "the file is empty: write the job's token into it; muster token prints a good token");
  }
  if (!tokens.ok()) return WrongFile(file, AsStd(tokens.status().message()));
  OwnTokens own{.tokens = *std::move(tokens), .file = content.path};
  if (!content.warning.empty()) own.warnings.push_back(content.warning);
  return own;
}

}  // namespace

absl::StatusOr<SecretFile> ReadNamedFile(const Setting<std::string>& file, FileKind kind, size_t max_bytes,
                                         const SecretReader& read) {
  absl::StatusOr<SecretFile> content = read(file.value, kind, max_bytes);
  if (!content.ok()) return WrongFile(file, AsStd(content.status().message()));
  if (!content->warning.empty())
    content->warning = absl::StrCat(ShownWithValue(file.source, file.text), ": ", content->warning);
  return content;
}

absl::StatusOr<OwnTokens> TokensOf(const Given<std::string>& file, const Environment& environment,
                                   const SecretReader& read) {
  const auto token = environment.find(kTokenVariable);
  const bool has_variable = token != environment.end() && !token->second.empty();
  if (file) {
    ASSIGN_OR_RETURN(OwnTokens own, TokensIn(*file, read));
    if (has_variable) {
      own.warnings.push_back(absl::StrCat(kTokenVariable, ": has no effect, since ",
                                          ShownWithValue(file->source, file->text),
                                          " takes precedence: unset one of the two"));
    }
    return own;
  }
  if (!has_variable) {
    OwnTokens none;
    const auto named = environment.find(kTokenFileVariable);
    for (const auto& given : {token, named}) {
      if (given == environment.end()) continue;
      none.warnings.push_back(absl::StrCat(given->first, ": is set but empty, so this node has no token"));
    }
    return none;
  }
  if (const absl::Status usable = CheckToken(token->second); !usable.ok()) {
    const bool ends_in_newline = token->second.ends_with("\n");
    return absl::FailedPreconditionError(absl::StrCat(kTokenVariable, ": ", usable.message(),
                                                      ends_in_newline ? "; a trailing newline is a blank" : ""));
  }
  return OwnTokens{.tokens = {token->second}};
}

}  // namespace muster::cli
