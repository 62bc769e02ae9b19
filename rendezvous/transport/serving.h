// What a coordinator on this node is made with, from what the node was started with.
#pragma once

#include <string>

#include "muster/v1/host.pb.h"
#include "rendezvous/transport/server.h"

namespace muster::rendezvous {

// instance: what names this coordinator among all of them.
ServerOptions ServerOptionsFrom(const v1::NodeConfig& config, const std::string& instance = "");

absl::Duration LeaseOf(const v1::NodeConfig& config);  // zero: none

// The primary's address as its own node offers it before any member has attached: a literal of the spec that is
// one of this machine's; behind a name there may be a forwarder of two ports. Empty: a member's connection will
// tell.
std::string FirstLocalAddress(const v1::NodeConfig& config);

}  // namespace muster::rendezvous
