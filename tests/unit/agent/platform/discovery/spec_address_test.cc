#include "agent/platform/discovery/address.h"
#include "base/wire/loopback.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::discovery {
namespace {

using ::testing::HasSubstr;

TEST(Address, HostAndPort) {
  const Address address = ParseAddress("cmle-training-workerpool0-ab-0:2222").value();
  EXPECT_EQ(address.host, "cmle-training-workerpool0-ab-0");
  EXPECT_EQ(address.port, 2222);
}

TEST(Address, PortMayBeLeftOut) {
  EXPECT_EQ(ParseAddress("a.b.c").value().port, std::nullopt);
  EXPECT_EQ(ParseAddress("[::1]").value().port, std::nullopt);
}

TEST(Address, AcceptsWhatNamesAndAddressesLookLike) {
  for (const std::string text : {"a", "A-1.b_c.", "10.0.0.1:1", "255.255.255.255:65535", "[fd00::1]:2222", "1a:2",
                                 "[::ffff:10.0.0.1]:80"}) {
    EXPECT_TRUE(ParseAddress(text).ok()) << text;
  }
  EXPECT_TRUE(ParseAddress(std::string(kMaxLabelChars, 'a') + ".b:1").ok());
}

TEST(Address, RefusesEverythingElse) {
  const std::string nul("a\0b:1", 5);
  const std::string nul_in_brackets("[::1\0]:1", 8);
  for (const std::string& text : {std::string(""),
                                  std::string(":1"),
                                  std::string("a:"),
                                  std::string("a:0"),
                                  std::string("a:65536"),
                                  std::string("a:-1"),
                                  std::string("a:+1"),
                                  std::string("a: 1"),
                                  std::string("a:1 "),
                                  std::string("a:000001"),
                                  std::string("a:1x"),
                                  std::string("a b:1"),
                                  std::string(" a:1"),
                                  std::string("a..b:1"),
                                  std::string(".a:1"),
                                  std::string(".:1"),
                                  std::string("a/b:1"),
                                  std::string("u@h:1"),
                                  std::string("300.1.1.1:1"),
                                  std::string("1.2.3:1"),
                                  std::string("fd00::1"),
                                  std::string("::1:2222"),
                                  std::string("[::1:2222"),
                                  std::string("[]:1"),
                                  std::string("[a]:1"),
                                  std::string("[::1]1"),
                                  std::string("[::1]:"),
                                  std::string("[::1%lo]:1"),
                                  std::string("http://a:1"),
                                  std::string("\xc3\xa9:1"),
                                  nul,
                                  nul_in_brackets}) {
    EXPECT_FALSE(ParseAddress(text).ok()) << text;
  }
  EXPECT_FALSE(ParseAddress(std::string(kMaxLabelChars + 1, 'a') + ":1").ok());
}

TEST(Address, ErrorsSayWhatWasExpected) {
  EXPECT_THAT(std::string(ParseAddress("fd00::1:2222").status().message()), HasSubstr("brackets"));
  EXPECT_THAT(std::string(ParseAddress("grpc://a:1").status().message()), HasSubstr("URL scheme"));
  EXPECT_THAT(std::string(ParseAddress("a:99999").status().message()), HasSubstr("1 to 65535"));
}

TEST(Address, LoopbackIs127Slash8AndItsIpv6Forms) {
  for (const char* host :
       {"127.0.0.1", "127.255.0.9", "::1", "localhost", "LOCALHOST", "localhost.", "::ffff:127.0.0.2"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"128.0.0.1", "10.0.0.1", "::2", "::", "localhost.localdomain", "127",
                           "127.0.0.1.nip.io", "::ffff:10.0.0.1", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(Address, WrittenWithBracketsAroundIpv6) {
  EXPECT_EQ(ToString("a", 1), "a:1");
  EXPECT_EQ(ToString("::1", 1), "[::1]:1");
}

}  // namespace
}  // namespace muster::discovery
