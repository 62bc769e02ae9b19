// Whether this coordinator's farewell is due, and who has received it. What it is, and why it is safe: farewell.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/core/time.h"
#include "rendezvous/core/farewell.h"
#include "rendezvous/core/host.h"

namespace muster::rendezvous {

struct Job;

// The farewell that is due because `own` reports that its main process has died; nullopt: it is not the primary's
// host, or nobody could use it. last_seq: seq of the newest directive to anybody.
std::optional<Farewell> FarewellFor(BootTime now, const Job& job, const Host& own, uint64_t last_seq);

// Whether each host of its audience has applied a directive that carries it.
bool AudienceHasFarewell(const Job& job);

}  // namespace muster::rendezvous
