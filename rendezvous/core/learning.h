// What each status changes in the coordinator's Job.
#pragma once

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/host.h"
#include "rendezvous/core/node_lines.h"
#include "rendezvous/core/random.h"

namespace muster::rendezvous {

struct Job;

// An admitted status that is newer than the host's last one. Returns the host.
Host& Learn(BootTime now, StreamId stream, const v1::AgentStatus& status, Job* job, NodeLines* lines,
            Effects* out);

// A node follows another coordinator, whose epoch has this number: this one begins an epoch above it.
void BeginEpoch(BootTime now, uint64_t above, Random* random, Job* job, Effects* out);

}  // namespace muster::rendezvous
