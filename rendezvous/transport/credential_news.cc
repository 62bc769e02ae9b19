#include "rendezvous/transport/credential_news.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::rendezvous {

namespace {

// A node that accepts only what was accepted before, and one that has only the new credentials, do not get to each
// other.
bool IsDisjoint(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  return !before.empty() && !now.empty() &&
         std::find_first_of(before.begin(), before.end(), now.begin(), now.end()) == before.end();
}

std::string ShownAuthorities(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  const auto is_new = [&](const std::string& one) {
    return std::find(before.begin(), before.end(), one) == before.end();
  };
  return absl::StrCat(" and trust ", now.size(), now.size() == 1 ? " authority (" : " authorities (",
                      std::count_if(now.begin(), now.end(), is_new), " new)");
}

constexpr char kNoTokenOfBefore[] =
    "it has no token of before: nodes whose file has only the old one cannot connect to those that have the new "
    "one; next time keep the old token on the second line until all nodes have both";
constexpr char kNoAuthorityOfBefore[] =
    "the file of --tls-ca has no authority of before: nodes whose files have only the old ones cannot connect to "
    "those that have the new ones; next time keep the old authorities in the file of --tls-ca until all nodes "
    "have certificates of the new one";

}  // namespace

std::optional<Note> NoteOnAge(const std::string& name, const Validity& validity, bool authority_ends_first,
                              Age age) {
  const std::string until = absl::FormatTime(absl::RFC3339_sec, validity.until, absl::UTCTimeZone());
  const char* const what =
      authority_ends_first ? "the authority in --tls-ca that vouches for the certificate" : "the certificate";
  const char* const mend = authority_ends_first ? "renew it with its key, or change to another one" : "renew it";
  if (age == Age::kEnding) {
    return Note{Severity::kWarning, absl::StrCat(name, ": ", what, " is valid until ", until, ": ", mend,
                                                 " before; new files are taken up without a restart")};
  }
  if (age == Age::kExpired) {
    return Note{Severity::kError, absl::StrCat(name, ": ", what, " expired at ", until,
                                               ": connections go on, but no new one is possible; ", mend)};
  }
  return std::nullopt;
}

CredentialNews::Outcome CredentialNews::OnRead(const absl::StatusOr<FilesRead>& read, absl::Time now) {
  if (!read.ok()) {
    if (std::exchange(unreadable_, read.status()) == read.status()) return {};
    return Complain(read.status());
  }
  Outcome outcome = OnTexts(read->texts, now);
  const bool is_new = warning_.has_value() && *warning_ != read->warning && !read->warning.empty();
  if (is_new) outcome.notes.push_back({Severity::kWarning, absl::StrCat(source_.name, ": ", read->warning)});
  warning_ = read->warning;
  return outcome;
}

CredentialNews::Outcome CredentialNews::OnTexts(const FileTexts& texts, absl::Time now) {
  const bool was_readable = std::exchange(unreadable_, absl::OkStatus()).ok();
  if (was_readable && newest_ == texts) return {};
  newest_ = texts;
  absl::StatusOr<MadeCredentials> made = source_.make(texts, now);
  if (!made.ok()) return Complain(made.status());
  const bool was_bad = std::exchange(bad_, false);
  if (made->digest == in_use_) {
    Outcome outcome;
    if (was_bad) outcome.notes.push_back({Severity::kInfo, absl::StrCat(source_.name, ": it is as before again")});
    return outcome;
  }
  in_use_ = made->digest;
  validity_ = made->validity;
  authority_ends_first_ = made->authority_ends_first;
  reported_age_ = Age::kGood;
  Outcome outcome{.next = std::move(made->credentials), .texts = texts, .notes = {}};
  outcome.notes.push_back(
      {Severity::kInfo, absl::StrCat(source_.name, ": it has changed: new connections use ", made->shown,
                                     made->are_certificates ? ShownAuthorities(accepted_, made->accepted) : "")});
  if (IsDisjoint(accepted_, made->accepted)) {
    const char* const why = made->are_certificates ? kNoAuthorityOfBefore : kNoTokenOfBefore;
    outcome.notes.push_back({Severity::kWarning, absl::StrCat(source_.name, ": ", why)});
  }
  accepted_ = std::move(made->accepted);
  return outcome;
}

std::vector<Note> CredentialNews::OnTime(absl::Time now) {
  const Age age = AgeOf(validity_, now);
  if (std::exchange(reported_age_, age) == age) return {};
  const std::optional<Note> note = NoteOnAge(source_.name, validity_, authority_ends_first_, age);
  return note.has_value() ? std::vector<Note>{*note} : std::vector<Note>();
}

CredentialNews::Outcome CredentialNews::Complain(const absl::Status& why) {
  bad_ = true;
  return {
      .next = nullptr,
      .texts = {},
      .notes = {{Severity::kWarning, absl::StrCat(source_.name, ": ", why.message(),
                                                  "; what was read before stays in use until it is corrected")}}};
}

}  // namespace muster::rendezvous
