#include "rendezvous/transport/address.h"

#include "gtest/gtest.h"
#include "rendezvous/gate/tcp.h"
#include "rendezvous/transport/listen_address.h"
#include "rendezvous/transport/peer_address.h"

namespace muster::rendezvous {
namespace {

TEST(AddressTest, LiteralsAnswerForThemselves) {
  for (const char* literal : {"127.0.0.1", "::1", "192.0.2.7"}) {
    const auto addresses = ResolveHost(literal);
    ASSERT_TRUE(addresses.ok());
    EXPECT_EQ(*addresses, std::vector<std::string>{literal});
  }
}

TEST(AddressTest, LoopbackIsLocalAndADocumentationAddressIsNot) {
  EXPECT_TRUE(*IsLocalAddress("127.0.0.3"));
  EXPECT_TRUE(*IsLocalAddress("localhost"));
  EXPECT_FALSE(*IsLocalAddress("192.0.2.7"));
}

TEST(AddressTest, AnUnresolvedNameIsNamed) {
  const auto addresses = ResolveHost("no-such-host.invalid");
  ASSERT_FALSE(addresses.ok());
  EXPECT_NE(std::string(addresses.status().message()).find("no-such-host.invalid"), std::string::npos);
}

TEST(AddressTest, AnIPv4AddressInIPv6sFormIsShownAsIPv4) {
  const auto shown = [](const std::string& ip) { return IpOf(*ParseSocketAddress(ip, 4242)); };
  EXPECT_EQ(shown("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(shown("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(shown("::1"), "::1");
  EXPECT_EQ(shown("fe80::1"), "fe80::1");
  EXPECT_EQ(IpOf(SocketAddress{}), "") << "of no family";
}

TEST(AddressTest, TheLocalAddressTowardsLoopbackIsLoopback) {
  EXPECT_EQ(LocalAddressTowards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(LocalAddressTowards("::1"), "::1");
  EXPECT_EQ(LocalAddressTowards("not an address"), "");
}

TEST(AddressTest, AllAddressesAreListenedOnUnlessTheSpecIsLoopback) {
  using List = std::vector<std::string>;
  EXPECT_EQ(ListenAddresses({"10.0.0.1", 5, false}), List{"[::]:5"});
  EXPECT_EQ(ListenAddresses({"127.0.0.3", 5, true}), List{"127.0.0.3:5"});
  EXPECT_EQ(ListenAddresses({"::1", 5, true}), List{"[::1]:5"});
  EXPECT_EQ(ListenAddresses({"localhost", 5, true}), (List{"127.0.0.1:5", "[::1]:5"}));
}

}  // namespace
}  // namespace muster::rendezvous
