// How long a coordinator tries to listen on a port that it cannot have, and what it says of whoever has it.
// Pure: the time, the error and the holder of the port in, a decision out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/time.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kBindRetryLimit = absl::Seconds(10);   // for a port that a predecessor may have
inline constexpr absl::Duration kForeignPortLimit = absl::Seconds(3);  // for one that another program has
inline constexpr absl::Duration kReturnLimit = absl::Minutes(1);       // for one where nodes know this coordinator
inline constexpr absl::Duration kHolderSearchPause = absl::Seconds(1);  // between two searches for the holder

// The process that has a port.
struct PortHolder {
  int64_t pid = 0;
  std::string name;        // as the kernel has it: 15 characters of the program's
  bool is_muster = false;  // a muster: of this run, perhaps, and about to end
  bool listens = true;     // false: it has the port for a connection of its own
};

// "process 71 (python3) has it: end it, or give all nodes another port"; nullopt: nobody can be seen who has it.
std::string DescribePortHolder(const std::optional<PortHolder>& holder);

// The coordinator that wants the port.
struct PortUser {
  bool has_served = false;  // a job runs, and its nodes come back to this port
  absl::Duration lease;     // of their workers; 0: none
};

class PortRetry {
 public:
  struct Next {
    std::string why;    // for people: the error, who has the port, and what to do
    int exit_code = 0;  // not 0: give up, with this code
  };

  // Whether the holder is to be searched for again before the next decision; its answer goes to SetHolder.
  bool SearchIsDue(BootTime now) const { return now >= searched_at_ + kHolderSearchPause; }
  void SetHolder(BootTime now, std::optional<PortHolder> holder);

  // error: why listening failed.
  Next OnFailure(BootTime now, const absl::Status& error, const PortUser& user);
  void OnListening() { failing_since_.reset(); }

  // The same where another process has the port of the coordinator that would be here, and this node looks for the
  // coordinator behind it: what has the port may forward. why: how that failed; no_coordinator: something answered
  // that is none.
  Next OnNoCoordinator(BootTime now, const std::string& why, bool no_coordinator);

 private:
  absl::Duration LimitFor(const PortUser& user) const;

  std::optional<BootTime> failing_since_;
  BootTime searched_at_ = absl::InfinitePast();
  std::optional<PortHolder> holder_;
};

}  // namespace muster::rendezvous
