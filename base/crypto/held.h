// Digests that replace texts which the receiver already holds. The texts of a failure and the details of a verdict
// are many KiB, and every heartbeat would repeat them.
#pragma once

#include <cstdint>

#include "muster/v1/rendezvous.pb.h"

namespace muster {

// Never 0. The agent that reports the failure computes it; a coordinator only copies it.
uint64_t DigestOfTexts(const v1::Failure& failure);
void LeaveOutTexts(v1::Failure* failure);
// Moves the texts of `from` to `to`, which is complete afterwards.
void MoveTexts(v1::Failure* from, v1::Failure* to);

// Never 0. The coordinator that reaches the verdict computes it, and one that is later told the details checks it.
uint64_t DigestOf(v1::Verdict verdict);
// The short form for a receiver that holds the verdict: exit code, origin, reason and digest.
v1::Verdict Brief(const v1::Verdict& verdict);

}  // namespace muster
