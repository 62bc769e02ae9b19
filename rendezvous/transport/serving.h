// The options of a coordinator on this node, from the node's configuration.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/note.h"
#include "base/crypto/identity.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/transport/dialing.h"
#include "rendezvous/transport/server.h"

namespace muster::rendezvous {

// instance: a name that no other coordinator has.
ServerOptions ServerOptionsFrom(const v1::NodeConfig& config, std::shared_ptr<const LiveCredentials> credentials,
                                const std::string& instance = "");

// Empty if the configuration has no such key; then a coordinator in another process refuses the node.
Identity IdentityOf(const v1::NodeConfig& config);

// The way to the coordinator of this job.
DialPlan DialPlanFrom(const v1::NodeConfig& config, std::shared_ptr<const LiveCredentials> credentials);

// What decides who may join the job of this node.
enum class Protection {
  kCertificates,
  kToken,
  kNoPort,       // there is nothing to join: a single-node job
  kThisMachine,  // neither, and only users of this machine can connect
  kNone,         // whoever reaches the coordinator's port can join
};
Protection ProtectionOf(const v1::NodeConfig& config);

// What a coordinator says to people once it listens: how the job is protected, or that it is not though other
// machines reach it; that it may open too few descriptors.
std::vector<Note> ServingNotes(const v1::NodeConfig& config);

// The same without the second; nullopt: no other machine reaches it.
std::optional<Note> NoteOfProtection(const v1::NodeConfig& config);

// limit: how many descriptors the process may open. Empty: enough for all nodes of the job.
std::string WarningOfFewDescriptors(const v1::NodeConfig& config, size_t limit);

absl::Duration LeaseOf(const v1::NodeConfig& config);  // zero: no lease

// The address that the primary's node offers as master endpoint before any member has attached: the spec's IP
// address if this machine has it, but never a name, which may lead to a forwarder of two ports only. Empty: the
// first connection of a member will show the address.
std::string FirstLocalAddress(const v1::NodeConfig& config);

}  // namespace muster::rendezvous
