// What people order of a running job (`muster stop`, `restart`, `drain`, `signal`). An order is obeyed once,
// however often it comes, and only by the coordinator for which it was meant: an old one changes nothing. Pure.
#pragma once

#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

struct Job;

// Notes in the job what is ordered, unless it has come before; what follows from it is decided as ever. Returns
// whether a node must hear of it now.
bool TakeOrder(BootTime now, const v1::Order& order, Job* job, Effects* out);

// What has become of it by now.
v1::Ordered AnswerTo(BootTime now, const v1::Order& order, const Job& job);

}  // namespace muster::rendezvous
