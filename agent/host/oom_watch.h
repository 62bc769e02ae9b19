// Whether the kernel's out-of-memory killer has struck our cgroup: its counter now against its counter before.
// Loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::host {

class OomWatch {
 public:
  OomWatch();  // finds the counter of this process's cgroup, v2 or v1; none is no error: nothing is ever said then

  // True if the counter has grown since it was last asked (or since the start).
  bool Struck();

  // The number behind "oom_kill " in a memory.events or memory.oom_control file. Pure.
  static std::optional<uint64_t> ParseCount(const std::string& content);

 private:
  std::optional<uint64_t> Read() const;

  std::string path_;  // empty: none
  uint64_t last_ = 0;
};

}  // namespace muster::host
