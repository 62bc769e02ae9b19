// All text that leaves the host is valid UTF-8.
#include "base/text/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/text/text.h"
#include "muster/v1/host.pb.h"

namespace muster::host {
namespace {

constexpr size_t kPlenty = 1000;

TEST(Utf8Test, GoodTextStaysAsItIs) {
  for (const std::string text :
       {"", "plain", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x99\x82", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ToUtf8(text, kPlenty), text);
  }
}

TEST(Utf8Test, BadBytesAreReplacedOneByOne) {
  EXPECT_EQ(ToUtf8("a\xff"
                   "b",
                   kPlenty),
            "a?b");
  EXPECT_EQ(ToUtf8("\xc0\x80", kPlenty), "??");            // overlong
  EXPECT_EQ(ToUtf8("\xed\xa0\x80", kPlenty), "???");       // a surrogate
  EXPECT_EQ(ToUtf8("\xf4\x90\x80\x80", kPlenty), "????");  // above U+10FFFF
  EXPECT_EQ(ToUtf8("\xe2\x82", kPlenty), "??");            // cut short
}

TEST(HostTextTest, AddressesAndNamesAlone) {
  for (const char* host : {"node-0", "a_b.example.", "10.0.0.1", "fd00::1", "fe80::1%eth0.100", ""}) {
    EXPECT_TRUE(IsHostText(host)) << host;
  }
  for (const char* text : {"a b", "a;b", "$(id)", "[::1]", "gr\xc3\xbcn", "a/b", "a@b", "a\nb"}) {
    EXPECT_FALSE(IsHostText(text)) << text;
  }
}

TEST(LastLineTest, EmptyLinesAtTheEndDoNotCount) {
  EXPECT_EQ(LastLine("one\ntwo\n\n"), "two");
  EXPECT_EQ(LastLine("one"), "one");
  EXPECT_EQ(LastLine("\n\n"), "");
  EXPECT_EQ(LastLine(""), "");
}

TEST(OneLineTest, WhatIsNotPrintableTextIsEscaped) {
  EXPECT_EQ(OneLine("gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82"), "gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82");
  EXPECT_EQ(OneLine("a\n\t\r\x1b[1m\x7f"), R"(a\n\t\x0d\x1b[1m\x7f)");
  EXPECT_EQ(OneLine("\xc2\x9b \xe2\x80\xa8 \xe2\x81\xa9"), R"(\xc2\x9b \xe2\x80\xa8 \xe2\x81\xa9)");
  EXPECT_EQ(OneLine("\xff \xc3 \xe2\x80"), R"(\xff \xc3 \xe2\x80)") << "no UTF-8";
  EXPECT_EQ(OneLine("\xc2\xa0\xe2\x82\xac"), "\xc2\xa0\xe2\x82\xac");
}

TEST(Utf8Test, ACharacterIsNeverCut) {
  EXPECT_EQ(ToUtf8("ab\xe2\x82\xac", 4), "ab");
  EXPECT_EQ(ToUtf8("ab\xe2\x82\xac", 5), "ab\xe2\x82\xac");
}

TEST(Utf8Test, ProtobufAcceptsTextMadeOfAnyBytes) {
  EXPECT_TRUE(rc::check([](const std::string& bytes) {
    const auto max = *rc::gen::inRange<size_t>(0, 20);
    v1::HostStatus status, read;
    status.set_trouble(ToUtf8(bytes, max));
    RC_ASSERT(status.trouble().size() <= max);
    RC_ASSERT(read.ParseFromString(status.SerializeAsString()));
  }));
}

}  // namespace
}  // namespace muster::host
