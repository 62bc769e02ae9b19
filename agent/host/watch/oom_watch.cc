#include "agent/host/watch/oom_watch.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster::host {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The mount point of a cgroup hierarchy: v2, or that of v1 with the memory controller. Empty: not mounted.
std::string MountPoint(bool v2) {
  std::istringstream lines(ReadAll("/proc/self/mountinfo"));
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
  std::istringstream lines(ReadAll("/proc/self/cgroup"));
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

OomWatch::OomWatch() {
  for (const bool v2 : {true, false}) {
    const std::string mount = MountPoint(v2);
    const std::string file = v2 ? "/memory.events" : "/memory.oom_control";
    if (mount.empty()) continue;
    // In a container the path may be that of the outer namespace, and the container's cgroup the mount's root.
    for (const std::string& own : {OwnPath(v2), std::string()}) {
      path_ = mount + (own == "/" ? "" : own) + file;
      if (const auto count = Read()) {
        last_ = *count;
        return;
      }
    }
  }
  path_.clear();
}

OomWatch::OomWatch(std::string counter_file) : path_(std::move(counter_file)) { last_ = Read().value_or(0); }

void OomWatch::BeginRound() {
  last_ = Read().value_or(last_);
  killed_by_us_.clear();
  all_killed_by_us_ = false;
}

bool OomWatch::WasOomKilled(int local_rank) {
  if (all_killed_by_us_ || killed_by_us_.count(local_rank) > 0) return false;
  const auto count = Read();
  if (!count || *count <= last_) return false;
  last_ = *count;
  return true;
}

std::optional<uint64_t> OomWatch::ParseCount(const std::string& content) {
  std::istringstream lines(content);
  std::string name;
  uint64_t value = 0;
  while (lines >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> OomWatch::Read() const {
  if (path_.empty()) return std::nullopt;
  return ParseCount(ReadAll(path_));
}

}  // namespace muster::host
