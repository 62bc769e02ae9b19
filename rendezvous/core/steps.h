// Decisions: after each event steps are taken until nothing changes.
#pragma once

#include "base/core/time.h"
#include "rendezvous/core/actions.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/outbox.h"

namespace muster::rendezvous {

void Decide(BootTime now, const Acting& acting, Outbox* outbox, Effects* out);

}  // namespace muster::rendezvous
