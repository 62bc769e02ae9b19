// How much memory the container uses, and how much it may: a sidecar quotes it if the container is killed. Lives
// on the loop thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/host/core/memory_use.h"
#include "agent/host/watch/cgroup.h"

namespace muster::host {

class MemoryWatch {
 public:
  explicit MemoryWatch(std::vector<MemoryCgroup> cgroups = MemoryCgroups());

  // nullopt: no limit is known.
  std::optional<MemoryUse> Read() const;

 private:
  std::optional<MemoryCgroup> cgroup_;  // the first one with a limit
};

}  // namespace muster::host
