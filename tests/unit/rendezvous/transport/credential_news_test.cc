// What changed files of credentials lead to.
#include "rendezvous/transport/credential_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/core/status_macros.h"

namespace muster::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Time kNow = absl::UnixEpoch();
const Validity kLife{.from = kNow, .until = kNow + absl::Hours(240)};

// "tokens a b" has two, "authorities a b" as well; other texts have neither.
std::vector<std::string> AcceptedBy(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "tokens ") && !absl::ConsumePrefix(&text, "authorities ")) return {};
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

// The text "bad ..." makes no credentials.
CredentialSource Source() {
  return {.name = "the file f",
          .read = nullptr,
          .make = [](const FileTexts& texts, std::optional<absl::Time>) -> absl::StatusOr<MadeCredentials> {
            if (texts.front().starts_with("bad")) return absl::FailedPreconditionError(texts.front());
            return MadeCredentials{.credentials = TokenCredentials({texts.front()}, "run"),
                                   .digest = std::string(absl::StripTrailingAsciiWhitespace(texts.front())),
                                   .shown = "the new one",
                                   .accepted = AcceptedBy(texts.front()),
                                   .are_certificates = texts.front().starts_with("authorities"),
                                   .validity = {.from = kNow, .until = kNow + absl::Hours(480)}};
          }};
}

class CredentialNewsTest : public ::testing::Test {
 protected:
  // The lines; a star is before those that come with new credentials.
  std::vector<std::string> Read(const absl::StatusOr<FilesRead>& read) {
    const CredentialNews::Outcome outcome = news_.OnRead(read, kNow);
    std::vector<std::string> lines;
    for (const Note& note : outcome.notes) {
      const char* const severity = note.severity == Severity::kInfo ? "info: " : "warning: ";
      lines.push_back(absl::StrCat(outcome.next != nullptr ? "* " : "", severity, note.text));
    }
    if (lines.empty() && outcome.next != nullptr) lines.emplace_back("replaced without a line");
    return lines;
  }
  std::vector<std::string> Read(const std::string& text, const std::string& warning = "") {
    return Read(FilesRead{{text}, warning});
  }

  std::vector<std::string> Later(absl::Duration time) {
    std::vector<std::string> lines;
    for (const Note& note : news_.OnTime(kNow + time)) {
      lines.push_back(absl::StrCat(note.severity == Severity::kError ? "error: " : "warning: ", note.text));
    }
    return lines;
  }

  CredentialNews news_{Source(), {.credentials = nullptr, .digest = "first", .shown = "", .validity = kLife}};
};

constexpr char kNewLine[] = "* info: the file f: it has changed: new connections use the new one";

TEST_F(CredentialNewsTest, WhatIsInUseIsNoNews) {
  EXPECT_THAT(Read("first\n"), IsEmpty());
  EXPECT_THAT(Read("first"), IsEmpty()) << "only its blanks changed";
}

TEST_F(CredentialNewsTest, AChangeIsTakenUpOnce) {
  Read("first");
  EXPECT_THAT(Read("second"), ElementsAre(kNewLine));
  EXPECT_THAT(Read("second"), IsEmpty());
  EXPECT_THAT(Read("third"), ElementsAre(kNewLine));
}

TEST_F(CredentialNewsTest, AFileThatChangedBeforeTheFirstReadingIsTakenUp) {
  EXPECT_THAT(Read("second"), ElementsAre(kNewLine));
}

TEST_F(CredentialNewsTest, EachBadContentIsNamedOnceAndChangesNothing) {
  Read("first");
  const std::string rest = "; what was read before stays in use until it is corrected";
  EXPECT_THAT(Read("bad one"), ElementsAre("warning: the file f: bad one" + rest));
  EXPECT_THAT(Read("bad one"), IsEmpty());
  EXPECT_THAT(Read("bad two"), ElementsAre("warning: the file f: bad two" + rest));
  EXPECT_THAT(Read(absl::NotFoundError("gone")), ElementsAre("warning: the file f: gone" + rest));
  EXPECT_THAT(Read(absl::NotFoundError("gone")), IsEmpty());
  EXPECT_THAT(Read("bad two"), ElementsAre("warning: the file f: bad two" + rest));
}

TEST_F(CredentialNewsTest, ACorrectedFileIsNamed) {
  Read("first");
  Read(absl::NotFoundError("gone"));
  EXPECT_THAT(Read("first"), ElementsAre("info: the file f: it is as before again"));
  Read("bad");
  EXPECT_THAT(Read("second"), ElementsAre(kNewLine));
}

TEST_F(CredentialNewsTest, TokensThatLeaveNoneOfThoseBeforeAreAWarning) {
  Read("tokens new old");
  EXPECT_THAT(Read("tokens new"), ElementsAre(kNewLine));
  EXPECT_THAT(Read("tokens newer new"), ElementsAre(kNewLine));
  const std::vector<std::string> lines = Read("tokens other");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], kNewLine);
  EXPECT_THAT(lines[1], HasSubstr("warning: the file f: it has no token of before: nodes whose file has only"));
}

TEST_F(CredentialNewsTest, AuthoritiesThatLeaveNoneOfThoseBeforeAreAWarning) {
  EXPECT_THAT(Read("authorities old"), ElementsAre(std::string(kNewLine) + " and trust 1 authority (1 new)"));
  EXPECT_THAT(Read("authorities new old"),
              ElementsAre(std::string(kNewLine) + " and trust 2 authorities (1 new)"));
  EXPECT_THAT(Read("authorities new"), ElementsAre(std::string(kNewLine) + " and trust 1 authority (0 new)"));
  const std::vector<std::string> lines = Read("authorities other");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(
      lines[1],
      HasSubstr("warning: the file f: the file of --tls-ca has no authority of before: nodes whose files"));
}

TEST_F(CredentialNewsTest, AFileThatBecomesReadableByAllIsNamedOnce) {
  EXPECT_THAT(Read("first", "all can read it"), IsEmpty()) << "said at the start";
  EXPECT_THAT(Read("first", ""), IsEmpty());
  EXPECT_THAT(Read("first", "all can read it"), ElementsAre("warning: the file f: all can read it"));
  EXPECT_THAT(Read("first", "all can read it"), IsEmpty());
}

TEST_F(CredentialNewsTest, AnEndIsNamedOnceBeforeAndOnceAfter) {
  EXPECT_THAT(Later(absl::Hours(1)), IsEmpty());
  EXPECT_THAT(Later(absl::Hours(217)),
              ElementsAre("warning: the file f: the certificate is valid until "
                          "1970-01-11T00:00:00+00:00: renew it before; new files are taken "
                          "up without a restart"));
  EXPECT_THAT(Later(absl::Hours(218)), IsEmpty());
  EXPECT_THAT(
      Later(absl::Hours(241)),
      ElementsAre("error: the file f: the certificate expired at 1970-01-11T00:00:00+00:00: connections go "
                  "on, but no new one is possible; renew it"));
  EXPECT_THAT(Later(absl::Hours(242)), IsEmpty());
}

TEST_F(CredentialNewsTest, ARenewedOneBeginsAnew) {
  Later(absl::Hours(241));
  Read("second");
  EXPECT_THAT(Later(absl::Hours(242)), IsEmpty());
  EXPECT_EQ(Later(absl::Hours(470)).size(), 1u);
}

}  // namespace
}  // namespace muster::rendezvous
