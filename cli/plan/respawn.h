// Which nodes `muster local` starts again, as a platform would: those that were ended by a signal that it did not
// send. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/time.h"

namespace muster::cli {

// The delay before a node is started again. It doubles with each end that follows soon. The agents of nodes that
// were all ended together need most of the first one to end, too: what they know would cost the job a node loss.
inline constexpr absl::Duration kFirstRespawnDelay = absl::Seconds(2);
inline constexpr absl::Duration kMaxRespawnDelay = absl::Minutes(1);
inline constexpr absl::Duration kLongRun =
    absl::Minutes(1);                    // a node that ran this long has the first delay again
inline constexpr int kMaxRespawns = 10;  // of a node, in a row without a long run

class Respawns {
 public:
  Respawns(int nodes, bool enabled) : nodes_(static_cast<size_t>(nodes)), over_(!enabled) {}

  void OnStart(BootTime now, int node) { nodes_[static_cast<size_t>(node)].started = now; }
  // status: of waitpid(2). The delay after which the node is to be started again; nullopt: its end is final.
  std::optional<absl::Duration> OnEnd(BootTime now, int node, int status);
  // The job is asked to end, or cannot go on: no node is started again from now on.
  void End() { over_ = true; }
  // Nor after the job's result, which a node that exits by itself brings, unless it was only asked to leave.
  bool over() const { return over_; }

 private:
  struct Node {
    BootTime started = absl::InfinitePast();
    int in_a_row = 0;
  };
  std::vector<Node> nodes_;
  bool over_;
};

}  // namespace muster::cli
