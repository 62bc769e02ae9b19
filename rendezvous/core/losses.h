// Lost hosts: what the loss of a host costs, and what stays known of it.
#pragma once

#include <string>

#include "base/core/time.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/host.h"
#include "rendezvous/core/hosts.h"
#include "rendezvous/core/outbox.h"

namespace muster::rendezvous {

struct Job;

// All hosts that count as lost by now (CountsAsLost in lease.h).
void LoseSilentHosts(BootTime now, Job* job, Outbox* outbox, Effects* out);

// Removes a host that has reported its end.
void LoseEnded(BootTime now, const std::string& id, Job* job, Outbox* outbox, Effects* out);

// The loss of a member, which ends the round.
void NoteNodeLost(BootTime at, const Host& host, const std::string& text, bool in_the_log, Job* job, Effects* out);

// Removes a host of which all processes are known to have ended.
void ForgetEnded(const std::string& host_id, Job* job, Effects* out);

}  // namespace muster::rendezvous
