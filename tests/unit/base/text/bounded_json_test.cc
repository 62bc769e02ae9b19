#include "base/text/bounded_json.h"

#include <algorithm>

#include "base/text/problem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace muster::discovery {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string RefusalOf(const std::string& text, const JsonLimits& limits = {}) {
  const auto parsed = ParseBoundedJson(text, limits);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

TEST(BoundedJson, DepthIsCountedExactly) {
  const JsonLimits limits{.max_bytes = 100, .max_depth = 3};
  EXPECT_TRUE(ParseBoundedJson(R"([{"a":[1]}])", limits).ok());
  EXPECT_EQ(RefusalOf(R"([{"a":[[]]}])", limits), "nested more than 3 deep");
  EXPECT_TRUE(ParseBoundedJson("[[[]],[[]],[[]]]", limits).ok());
}

TEST(BoundedJson, SizeIsCountedExactly) {
  const JsonLimits limits{.max_bytes = 4, .max_depth = 3};
  EXPECT_TRUE(ParseBoundedJson("[10]", limits).ok());
  EXPECT_EQ(RefusalOf("[100]", limits), "5 bytes long, over the limit of 4");
}

TEST(BoundedJson, ErrorsNameThePosition) {
  EXPECT_EQ(RefusalOf("x"), "not JSON at byte 0, near x");
  EXPECT_EQ(RefusalOf(R"({"a":1} {"b":2})"), R"(not JSON at byte 8, near {"b":2})");
  EXPECT_EQ(RefusalOf(R"({"a":)"), "not JSON: it ends too early, after 5 bytes");
  EXPECT_EQ(RefusalOf(""), "not JSON: it ends too early, after 0 bytes");
}

TEST(BoundedJson, AZeroByteIsNotTheEnd) {
  EXPECT_EQ(RefusalOf(std::string("{}\0{\"x\" garbage", 15)), "not JSON at byte 2, which is 0");
  EXPECT_EQ(RefusalOf(std::string("{}\0", 3)), "not JSON at byte 2, which is 0");
}

TEST(BoundedJson, CommentsAndNumbersBeyondFloatingPointAreNotJson) {
  EXPECT_THAT(RefusalOf("/* c */ 1"), HasSubstr("not JSON at byte"));
  EXPECT_THAT(RefusalOf("1e9999"), HasSubstr("a number that is too large, 1e9999"));
  EXPECT_THAT(RefusalOf("NaN"), HasSubstr("not JSON"));
}

TEST(BoundedJson, TheSameKeyInDifferentObjectsIsFine) {
  EXPECT_TRUE(ParseBoundedJson(R"({"a":{"a":1},"b":{"a":1}})", {}).ok());
  EXPECT_EQ(RefusalOf(R"({"a":{"b":1,"b":1}})"), "an object that has the member b twice");
}

TEST(Shown, EscapesWhatIsNotPrintable) {
  EXPECT_EQ(Shown("a\n\r\t\x1b[1m\x7f\xe2\x80\xa8"), R"(a\n\r\t\x1b[1m\x7f\xe2\x80\xa8)");
  EXPECT_EQ(Shown("http://u:hunter2@h:5"), "http://********@h:5");
  EXPECT_EQ(Shown("password=hunter2,x"), "password=********");
  EXPECT_EQ(Shown(std::string("\0", 1)), R"(\x00)");
}

TEST(Shown, CutsAtTheLimitNotWithinAnEscape) {
  EXPECT_EQ(Shown(std::string(kMaxShownChars, 'a')), std::string(kMaxShownChars, 'a'));
  EXPECT_EQ(Shown(std::string(kMaxShownChars + 1, 'a')), std::string(kMaxShownChars - 3, 'a') + "...");
  for (size_t lead = 0; lead < 8; ++lead) {
    const std::string shown = Shown(std::string(lead, 'a') + std::string(100, '\x01'));
    EXPECT_LE(shown.size(), kMaxShownChars);
    EXPECT_THAT(shown, EndsWith("\\x01..."));
  }
}

TEST(Problem, IsAlwaysOneShortLine) {
  const std::string foreign = std::string(500, 'x') + "\nmuster: all is well\xff";
  const absl::Status status = ToStatus({foreign, foreign, foreign, "none but \n this", ""});
  const std::string line(status.message().data(), status.message().size());
  EXPECT_LT(line.size(), 400u) << line;
  EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c < 0x7f; })) << line;
}

TEST(Problem, NamesSourceFieldValueExpectationAndRemedy) {
  EXPECT_EQ(std::string(ToStatus({"S", "f", "v\n", "e", "a"}).message()), "S: f is v\\n: expected e; a");
  EXPECT_EQ(std::string(ToStatus({"S", "", "", "e", "a"}).message()), "S is empty: expected e; a");
  EXPECT_EQ(
      std::string(ToStatus({"S", "f", std::nullopt, "e", ""}).message()),
      "S: f is missing: expected e; correct it, or unset it and give --nnodes, --node-rank and --master-addr");
}

}  // namespace
}  // namespace muster::discovery
