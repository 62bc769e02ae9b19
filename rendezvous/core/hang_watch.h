// The watch over a running round: whether it hangs, what is asked then, and that a rank is ended. Pure.
#pragma once

#include "base/core/time.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

struct Job;

// To be called on each tick while a round runs.
void WatchForHang(BootTime now, Job* job, Effects* out);

}  // namespace muster::rendezvous
