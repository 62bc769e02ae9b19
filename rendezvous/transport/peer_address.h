// Parses addresses in gRPC's notation, and finds the local address from which a peer is reached.
#pragma once

#include <string>
#include <string_view>

namespace muster::rendezvous {

// The address in "ipv4:10.0.0.1:4242" or "ipv6:%5B::1%5D:4242", without port and scope. Empty: neither form.
std::string PeerAddress(std::string_view peer);

// The address that this machine uses to reach `peer`, an IP address: that of a connected UDP socket, which sends
// nothing. Empty if there is no route.
std::string LocalAddressTowards(const std::string& peer);

bool IsLoopback(const std::string& address);

}  // namespace muster::rendezvous
