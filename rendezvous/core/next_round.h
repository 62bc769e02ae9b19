// The next round: how long the coordinator waits for nodes, and how many of them, and which, make the next round.
//
// A job of a fixed size waits for all its nodes. A job of MIN:MAX nodes starts with all of them, or with enough of
// them after the last call, which runs from the moment when MIN nodes were ready. Nodes that were ready before are
// waited for, because they will most likely be ready again. --join-timeout and --rejoin-timeout bound it all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/roster.h"

namespace muster::rendezvous {

struct Job;

// The ready nodes that hold their places.
std::vector<Candidate> ReadyCandidates(const Job& job);
// Without the excluded nodes and those that are held back, if the others suffice; else without the excluded ones.
std::vector<Candidate> WithoutSetAside(BootTime now, const Job& job, std::vector<Candidate> ready);
// Size of the next round given the ready nodes; below MIN no round can start.
int RoundSize(const Job& job, int ready);

// Known nodes that are not ready.
struct Arriving {
  int known = 0;                // have been ready before
  int newcomers = 0;            // have never been ready
  bool owner = false;           // one of them holds a seat
  int preparing = 0;            // check whether they are fit (setup, preflight, GPUs), within limits of their own
  bool owner_prepares = false;  // one of them is a member of the last round
  bool something_runs = false;  // workers of any round still run: they must end before the next one starts
};
Arriving WhoArrives(BootTime now, const Job& job);

// Whether a round of `ready` nodes starts now rather than waiting for more.
bool StartsNow(BootTime now, const Job& job, int ready, const Arriving& arriving);
bool GatheringIsOverdue(BootTime now, const Job& job);
// Whether nodes that still prepare could make the round: an overdue gathering waits for them.
bool PreparingMaySuffice(const Job& job, int ready, const Arriving& arriving);
// How it ends at the latest if no more nodes become ready: "gives up after 10m (--join-timeout)".
std::string HowGatheringEnds(const Job& job, int ready, const Arriving& arriving,
                             absl::Duration least = absl::ZeroDuration());

// While a round runs: notes since when enough new nodes to grow it are ready (newcomers_since).
void NoteNewcomers(BootTime now, Job* job);
// While a round runs: why it is restarted with more nodes, by what NoteNewcomers has noted; nullopt: it is not.
std::optional<std::string> WhyGrow(BootTime now, const Job& job);

}  // namespace muster::rendezvous
