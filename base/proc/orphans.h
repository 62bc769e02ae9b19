// Decides which processes a dead host has left. The marker alone is no proof, since `sbatch --export=ALL` gives a
// worker's environment to a whole other job; parents, sessions and start times must fit as well. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster {

// A pid and a start time, in clock ticks since boot, identify one process of this boot.
struct ProcessId {
  int64_t pid = 0;
  uint64_t start = 0;  // 0: not known
  auto operator<=>(const ProcessId&) const = default;
};

// A living process, as /proc shows it.
struct SeenProcess {
  enum class Mark {
    kNone,     // it carries no marker of the dead hosts, or cannot be theirs
    kBears,    // it carries a marker of a dead host
    kUnknown,  // its environment could not be read now
  };
  ProcessId id;
  int64_t parent = 0;
  int64_t group = 0;
  int64_t session = 0;
  bool exiting = false;  // its memory is gone, and its children will be adopted in a moment
  Mark mark = Mark::kNone;
  uint64_t host_start = 0;  // start time of the host that its marker names; 0: not known
};

// What is known besides the processes themselves.
struct OrphanEvidence {
  std::vector<ProcessId> sessions;  // of the dead host's workers, as it last reported them
  std::set<ProcessId> found;        // orphans found by an earlier pass
  // The process that adopts orphans of the dead host: the next subreaper above it, or process 1. 0: not known;
  // then any process older than the dead host may be the adopter, except those in never_adopt.
  int64_t adopter = 0;
  std::set<int64_t> never_adopt;
  // Processes that may or may not be the adopter: a child of theirs that carries the marker is reported as
  // unclear.
  std::set<int64_t> may_adopt;
  uint64_t host_start = 0;            // start time of the dead host, if there is exactly one; 0: not known
  std::set<int64_t> spared_sessions;  // sessions and process groups to spare: the caller's own
  std::set<int64_t> spared;           // processes to spare: the caller and process 1
};

struct Orphans {
  std::set<int64_t> pids;
  std::set<int64_t> unclear;  // may be orphans; not known now
};

// Whether FindOrphans() needs the environment of a process: whether it may be the topmost process of a tree that
// has lost its host.
bool MayBeTopmost(const SeenProcess& process, const std::map<int64_t, SeenProcess>& all,
                  const OrphanEvidence& evidence);

// An orphan is
// - a process in the session of a worker, not older than that worker;
// - a process that carries the marker, is younger than its host, was adopted, and is in no session older than it;
// - a member of an orphan's session or process group whose leader is an orphan or is gone;
// - a child of an orphan.
Orphans FindOrphans(const std::map<int64_t, SeenProcess>& all, const OrphanEvidence& evidence);

}  // namespace muster
