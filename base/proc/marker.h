// The marker is a variable in every worker's environment that its descendants inherit. It identifies the processes
// that a host started, whatever their parent is later, and contains enough about the host to find out whether it
// is dead. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

inline constexpr char kMarkerVariable[] = "MUSTER_HOST_ID";

struct Marker {
  std::string host_id;  // random, one for each host process
  int64_t pid = 0;      // of the host
  uint64_t start = 0;   // the host's start time in clock ticks since boot, as in /proc/PID/stat
  std::string place;    // where `pid` and `start` are valid; see MakePlace
  std::string run_id;
};

// Equal for two processes only if pids and start times mean the same to both: one boot of one machine, one PID
// namespace, one time namespace. Environments travel to other machines (srun, ssh, docker run -e), where the
// initial PID namespace has the same number. Empty if the place is not known; an empty place matches no other.
std::string MakePlace(std::string_view boot_id, std::string_view pid_namespace, std::string_view time_namespace);

std::string FormatMarker(const Marker& marker);

// nullopt: not a marker of muster.
std::optional<Marker> ParseMarker(std::string_view text);

// The host id in a marker's text: everything before the first comma, which host ids do not contain.
std::string_view HostIdOf(std::string_view text);

// Whether the host with marker `own` may kill processes that carry `found`, if the host named by `found` is dead.
bool MayInherit(const Marker& own, const Marker& found);

}  // namespace muster
