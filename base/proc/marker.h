// The marker: what every worker carries in its environment, and its descendants inherit, so that whatever a host
// started is found again, whoever its parent is by then; and which says enough of that host to judge whether it is
// dead. Pure.
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
  uint64_t start = 0;   // when the host started, in clock ticks since boot, as /proc/PID/stat says it
  std::string place;    // where `pid` and `start` mean something; see MakePlace
  std::string run_id;
};

// The same for two processes only if a pid and a start time are the same thing to both: one boot of one machine,
// one PID namespace, one time namespace. Environments travel (srun, ssh, docker run -e), and the PID namespace of
// every machine's first processes has the same number. Empty if it cannot be known: such a place is like no other.
std::string MakePlace(std::string_view boot_id, std::string_view pid_namespace, std::string_view time_namespace);

std::string FormatMarker(const Marker& marker);

// nullopt: not one of ours. The host id of one that FormatMarker made holds no comma.
std::optional<Marker> ParseMarker(std::string_view text);

// The host id of a marker's text: all of it up to the first comma.
std::string_view HostIdOf(std::string_view text);

// Whether what bears `found` may be ended by a host that is `own`, if the host that `found` names is dead.
bool MayInherit(const Marker& own, const Marker& found);

}  // namespace muster
