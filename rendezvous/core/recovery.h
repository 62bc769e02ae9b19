// Recovery: what a coordinator that has just started, or has met a greater epoch, makes of the round that it hears
// of.
//
// If all members of the greatest round are back and run it, the round goes on as if nothing had happened. If a
// member cannot go on, the round is drained. Members that are away get time to reconnect.
#pragma once

#include <string>

#include "base/core/time.h"

namespace muster::rendezvous {

struct Job;

// What the members of the greatest round report.
struct Members {
  bool all_run = false;  // each runs, or has succeeded
  bool some_came = false;
  bool all_who_came_succeeded = false;
  std::string broken;  // why the round cannot go on; empty: it can
};
Members LookAtMembers(const Job& job);

// For how long, since the last of them attached, the round waits for members that are away.
absl::Duration PatienceForAbsent(const Job& job, const Members& members);
BootTime AbsentAreAwaitedUntil(const Job& job, const Members& members);

// True if a round may still run that no attached node has reported, so that the attached nodes must not start
// another one yet: its members may be about to reconnect. False in a job without a lease.
bool SparesMayHideARound(BootTime now, const Job& job);

}  // namespace muster::rendezvous
