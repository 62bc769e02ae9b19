// The status for the coordinator. What it reports of rounds, orders and the verdict is read from the memory that
// the host has stored, not from this agent's own copy, so the host has confirmed all of it. Pure.
#pragma once

#include <string>

#include "agent/process/core/host_watch.h"
#include "agent/process/core/node_record.h"
#include "base/core/time.h"

namespace muster::agent {

// What the host reports about this node's part of the newest round.
bool StartedLast(const v1::HostStatus& host);
v1::Phase PhaseOf(const v1::HostStatus& host, bool host_gone);

// Everything whose change is worth sending at once. local_address: by which other nodes reach this one; empty: not
// known. dead_predecessor: Holder.process; empty: none is known.
v1::AgentStatus MakeStatus(const NodeRecord& node, const HostWatch& watch, const std::string& local_address,
                           const std::string& dead_predecessor);

// A status with another digest has news. status: without the moments.
std::string DigestOf(const v1::AgentStatus& status, const v1::HostStatus& host);

// Adds what changes with time alone, and with each answer to a status.
void AddMoments(BootTime now, const NodeRecord& node, v1::AgentStatus* status);

}  // namespace muster::agent
