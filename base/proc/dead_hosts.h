// Finds and kills the processes that a dead host has left: by the marker in the environment of every worker
// (marker.h), which descendants inherit, by the workers' sessions, and by the evidence that they belong to the
// dead host (orphans.h).
//
// Used by an agent whose host is dead, and by a host that starts where another host of its run has died. Any
// thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "base/proc/environ_reader.h"
#include "base/proc/marker.h"
#include "base/proc/orphans.h"
#include "base/proc/proc_scan.h"

namespace muster {

inline constexpr absl::Duration kOrphanLimit = absl::Seconds(5);          // from SIGKILL to the end of all
inline constexpr absl::Duration kUnclearLimit = absl::Milliseconds(100);  // for an exec to complete
inline constexpr absl::Duration kOrphanRetry = absl::Milliseconds(5);

struct MarkedReport {
  std::vector<ProcessInfo> found;  // alive, and sent SIGKILL: pass them to the next call until there are none
  std::string stuck;               // processes with a pending SIGKILL that the kernel holds; they count as ended
  // Not empty: why not all processes could be checked (no descriptor, an exec, a process that has just ended).
  // Then an empty `found` proves nothing.
  std::string unknown;

  bool AllGone() const { return found.empty() && unknown.empty(); }
};

// What the caller knows about dead hosts; see OrphanEvidence.
struct DeadHosts {
  std::set<std::string> ids;
  std::vector<ProcessId> sessions = {};  // of the hosts' workers
  pid_t adopter = 0;
  std::set<int64_t> never_adopt = {};
  std::set<int64_t> may_adopt = {};
  uint64_t start = 0;
};

// One pass: sends SIGKILL to all processes that these hosts left, but never to the caller, the caller's session or
// process 1. `earlier`: what the previous call found. A process that is ending has no environment any more while
// it still holds its files, so only `earlier` can name it. Processes known by the workers' sessions or by earlier
// passes are killed before any environment is read. Blocks while reading /proc, and as `reader` does for processes
// that cannot be read (environ_reader.h).
MarkedReport EndMarked(const DeadHosts& hosts, const std::vector<ProcessInfo>& earlier = {},
                       EnvironReader* reader = &MarkerReader());

// Whether a process carries the marker of a host. nullopt: not known now; it may just have ended and left
// descendants. Blocks as `reader` does.
std::optional<bool> BearsMarkerOf(std::string_view host_id, const ProcessInfo& process,
                                  EnvironReader* reader = &MarkerReader());

// Sends SIGKILL to all descendants of these processes, found by their parents alone.
void EndDescendants(const std::set<pid_t>& ancestors);

// The ancestors of this process, without process 1.
std::set<int64_t> Ancestors();

// The process that adopts orphans of our descendants while we are no subreaper, found by making such an orphan. 0:
// not known. No other thread of this process may fork meanwhile.
pid_t FindAdopter();

// The marker of this process as a host. Its place is empty if the machine provides too little information.
Marker OwnMarker(const std::string& host_id, const std::string& run_id, const std::string& boot_id,
                 const std::string& pid_namespace);

// The ids of dead hosts of our run, machine and user of which a process is alive that carries their marker. Leaves
// out hosts from which we descend ourselves. unknown: is set if there may be more, to why.
std::set<std::string> DeadHostsOfOurRun(const Marker& own, std::string* unknown);

struct OrphanReport {
  std::set<std::string> ended;  // "pid 71 (python)"
  std::string left;             // processes that did not end within kOrphanLimit
  std::string unseen;           // why there may be more processes that were not found
};

// Kills what is left of hosts of our run, place and user that died together with their agents: no other process
// would. Leaves alone the processes of living hosts and of hosts from which we descend ourselves. Call before any
// worker is started. One pass over /proc if nothing is found; else blocks until all processes are gone, at most
// for kUnclearLimit and kOrphanLimit, and for processes that cannot be read (environ_reader.h).
OrphanReport EndOrphans(const Marker& own);

}  // namespace muster
