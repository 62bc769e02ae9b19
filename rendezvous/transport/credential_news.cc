#include "rendezvous/transport/credential_news.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::rendezvous {

CredentialNews::Outcome CredentialNews::OnRead(const absl::StatusOr<FileTexts>& texts, absl::Time now) {
  const bool same = texts.ok() ? unreadable_.ok() && newest_ == *texts : unreadable_ == texts.status();
  if (same) return {};
  unreadable_ = texts.status();
  if (!texts.ok()) return Complain(texts.status());
  newest_ = *texts;
  absl::StatusOr<MadeCredentials> made = source_.make(*texts, now);
  if (!made.ok()) return Complain(made.status());
  const bool was_bad = std::exchange(bad_, false);
  if (made->digest == in_use_) {
    Outcome outcome;
    if (was_bad) outcome.notes.push_back({Severity::kInfo, absl::StrCat(source_.name, ": it is as before again")});
    return outcome;
  }
  in_use_ = made->digest;
  validity_ = made->validity;
  age_said_ = Age::kGood;
  return {.next = std::move(made->credentials),
          .texts = *texts,
          .notes = {{Severity::kInfo,
                     absl::StrCat(source_.name, ": it has changed: new connections use ", made->shown)}}};
}

std::vector<Note> CredentialNews::OnTime(absl::Time now) {
  const Age age = AgeOf(validity_, now);
  if (std::exchange(age_said_, age) == age) return {};
  const std::string until = absl::FormatTime(absl::RFC3339_sec, validity_.until, absl::UTCTimeZone());
  if (age == Age::kEnding) {
    return {{Severity::kWarning, absl::StrCat(source_.name, ": the certificate is valid until ", until,
                                              ": renew it before; it is taken up without a restart")}};
  }
  if (age == Age::kExpired) {
    return {
        {Severity::kError, absl::StrCat(source_.name, ": the certificate has expired at ", until,
                                        ": connections go on, but no new one is possible until it is renewed")}};
  }
  return {};
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
