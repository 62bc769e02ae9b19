// Where a node's token comes from.
#include "cli/plan/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = "22-characters-at-least";

Given<std::string> File(const std::string& path) {
  return Setting<std::string>{path, Origin::kFlag, "--token-file", path};
}

TokenReader Holding(const std::string& content) {
  return [content](const std::string& path) { return path == "/token" ? std::optional(content) : std::nullopt; };
}

std::string TokenIn(const std::string& content) {
  const auto token = TokenOf(File("/token"), {}, Holding(content));
  return token.ok() ? *token : std::string(token.status().message());
}

TEST(TokenTest, WithoutFileAndVariableThereIsNone) {
  EXPECT_EQ(*TokenOf({}, {}, Holding("")), "");
  EXPECT_EQ(*TokenOf({}, {{"MUSTER_TOKEN", ""}}, Holding("")), "");
}

TEST(TokenTest, OneThatCanBeFoundByTryingIsRefused) {
  const std::string shorter = std::string(kGood).substr(1);
  EXPECT_THAT(
      TokenOf({}, {{"MUSTER_TOKEN", shorter}}, Holding("")).status().message(),
      HasSubstr("MUSTER_TOKEN: expected at least 22 characters, not 21; muster token prints a good token"));
  EXPECT_THAT(TokenIn(shorter), HasSubstr("--token-file /token: its content: expected at least 22 characters"));
}

TEST(TokenTest, TheVariableIsTakenAsItIs) {
  EXPECT_EQ(*TokenOf({}, {{"MUSTER_TOKEN", kGood}}, Holding("")), kGood);
  EXPECT_THAT(TokenOf({}, {{"MUSTER_TOKEN", "secret\n"}}, Holding("")).status().message(),
              HasSubstr("MUSTER_TOKEN: expected printable ASCII without blanks; a trailing newline is a blank"));
}

TEST(TokenTest, TheFileTakesPrecedenceAndItsNewlineDoesNotCount) {
  EXPECT_EQ(*TokenOf(File("/token"), {{"MUSTER_TOKEN", "other"}}, Holding(std::string(kGood) + "\r\n")), kGood);
}

TEST(TokenTest, AUselessFileIsNamedWithoutItsContent) {
  EXPECT_THAT(TokenOf(File("/missing"), {{"MUSTER_TOKEN", "other"}}, Holding("")).status().message(),
              HasSubstr("--token-file /missing: the file cannot be read"));
  EXPECT_EQ(TokenIn("\n"), "--token-file /token: the file is empty");
  EXPECT_EQ(TokenIn("two words"), "--token-file /token: its content: expected printable ASCII without blanks");
  EXPECT_THAT(TokenIn(std::string(kMaxTokenBytes + 1, 'x')), HasSubstr("expected at most 4096 bytes, not 4097"));
  EXPECT_EQ(TokenIn(std::string(kMaxTokenBytes, 'x')).size(), kMaxTokenBytes);
}

}  // namespace
}  // namespace muster::cli
