#include "agent/host/watch/cgroup.h"

#include <fstream>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster::host {
namespace {

// The mount point of a cgroup hierarchy: v2, or that of v1 with the memory controller. Empty: not mounted.
std::string MountPoint(bool v2) {
  std::ifstream lines("/proc/self/mountinfo");
  std::string line;
  while (std::getline(lines, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    for (size_t dash = 6; dash + 3 < fields.size(); ++dash) {
      if (fields[dash] != "-") continue;
      const std::vector<std::string> options = absl::StrSplit(fields[dash + 3], ',');
      bool memory = false;
      for (const std::string& option : options) memory = memory || option == "memory";
      if (v2 ? fields[dash + 1] == "cgroup2" : fields[dash + 1] == "cgroup" && memory) return fields[4];
      break;
    }
  }
  return "";
}

// This process's path within a hierarchy, "/..." or empty.
std::string OwnPath(bool v2) {
  std::ifstream lines("/proc/self/cgroup");
  std::string line;
  while (std::getline(lines, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    bool memory = false;
    for (const std::string& controller : controllers) memory = memory || controller == "memory";
    if (v2 ? fields[0] == "0" && fields[1].empty() : memory) return fields[2];
  }
  return "";
}

}  // namespace

std::vector<MemoryCgroup> MemoryCgroups() {
  std::vector<MemoryCgroup> found;
  for (const bool v2 : {true, false}) {
    const std::string mount = MountPoint(v2);
    if (mount.empty()) continue;
    const std::string own = OwnPath(v2);
    if (own != "/" && !own.empty()) found.push_back({mount + own, v2});
    found.push_back({mount, v2});
  }
  return found;
}

}  // namespace muster::host
