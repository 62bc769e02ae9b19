// The farewell: what a coordinator that ends with its node hands to the next one.
//
// A successor knows nothing. It assumes that every member of the round that has not reconnected holds a lease, the
// former primary first of all, and waits for that lease. But if only the main process of the primary's node died,
// its agent has ended everything that it had started, and the coordinator in that agent lives for a moment longer.
// It tells all nodes that the primary has ended (PrimaryEnded), they keep this, and the successor hears it from
// them.
//
// Why this is safe: a round that the successor cannot see was made by a coordinator that lived in between, and
// there are three cases.
// - That coordinator used the farewell itself. Then all nodes that received the farewell follow its epoch and
//   report it.
// - It waited for lease and margin, as every coordinator does that hears of any round or epoch. Then the farewell,
//   which was given before that wait began, is too old.
// - It met only nodes that had never heard of this job. If one of those reached the successor, it would report
//   that epoch. If none does, all nodes but the attached ones were replaced at once, which no coordinator could
//   detect.
#pragma once

#include <cstdint>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

// This coordinator's own.
struct Farewell {
  v1::PrimaryEnded word;
  // Stream of the agent in this process, which is released when all recipients have applied the farewell; then 0.
  StreamId stream = 0;
  v1::StatusId echo;    // newest status of that agent
  uint64_t before = 0;  // every directive with a greater seq carries the word
  BootTime since;
  BootTime ended_at;  // earliest time at which the primary's node may have ended

  // The word, with its age at present.
  v1::PrimaryEnded WordAt(BootTime now) const;
};

}  // namespace muster::rendezvous
