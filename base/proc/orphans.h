// Which processes are what a dead host left: by evidence that an environment does not carry. The marker alone is
// none: `sbatch --export=ALL` gives a whole other job the environment of a worker. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster {

// A pid and a start time, in clock ticks since boot, name one process of this boot.
struct ProcessId {
  int64_t pid = 0;
  uint64_t start = 0;  // 0: not known
  auto operator<=>(const ProcessId&) const = default;
};

// A living process, as /proc shows it.
struct SeenProcess {
  enum class Mark {
    kNone,     // it bears no marker of the dead hosts, or could not be theirs
    kBears,    // it does
    kUnknown,  // its environment could not be read now
  };
  ProcessId id;
  int64_t parent = 0;
  int64_t group = 0;
  int64_t session = 0;
  bool exiting = false;  // its memory is gone, and its children are to be adopted in a moment
  Mark mark = Mark::kNone;
  uint64_t host_start = 0;  // of the host that its marker names; 0: not known
};

// What is known beside the processes themselves.
struct OrphanEvidence {
  std::vector<ProcessId> sessions;  // of the dead host's workers, as it last told them
  std::set<ProcessId> found;        // by an earlier pass
  // The process that gets the children of one that dies there: the next subreaper above the dead host, or
  // process 1. 0: not known; then any that is older than the dead host may be it, but for these:
  int64_t adopter = 0;
  std::set<int64_t> never_adopt;
  // Those that may be it, too, or not: a child of theirs that bears the marker is reported as unclear.
  std::set<int64_t> may_adopt;
  uint64_t host_start = 0;            // of the dead host, where there is one; 0: not known
  std::set<int64_t> spared_sessions;  // and groups: the caller's own
  std::set<int64_t> spared;           // processes: the caller, process 1
};

struct Orphans {
  std::set<int64_t> pids;
  std::set<int64_t> unclear;  // may be orphans, which cannot be known now
};

// Whether the environment of a process has to be read for FindOrphans: whether it may be the topmost of a tree
// that lost its host.
bool MayBeTopmost(const SeenProcess& process, const std::map<int64_t, SeenProcess>& all,
                  const OrphanEvidence& evidence);

// An orphan is
// - a process of a told session, which is as old as the worker was;
// - one that bears the marker, is younger than its host, was adopted, and is in no session that is older;
// - a member of an orphan's session or process group, if the leader of that is an orphan or is gone;
// - a child of an orphan.
Orphans FindOrphans(const std::map<int64_t, SeenProcess>& all, const OrphanEvidence& evidence);

}  // namespace muster
