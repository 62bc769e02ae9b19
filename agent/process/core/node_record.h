// What an agent knows about its own node. AgentCore alone changes it; both sides of the core read it. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "base/core/time.h"
#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

inline constexpr size_t kMaxReasonShown = 4096;  // bytes; a coordinator's own are shorter
inline constexpr absl::Duration kDefaultBeat = absl::Milliseconds(500);

// The part that this agent plays at the coordinator's port.
enum class PortRole {
  kUndecided,  // the configuration has not arrived yet
  kMember,     // connects to a coordinator in another process
  kOwner,      // the same; as the newest attempt has shown, the primary's address is this machine's
  kCandidate,  // listens, and serves once the primary's address has led somebody here
  kPrimary,    // serves: the coordinator is in this process
};

struct NodeRecord {
  v1::NodeConfig config;
  v1::HostStatus host;  // the newest, without the configuration
  v1::Memory memory;    // stored by the host for the next agent
  PortRole role = PortRole::kUndecided;

  bool serves() const { return role == PortRole::kPrimary; }
  absl::Duration Lease() const;  // as the coordinator has set it, else as configured
  bool Leased() const;           // whether the lease bounds the time of the workers
  absl::Duration Beat() const;   // longest time between two statuses for the coordinator
};

// How this node ends on its own decision.
struct NodeEnd {
  int exit_code = 0;
  std::string reason;
};

// Whether a node finds out by itself that it is the primary.
bool MayServe(const v1::NodeConfig& config);

// kPrimary or kMember. An agent of a host whose agent has served before serves at once.
PortRole RoleAtStart(const v1::NodeConfig& config, const v1::Memory& memory);

// "the coordinator" where it stands alone, else "the primary" or, if the nodes were numbered before the start,
// "the primary (node rank 0)": what people call it in messages.
const char* TitleOfCoordinator(const v1::NodeConfig& config);

}  // namespace muster::agent
