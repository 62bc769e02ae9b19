#include "cli/plan/token.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/text/tokens.h"
#include "cli/plan/parts.h"
#include "rendezvous/transport/credential_files.h"

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

// The check sees texts alone, and begins its messages with the option. Their reader needs the file, and the
// variable if that has named it.
absl::Status WithFile(const absl::Status& wrong, const MembershipSettings& s) {
  const std::string message(AsStd(wrong.message()));
  const std::pair<std::string, const Given<std::string>*> files[] = {
      {"--tls-cert: ", &s.tls_cert}, {"--tls-key: ", &s.tls_key}, {"--tls-ca: ", &s.tls_ca}};
  for (const auto& [start, file] : files) {
    if (!message.starts_with(start)) continue;
    return {wrong.code(),
            absl::StrCat(ShownWithValue((*file)->source, (*file)->text), ": ", message.substr(start.size()))};
  }
  return wrong;
}

absl::Status TakeCertificates(const PlanInput& in, v1::NodeConfig* config, PlanLines* plan) {
  const MembershipSettings& s = in.settings.membership;
  v1::Certificates* const files = config->mutable_certificates();
  files->set_name(s.tls_name->value);
  const auto take = [&](const Setting<std::string>& file, FileKind kind, std::string* path,
                        std::string* text) -> absl::Status {
    ASSIGN_OR_RETURN(const SecretFile content,
                     ReadNamedFile(file, kind, rendezvous::kMaxCertificateFileBytes, in.machine.read_secret));
    *path = content.path;
    *text = content.text;
    if (!content.warning.empty()) plan->warnings.push_back(content.warning);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(take(*s.tls_cert, FileKind::kPublic, files->mutable_cert_file(), files->mutable_cert()));
  RETURN_IF_ERROR(take(*s.tls_key, FileKind::kSecret, files->mutable_key_file(), files->mutable_key()));
  RETURN_IF_ERROR(take(*s.tls_ca, FileKind::kPublic, files->mutable_ca_file(), files->mutable_ca()));
  return WithFile(in.machine.check_certificates(*config), s);
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

absl::StatusOr<PlanLines> PlanCredentials(const PlanInput& in, v1::NodeConfig* config) {
  const MembershipSettings& s = in.settings.membership;
  ASSIGN_OR_RETURN(const OwnTokens own, TokensOf(s.token_file, in.environment, in.machine.read_secret));
  config->mutable_tokens()->Assign(own.tokens.begin(), own.tokens.end());
  config->set_token_file(own.file);
  PlanLines plan;
  plan.warnings = own.warnings;
  if (!s.tls_cert) return plan;
  if (!own.tokens.empty()) {
    return Fault(*s.tls_cert, absl::StrCat("a token is set, too (", kTokenVariable,
                                           "): choose tokens or certificates, the same on all nodes"));
  }
  RETURN_IF_ERROR(TakeCertificates(in, config, &plan));
  return plan;
}

}  // namespace muster::cli
