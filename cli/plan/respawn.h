// Which nodes `muster local` starts again, as a platform would: those that were ended by a signal that it did not
// send. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/core/time.h"

namespace muster::cli {

// The delay before a node is started again. It doubles with each end that follows soon. The agents of nodes that
// were all ended together need most of the first one to end, too: what they know would cost the job a node loss.
inline constexpr absl::Duration kFirstRespawnDelay = absl::Seconds(2);
inline constexpr absl::Duration kMaxRespawnDelay = absl::Minutes(1);
// A node that ran this long has the first delay again, or all of its restarts.
inline constexpr absl::Duration kLongRun = absl::Minutes(1), kVeryLongRun = absl::Hours(1);
inline constexpr int kMaxRespawns = 10;  // of a node, without a very long run between them
// A node that was started again just before the job's end finds no coordinator: it is ended so long after the
// others.
inline constexpr absl::Duration kLateAfter = absl::Seconds(10);

class Respawns {
 public:
  Respawns(int nodes, bool enabled) : nodes_(static_cast<size_t>(nodes)), over_(!enabled) {}

  void OnStart(BootTime now, int node);
  // status: of waitpid(2). The delay after which the node is to be started again; nullopt: its end is final.
  std::optional<absl::Duration> OnEnd(BootTime now, int node, int status);
  // The job is asked to end, or cannot go on: no node is started again from now on.
  void End() { over_ = true; }
  // Nor after the job's result, which a node that exits by itself brings, unless it was only asked to leave.
  bool over() const { return over_; }
  int result() const { return result_; }  // of the job, once a node has brought it; else 0
  // When the nodes that were started again, and still run, have come too late; infinite future: they have not.
  BootTime LateFrom() const;
  bool IsLate(int node) const;  // if it runs then

 private:
  struct Node {
    BootTime started = absl::InfinitePast();
    int starts = 0;
    int delays = 0;    // since it ran for long
    int respawns = 0;  // since it ran for very long
    bool ended = false;
  };
  std::vector<Node> nodes_;
  bool over_;
  int result_ = 0;
  BootTime last_end_ = absl::InfinitePast();
};

}  // namespace muster::cli
