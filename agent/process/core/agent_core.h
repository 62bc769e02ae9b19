// The agent core: turns the coordinator's directive and the host's status into the host's directive and the
// agent's status. It decides one node's part in the job and nothing else.
//
// It has a side towards the host (HostSide) and a side towards the coordinator (CoordinatorSide), keeps what both
// read (NodeRecord), and puts their decisions into one order. It decides itself whether this process serves, and
// when the agent ends.
//
// Pure: an event and the time go in, effects come out, and the caller carries them out in the given order. Not
// thread-safe: it lives on the agent's loop thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/process/core/coordinator_side.h"
#include "agent/process/core/effects.h"
#include "agent/process/core/host_side.h"
#include "agent/process/core/node_record.h"
#include "base/core/driver.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

class AgentCore {
 public:
  // entropy: for the jitter of reconnects.
  explicit AgentCore(uint64_t entropy) : coordinator_(entropy, &node_, &host_) {}

  // The first status brings the configuration and the memory of the previous agent, and with them the role.
  void OnHostStatus(BootTime now, const v1::HostStatus& status, Effects* out);
  // After an OnDisconnected of an attempt that has reached no coordinator. is_here: it has led to an address of
  // this machine; port_is_free: and nobody listens there.
  void OnUnanswered(BootTime now, bool is_here, bool port_is_free, Effects* out);
  void OnPortClaimed(BootTime now, bool used_by_other, Effects* out);
  // The coordinator in this process, which listens, has let a node in.
  void OnReached(BootTime now, Effects* out);
  // The link to the host closed. Before this agent has a role, it exits: it has started nothing. If the host died,
  // its pidfd fires within moments, before or after. If the host lives, a newer agent has taken over.
  void OnHostLinkClosed(BootTime now, Effects* out);
  // The host's pidfd fired: the host has ended.
  void OnHostClosed(BootTime now, Effects* out);
  void OnHostSwept(BootTime now, Effects* out);
  // The host closed the link and goes on: it has replaced this agent.
  void OnHostLives(BootTime now, Effects* out);
  // The host has ended, but some of its processes could not be ended in time, or could not be examined. `left`
  // names them.
  void OnHostNotSwept(BootTime now, const std::string& left, Effects* out);

  void OnConnected(BootTime now, const std::string& local_address, Effects* out);
  void OnDirective(BootTime now, const v1::Directive& directive, Effects* out);
  // why: human-readable. refused_code: the exit code (77) if whoever answers at the coordinator's address has
  // rejected the session, else 0. A new node ends with it if that goes on: see kRefusalPatience.
  void OnDisconnected(BootTime now, const std::string& why, int refused_code, Effects* out);
  // The address by which other nodes reach this one, when it is learned after the connection: the primary's own
  // session crosses no network, so the primary learns its address from a member's session.
  void OnLocalAddress(BootTime now, const std::string& address, Effects* out);
  void OnProbed(BootTime now, const std::string& process, bool dead, Effects* out);
  // The files of credentials have changed: what they hold now, for the agents after this one.
  void OnCredentials(BootTime now, const std::vector<std::string>& texts, Effects* out);

  // The end of this machine was announced; `why` is the reason as a sentence. The node leaves as after a SIGTERM.
  void OnNotice(BootTime now, const std::string& why, Effects* out);
  // Whether agents of other nodes are connected to the coordinator in this process.
  void OnServesOthers(BootTime now, bool others, Effects* out);

  void OnTick(BootTime now, Effects* out);

  bool configured() const { return node_.role != PortRole::kUndecided; }
  const v1::NodeConfig& config() const { return node_.config; }
  const v1::Memory& memory() const { return node_.memory; }
  bool finished() const { return finished_; }
  const HeldEvents& events() const { return coordinator_.events(); }

 private:
  void Begin(BootTime now, PortRole role, Effects* out);
  void Leave(const std::string& reason, Effects* out);  // ends this agent, not the host

  NodeRecord node_;
  HostSide host_{&node_};
  CoordinatorSide coordinator_;
  BootTime last_tick_ = absl::InfinitePast();
  bool finished_ = false;
};

using AgentDriver = CoreDriver<AgentCore, Effect>;

}  // namespace muster::agent
