// Nodes that are lost again and again, each time soon after they have joined, as when a container crashes and its
// platform starts it anew. In a job that can do without such a node, each of its returns would restart the others,
// and each loss would use up a part of --max-node-losses.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/core/time.h"
#include "rendezvous/core/host.h"

namespace muster::rendezvous {

// From the second loss in a row on, the node is held back, and each time for twice as long.
inline constexpr absl::Duration kFirstHoldBack = absl::Seconds(30);
inline constexpr absl::Duration kMaxHoldBack = absl::Hours(1);
inline constexpr size_t kMaxCrashLoops =
    4096;  // nodes that are remembered; then the one whose hold ends first is forgotten

inline constexpr size_t kIdShown = 8;  // characters of a host id

// A new process may be anybody's: where nodes have no places, those that have just joined are one.
inline constexpr char kNewNode[] = "a new node";

// Which node of the job this host is in the round that is being made, or would be in the next one.
std::string NodeFor(const Host& host, bool in_first_round);

class CrashLoops {
 public:
  // A round has ended. lasted: from its start to the first trouble. lost: the nodes that were lost in it, or left;
  // kept: its other members, which are held back no longer. A node that was in a round of at least kLongRound
  // begins anew.
  void OnRoundEnd(BootTime now, absl::Duration lasted, const std::set<std::string>& lost,
                  const std::set<std::string>& kept);

  // 1: the last loss followed no other one soon enough; 0: none is known.
  int LossesInARow(const std::string& node) const;
  BootTime HeldBackUntil(const std::string& node) const;  // infinite past: it is not held back

 private:
  struct Loop {
    int losses = 0;
    BootTime held_back_until = absl::InfinitePast();
  };
  void ForgetTheLeast();
  std::map<std::string, Loop> loops_;
};

}  // namespace muster::rendezvous
