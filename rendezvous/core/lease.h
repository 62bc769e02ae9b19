// The lease: until when a node's workers may run without hearing from the coordinator.
//
// A node that hears nothing for a lease stops its workers by itself, so that a group which goes on without it
// never runs beside it. Each directive with a lease renews it, measured from the status that it answers; the
// coordinator lets it run a margin longer than the node does, for clocks that differ and processes that are
// scheduled late. A new round begins only when, for each member of the round before, the lease has ended or
// the workers are known to have ended.
//
// The primary's own node always reaches the coordinator, which lives in it. If it alone were cut off from all the
// others, it would renew its own lease for ever, while they make a new round elsewhere. So its lease ends one
// lease after the newest directive that another member is known to have applied. Once all others are known to have
// ended, no such limit is needed if no other node knows of the job, or if all have succeeded.
#pragma once

#include <optional>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/host.h"

namespace muster::rendezvous {

struct Job;

// The lease that this directive brings to the host; nullopt: it brings none. A lease is granted with RUN; while
// recovering, with WAIT to hosts that report the greatest round; and with STOP while workers use their grace
// period, which may be longer than the lease.
std::optional<v1::Lease> LeaseFor(const Job& job, const Host& host, const v1::Directive& directive);
// The end, by the coordinator's clock, of a lease that is granted now: the arrival of the host's last status, plus
// lease and margin. Never before the end of a lease that it was granted earlier.
BootTime LeaseEnd(const Job& job, const Host& host);

// A host counts as lost if its agent has reported its end (HOST_GONE). It also does if two things hold: its stream
// has been closed for the reconnect grace, or is open and silent for lease and margin; and no lease that this
// coordinator granted to it can still run (which does not matter once all are being released).
bool CountsAsLost(BootTime now, const Job& job, const Host& host);

}  // namespace muster::rendezvous
