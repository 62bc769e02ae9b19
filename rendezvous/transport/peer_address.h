// Addresses as gRPC writes them, and the local address by which a peer is reached.
#pragma once

#include <string>
#include <string_view>

namespace muster::rendezvous {

// "ipv4:10.0.0.1:4242" or "ipv6:%5B::1%5D:4242" -> the address alone, without a scope. Empty if it is neither.
std::string PeerAddress(std::string_view peer);

// The address this machine uses towards peer, an IP address: of a UDP socket connected to it, which sends nothing.
// Empty if there is no route.
std::string LocalAddressTowards(const std::string& peer);

bool IsLoopback(const std::string& address);

}  // namespace muster::rendezvous
