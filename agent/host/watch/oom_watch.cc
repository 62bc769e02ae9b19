#include "agent/host/watch/oom_watch.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "agent/host/watch/cgroup.h"

namespace muster::host {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

OomWatch::OomWatch() {
  for (const MemoryCgroup& cgroup : MemoryCgroups()) {
    path_ = cgroup.folder + (cgroup.v2 ? "/memory.events" : "/memory.oom_control");
    if (const auto count = Read()) {
      last_ = *count;
      return;
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
