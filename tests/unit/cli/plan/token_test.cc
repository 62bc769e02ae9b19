// Where a node's tokens come from.
#include "cli/plan/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"
#include "cli/options/exit_codes.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGood[] = "22-characters-at-least";
constexpr char kOther[] = "22-characters-or-more!";

Given<std::string> File(const std::string& path) {
  return Setting<std::string>{path, Origin::kFlag, "--token-file", path};
}

SecretReader Holding(const std::string& content, const std::string& warning = "") {
  return [=](const std::string& path, FileKind, size_t) -> absl::StatusOr<SecretFile> {
    if (path != "token") return absl::NotFoundError("the file cannot be read");
    return SecretFile{.text = content, .path = "/folder/token", .warning = warning};
  };
}

std::string WhyNot(const std::string& content) {
  return std::string(TokensOf(File("token"), {}, Holding(content)).status().message());
}

TEST(TokenTest, WithoutFileAndVariableThereIsNone) {
  EXPECT_THAT(TokensOf({}, {}, Holding(""))->tokens, IsEmpty());
  EXPECT_THAT(TokensOf({}, {{"MUSTER_TOKEN", ""}}, Holding(""))->tokens, IsEmpty());
}

// As after MUSTER_TOKEN=$(cat /wrong/path).
TEST(TokenTest, AnEmptyVariableIsNamed) {
  EXPECT_THAT(TokensOf({}, {}, Holding(""))->warnings, IsEmpty());
  EXPECT_THAT(TokensOf({}, {{"MUSTER_TOKEN", ""}}, Holding(""))->warnings,
              ElementsAre("MUSTER_TOKEN: is set but empty, so this node has no token"));
  EXPECT_THAT(TokensOf({}, {{"MUSTER_TOKEN_FILE", ""}}, Holding(""))->warnings,
              ElementsAre("MUSTER_TOKEN_FILE: is set but empty, so this node has no token"));
  EXPECT_THAT(TokensOf({}, {{"MUSTER_TOKEN", kGood}, {"MUSTER_TOKEN_FILE", ""}}, Holding(""))->warnings,
              IsEmpty());
}

TEST(TokenTest, OneThatCanBeFoundByTryingIsRefused) {
  const std::string shorter = std::string(kGood).substr(1);
  EXPECT_THAT(
      TokensOf({}, {{"MUSTER_TOKEN", shorter}}, Holding("")).status().message(),
      HasSubstr("MUSTER_TOKEN: expected at least 22 characters, not 21; muster token prints a good token"));
  EXPECT_THAT(WhyNot(shorter), HasSubstr("--token-file token: line 1: expected at least 22 characters"));
}

TEST(TokenTest, TheVariableIsTakenAsItIs) {
  EXPECT_THAT(TokensOf({}, {{"MUSTER_TOKEN", kGood}}, Holding(""))->tokens, ElementsAre(kGood));
  EXPECT_THAT(TokensOf({}, {{"MUSTER_TOKEN", "secret\n"}}, Holding("")).status().message(),
              HasSubstr("MUSTER_TOKEN: expected printable ASCII without blanks; a trailing newline is a blank"));
}

TEST(TokenTest, TheFileTakesPrecedenceAndMayHoldTwo) {
  const auto own =
      TokensOf(File("token"), {{"MUSTER_TOKEN", "other"}}, Holding(std::string(kGood) + "\r\n" + kOther + "\n"));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_THAT(own->tokens, ElementsAre(kGood, kOther));
  EXPECT_EQ(own->file, "/folder/token") << "for whoever reads it again";
  EXPECT_THAT(
      own->warnings,
      ElementsAre("MUSTER_TOKEN: has no effect, since --token-file token takes precedence: unset one of the two"));
  EXPECT_THAT(TokensOf(File("token"), {{"MUSTER_TOKEN", ""}}, Holding(kGood))->warnings, IsEmpty());
}

TEST(TokenTest, AWarningNamesTheOption) {
  EXPECT_THAT(TokensOf(File("token"), {}, Holding(kGood, "everyone can read it"))->warnings,
              ElementsAre("--token-file token: everyone can read it"));
}

TEST(TokenTest, AUselessFileIsNamedWithoutItsContent) {
  EXPECT_THAT(TokensOf(File("/missing"), {{"MUSTER_TOKEN", "other"}}, Holding("")).status().message(),
              HasSubstr("--token-file /missing: the file cannot be read"));
  EXPECT_EQ(
      WhyNot("\n"),
      "--token-file token: the file is empty: write the job's token into it; muster token prints a good token");
  EXPECT_EQ(WhyNot("two words"), "--token-file token: line 1: expected printable ASCII without blanks");
}

// The command line is right, the machine is not: the same whether the file or its content is missing.
TEST(TokenTest, AMissingFileIsTheMachinesFault) {
  for (const Origin origin : {Origin::kFlag, Origin::kMusterVariable}) {
    Given<std::string> file = File("/missing");
    file->origin = origin;
    EXPECT_EQ(ExitCodeOf(TokensOf(file, {}, Holding("")).status()), kExitBadEnvironment);
  }
}

TEST(TokenTest, AFileThatOthersCanChangeIsTheMachinesFault) {
  const SecretReader open_to_all = [](const std::string&, FileKind, size_t) -> absl::StatusOr<SecretFile> {
    return absl::FailedPreconditionError("others can write it");
  };
  const absl::Status status = TokensOf(File("token"), {}, open_to_all).status();
  EXPECT_EQ(status.message(), "--token-file token: others can write it");
  EXPECT_EQ(ExitCodeOf(status), kExitBadEnvironment);
}

}  // namespace
}  // namespace muster::cli
