#include "agent/host/watch/memory_watch.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"

namespace muster::host {
namespace {

// v1 writes a number like 2^63 if there is no limit; v2 the word "max", which is no number.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  if (!(file >> word) || !absl::SimpleAtoi(word, &number)) return std::nullopt;
  return number;
}

// Pages of files in memory, by a memory.stat file; 0: it does not say.
uint64_t FilePages(const std::string& path, const std::string& prefix) {
  std::ifstream file(path);
  std::string name;
  uint64_t value = 0, sum = 0;
  while (file >> name >> value) {
    if (name == prefix + "inactive_file" || name == prefix + "active_file") sum += value;
  }
  return sum;
}

std::optional<uint64_t> LimitOf(const MemoryCgroup& cgroup) {
  const auto limit = ReadNumber(cgroup.folder + (cgroup.v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

}  // namespace

MemoryWatch::MemoryWatch(std::vector<MemoryCgroup> cgroups) {
  const auto limited = std::find_if(cgroups.begin(), cgroups.end(),
                                    [](const MemoryCgroup& each) { return LimitOf(each).has_value(); });
  if (limited != cgroups.end()) cgroup_ = *limited;
}

std::optional<MemoryUse> MemoryWatch::Read() const {
  if (!cgroup_) return std::nullopt;
  const std::string& folder = cgroup_->folder;
  const auto limit = LimitOf(*cgroup_);
  const auto used = ReadNumber(folder + (cgroup_->v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  const uint64_t spare = FilePages(folder + "/memory.stat", cgroup_->v2 ? "" : "total_");
  return MemoryUse{.used = *used - std::min(*used, spare), .limit = *limit};
}

}  // namespace muster::host
