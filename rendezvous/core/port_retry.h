// How long a coordinator retries to listen on a port that is in use, and the message that names the port's holder.
// Pure: the time, the error and the holder of the port in, a decision out.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/core/time.h"
#include "base/proc/port_holder.h"

namespace muster::rendezvous {

// Time limits of the retries:
inline constexpr absl::Duration kBindRetryLimit = absl::Seconds(10);  // while a predecessor may still use the port
inline constexpr absl::Duration kForeignPortLimit = absl::Seconds(3);   // while another program uses it
inline constexpr absl::Duration kReturnLimit = absl::Minutes(1);        // for a coordinator that has served on it
inline constexpr absl::Duration kHolderSearchPause = absl::Seconds(1);  // between two searches for the holder

// The coordinator that wants the port.
struct PortUser {
  bool has_served = false;  // a job runs, and its nodes come back to this port
  absl::Duration lease;     // of the job's nodes; 0: none
  int port = 0;             // for the message
  bool runs_alone = false;  // `muster coordinator`, whose port is set by other options
};

// "port 29500 is used by python3 (pid 71); stop it, or pass another --master-port on all nodes". nullopt: no
// visible process uses it.
std::string DescribeUsedPort(const std::optional<PortHolder>& holder, const PortUser& user);

class PortRetry {
 public:
  struct Next {
    std::string why;    // one line for people: the error, the holder of the port, and what to do
    int exit_code = 0;  // not 0: give up with this code
  };

  // Whether to search for the holder again before the next decision; pass the result to SetHolder.
  bool SearchIsDue(BootTime now) const { return now >= searched_at_ + kHolderSearchPause; }
  void SetHolder(BootTime now, std::optional<PortHolder> holder);

  // error: why listening failed. Unavailable means that the port is in use.
  Next OnFailure(BootTime now, const absl::Status& error, const PortUser& user);
  void OnListening() { failing_since_.reset(); }

  // The same for a node whose machine has the coordinator's address while another process uses the port: that
  // process may forward connections to the coordinator, so the node connects to it. why: how the connection
  // failed; no_coordinator: a program answered that is no coordinator.
  Next OnNoCoordinator(BootTime now, const std::string& why, bool no_coordinator);

 private:
  absl::Duration LimitFor(const PortUser& user) const;

  std::optional<BootTime> failing_since_;
  BootTime searched_at_ = absl::InfinitePast();
  std::optional<PortHolder> holder_;
};

}  // namespace muster::rendezvous
