// Finds and ends what a host started when the host itself can no longer: by the marker in the environment of every
// worker (core/marker.h), which descendants inherit, by the sessions of the workers, and by evidence that these
// are the dead host's (core/orphans.h).
//
// Used by an agent whose host is dead, and by a host that starts where another of its run has died. Any thread.
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

inline constexpr absl::Duration kOrphanLimit = absl::Seconds(5);          // for what was sent SIGKILL to be gone
inline constexpr absl::Duration kUnclearLimit = absl::Milliseconds(100);  // for what is in an exec to be through
inline constexpr absl::Duration kOrphanRetry = absl::Milliseconds(5);

struct MarkedReport {
  std::vector<ProcessInfo> found;  // alive, and sent SIGKILL: call again, with them, until there are none
  std::string stuck;               // SIGKILL is pending but the kernel does not let them go; they count as ended
  // Not empty: why not all could be seen (no descriptor, an exec, one that just ended): then nothing is proved.
  std::string unknown;

  bool AllGone() const { return found.empty() && unknown.empty(); }
};

// What the caller knows of dead hosts beside their ids; see OrphanEvidence.
struct DeadHosts {
  std::set<std::string> ids;
  std::vector<ProcessId> sessions = {};  // of their workers
  pid_t adopter = 0;
  std::set<int64_t> never_adopt = {};
  std::set<int64_t> may_adopt = {};
  uint64_t start = 0;
};

// One pass: SIGKILL to all that these hosts left. Never to the caller, to the caller's session or to process 1.
// `earlier`: what the last call found. A process that ends has no environment any more while it still holds its
// files: only what was found before is waited for then. What the workers' sessions and earlier passes name is sent
// SIGKILL before any environment is read. Blocks for as long as reading /proc takes, and `reader` for processes
// that do not answer (environ_reader.h).
MarkedReport EndMarked(const DeadHosts& hosts, const std::vector<ProcessInfo>& earlier = {},
                       EnvironReader* reader = &MarkerReader());

// Whether a process bears the marker of a host. nullopt: that cannot be known now; it may have just ended and left
// something. Blocks as `reader` does.
std::optional<bool> BearsMarkerOf(std::string_view host_id, const ProcessInfo& process,
                                  EnvironReader* reader = &MarkerReader());

// SIGKILL to all descendants of these processes, by their parents alone.
void EndDescendants(const std::set<pid_t>& ancestors);

// The ancestors of this process, process 1 left out.
std::set<int64_t> Ancestors();

// The process that gets the orphans of our descendants while we are no subreaper: finds out by making one. 0: not
// known. Only while this process has one thread that forks.
pid_t FindAdopter();

// The marker of this process as a host. Its place is empty where the machine does not tell enough.
Marker OwnMarker(const std::string& host_id, const std::string& run_id, const std::string& boot_id,
                 const std::string& pid_namespace);

struct OrphanReport {
  std::set<std::string> ended;  // as Describe() says it
  std::string left;             // what could not be ended within kOrphanLimit
  std::string unseen;           // why there may be more that was not found
};

// Ends what hosts of our run, place and user left here that died together with their agents: nobody else would.
// What is marked by a host that lives is not touched, nor that of which we ourselves are a descendant. One pass
// over /proc if there is nothing; else blocks until all is gone, for kUnclearLimit and kOrphanLimit at most, and
// for processes that do not answer (environ_reader.h): for before anything is started.
OrphanReport EndOrphans(const Marker& own);

}  // namespace muster
