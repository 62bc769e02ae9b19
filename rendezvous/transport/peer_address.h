// The local address from which a peer is reached.
#pragma once

#include <string>

namespace muster::rendezvous {

// The address that this machine uses to reach `peer`, an IP address: that of a connected UDP socket, which sends
// nothing. Empty if there is no route.
std::string LocalAddressTowards(const std::string& peer);

}  // namespace muster::rendezvous
