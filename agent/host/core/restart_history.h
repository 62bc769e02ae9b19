// What ended this node's rounds so far, and what that cost, for the report of the job's end. Kept by each host, so
// that a coordinator that is replaced takes nothing of it along. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"

namespace muster::host {

inline constexpr size_t kMaxRestartsKept = 50;   // the newest; of earlier ones the number and the time
inline constexpr size_t kMaxRestartCause = 300;  // bytes

struct Restart {
  uint64_t round = 0;   // the one that ended
  std::string cause;    // a line
  absl::Duration ran;   // from its start to its end
  absl::Duration lost;  // from then to the start of the next one
};

struct Restarts {
  std::vector<Restart> newest;                 // in order
  int earlier = 0;                             // ones that are not among them
  absl::Duration lost = absl::ZeroDuration();  // by all of them
};

class RestartHistory {
 public:
  void OnStart(BootTime now, uint64_t round);
  // The round ends, for this node's own reason; only the first one counts.
  void OnOwnStop(BootTime now, const std::string& cause);
  // The coordinator ends it. Its reason replaces this node's own, which may be an echo.
  void OnOrderedStop(BootTime now, const std::string& cause);

  // The end of the newest round counts as one once another round has started.
  const Restarts& restarts() const { return restarts_; }

 private:
  struct Round {
    uint64_t number = 0;
    BootTime started;
    std::optional<BootTime> stopped = {};
    std::string cause = {};
    bool is_ordered = false;
  };
  std::optional<Round> round_;
  Restarts restarts_;
};

}  // namespace muster::host
