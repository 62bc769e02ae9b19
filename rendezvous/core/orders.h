// What people order of a running job (`muster stop`, `restart`, `drain`, `signal`). An order is obeyed once,
// however often it comes, and only by the coordinator for which it was meant: an old one changes nothing. Pure.
#pragma once

#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

struct Job;

// Notes in the job what is ordered, unless it has come before; what follows from it is decided as ever. Returns
// whether something must be decided, or told, now.
bool TakeOrder(BootTime now, const v1::Order& order, Job* job, Effects* out);
// Notes what has become of orders that nodes are to answer. To be called at each tick.
void FollowOrders(BootTime now, Job* job);

// What has become of it so far.
v1::Ordered AnswerTo(const v1::Order& order, const Job& job);

}  // namespace muster::rendezvous
