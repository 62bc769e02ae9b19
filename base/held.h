// What a receiver holds already need not be sent again: the texts of a failure and the details of a verdict are
// many KiB, and both are repeated with every beat. A digest stands for them.
#pragma once

#include <cstdint>

#include "muster/v1/rendezvous.pb.h"

namespace muster {

// Never 0. Computed by the agent that reports the failure; a coordinator only repeats it.
uint64_t DigestOfTexts(const v1::Failure& failure);
void LeaveOutTexts(v1::Failure* failure);
// Moves the texts of `from` to `to`, which then is complete.
void MoveTexts(v1::Failure* from, v1::Failure* to);

// Never 0. Computed once, by the coordinator that concludes the verdict.
uint64_t DigestOf(v1::Verdict verdict);
// What is enough for a receiver that holds it: exit code, origin, reason and digest.
v1::Verdict Brief(const v1::Verdict& verdict);

}  // namespace muster
