#include "rendezvous/transport/credential_files.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/core/status_macros.h"
#include "base/io/secret_file.h"
#include "base/text/tokens.h"
#include "rendezvous/gate/certificates.h"

namespace muster::rendezvous {
namespace {

// ---- tokens

MadeCredentials TokensMade(const std::vector<std::string>& tokens, const std::string& run_id) {
  return {.credentials = TokenCredentials(tokens, run_id),
          .digest = absl::StrJoin(tokens, "\n"),
          .shown = tokens.size() > 1 ? "both of its tokens" : "its token",
          .accepted = tokens};
}

CredentialSource TokenSource(const v1::NodeConfig& config) {
  return {.name = absl::StrCat("the token file ", config.token_file()),
          .read = [path = config.token_file()]() -> absl::StatusOr<FilesRead> {
            ASSIGN_OR_RETURN(SecretFile file, ReadSecretFile(path, FileKind::kSecret, kMaxTokenFileBytes));
            return FilesRead{.texts = {std::move(file.text)}, .warning = std::move(file.warning)};
          },
          .make = [run_id = config.run_id()](const FileTexts& texts,
                                             std::optional<absl::Time>) -> absl::StatusOr<MadeCredentials> {
            ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ParseTokens(texts.front()));
            return TokensMade(tokens, run_id);
          }};
}

// ---- certificates

FileTexts TextsOf(const v1::Certificates& files) { return {files.cert(), files.key(), files.ca()}; }

absl::StatusOr<MadeCredentials> CertificatesMade(const FileTexts& texts, const PeerName& name, TlsRole role,
                                                 std::optional<absl::Time> now) {
  if (texts.size() != 3) return absl::InvalidArgumentError("three files make a set of certificates");
  ASSIGN_OR_RETURN(CertificateSet set,
                   MakeCertificateSet({.cert = texts[0], .key = texts[1], .ca = texts[2]}, name, role, now));
  return MadeCredentials{
      .credentials = std::move(set.credentials),
      .digest = absl::StrJoin(texts, "\n"),
      .shown = absl::StrCat("the certificate that is valid until ",
                            absl::FormatTime(absl::RFC3339_sec, set.validity.until, absl::UTCTimeZone())),
      .accepted = std::move(set.authorities),
      .are_certificates = true,
      .authority_ends_first = set.authority_ends_first,
      .validity = set.validity};
}

CredentialSource CertificateSource(const v1::Certificates& files, const PeerName& name, TlsRole role) {
  v1::Certificates paths = files;
  paths.clear_key();
  return {
      .name = absl::StrCat("the files of --tls-cert ", files.cert_file(), ", --tls-key and --tls-ca"),
      .read = [paths]() -> absl::StatusOr<FilesRead> {
        v1::Certificates newest = paths;
        std::string warning;
        RETURN_IF_ERROR(ReadCertificates(&newest, &warning));
        return FilesRead{.texts = TextsOf(newest), .warning = std::move(warning)};
      },
      .make = [name, role](const FileTexts& texts,
                           std::optional<absl::Time> now) { return CertificatesMade(texts, name, role, now); }};
}

}  // namespace

// Dates do not count, because the files may be newer.
absl::StatusOr<FirstCredentials> FirstFrom(const v1::NodeConfig& config, TlsRole role, const FileTexts& newest) {
  FirstCredentials first;
  if (config.single_node()) return first;  // it connects nowhere
  if (config.has_certificates()) {
    const v1::Certificates& files = config.certificates();
    ASSIGN_OR_RETURN(const PeerName name, PeerName::Parse(files.name(), config.run_id()));
    ASSIGN_OR_RETURN(first.made, CertificatesMade(TextsOf(files), name, role, std::nullopt));
    first.source = CertificateSource(files, name, role);
  } else if (!config.tokens().empty()) {
    first.made = TokensMade({config.tokens().begin(), config.tokens().end()}, config.run_id());
    if (!config.token_file().empty()) first.source = TokenSource(config);
  }
  if (!first.source || newest.empty()) return first;
  // An old agent has found them good.
  absl::StatusOr<MadeCredentials> made = first.source->make(newest, std::nullopt);
  if (made.ok()) first.made = *std::move(made);
  return first;
}

absl::StatusOr<std::shared_ptr<LiveCredentials>> CredentialsFrom(const v1::NodeConfig& config) {
  ASSIGN_OR_RETURN(const FirstCredentials first, FirstFrom(config, TlsRole::kNode));
  if (first.made.credentials == nullptr) return nullptr;
  return std::make_shared<LiveCredentials>(first.made.credentials);
}

TlsRole RoleOf(const v1::NodeConfig& config) {
  return config.serves() == v1::NodeConfig::SERVES_YES ? TlsRole::kPrimary : TlsRole::kNode;
}

absl::Status ReadCertificates(v1::Certificates* files, std::string* warning) {
  const auto read = [warning](const char* option, const std::string& path, FileKind kind, std::string* text) {
    absl::StatusOr<SecretFile> file = ReadSecretFile(path, kind, kMaxCertificateFileBytes);
    if (!file.ok()) return WithContext(file.status(), option + path);
    *text = std::move(file->text);
    if (warning != nullptr && !file->warning.empty()) *warning = absl::StrCat(option, path, ": ", file->warning);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read("--tls-cert ", files->cert_file(), FileKind::kPublic, files->mutable_cert()));
  RETURN_IF_ERROR(read("--tls-key ", files->key_file(), FileKind::kSecret, files->mutable_key()));
  return read("--tls-ca ", files->ca_file(), FileKind::kPublic, files->mutable_ca());
}

absl::Status CheckCertificates(const v1::NodeConfig& config, TlsRole role, absl::Time now) {
  const v1::Certificates& files = config.certificates();
  const absl::StatusOr<PeerName> name = PeerName::Parse(files.name(), config.run_id());
  if (!name.ok()) return WithContext(name.status(), absl::StrCat("--tls-name ", files.name()));
  return CertificatesMade(TextsOf(files), *name, role, now).status();
}

std::string WarningOnAge(const v1::NodeConfig& config, absl::Time now) {
  const absl::StatusOr<FirstCredentials> first = FirstFrom(config, RoleOf(config));
  if (!first.ok() || !first->source.has_value()) return "";
  const MadeCredentials& made = first->made;
  const Age age = AgeOf(made.validity, now);
  const std::optional<Note> note = NoteOnAge(first->source->name, made.validity, made.authority_ends_first, age);
  return note.has_value() ? note->text : "";
}

}  // namespace muster::rendezvous
