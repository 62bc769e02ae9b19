// The texts that hold a job's tokens.
#include "base/text/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr char kNew[] = "the-new-token-of-22-chars";
constexpr char kOld[] = "the-old-token-of-22-chars";

std::string WhyNot(const std::string& text) {
  const auto tokens = ParseTokens(text);
  return tokens.ok() ? "accepted" : std::string(tokens.status().message());
}

TEST(TokensTest, EachLineIsAToken) {
  EXPECT_THAT(*ParseTokens(std::string(kNew)), ElementsAre(kNew));
  EXPECT_THAT(*ParseTokens(std::string("\n") + kNew + " \r\n\n" + kOld + "\n\n"), ElementsAre(kNew, kOld));
}

TEST(TokensTest, ThreeAreOneTooMany) {
  EXPECT_EQ(WhyNot(std::string(kNew) + "\n" + kOld + "\n\n" + kOld + "\n"),
            "line 4 is one token too many: expected the new token on the first line and the one before it on the "
            "second");
}

TEST(TokensTest, BadTextsAreNamedWithoutTheirContent) {
  EXPECT_EQ(WhyNot(""), "the file is empty");
  EXPECT_EQ(WhyNot(" \n\r\n"), "the file is empty");
  EXPECT_EQ(WhyNot(std::string(kNew) + "\nsecret"),
            "line 2: expected at least 22 characters, not 6; muster token prints a good token");
  EXPECT_EQ(WhyNot("a secret of two and more words"), "line 1: expected printable ASCII without blanks");
  EXPECT_EQ(WhyNot(std::string(kMaxTokenBytes + 1, 'x')), "line 1: expected at most 4096 bytes, not 4097");
}

TEST(TokensTest, TheLargestTokensFitIntoAFile) {
  const std::string text = std::string(kMaxTokenBytes, 'x') + "\r\n" + std::string(kMaxTokenBytes, 'y') + "\r\n";
  EXPECT_LE(text.size(), kMaxTokenFileBytes);
  EXPECT_EQ(ParseTokens(text)->size(), 2u);
}

}  // namespace
}  // namespace muster
