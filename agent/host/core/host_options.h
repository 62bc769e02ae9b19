// The options of a host core, fixed when its host starts. Data.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

// --stop-before: the node leaves the job this long before its deadline.
struct StopBefore {
  absl::Time deadline;  // wall clock
  absl::Duration before;
  std::string why;  // a sentence, for messages
};

// --preload.
struct PreloadOptions {
  std::vector<std::string> modules;  // in the order of their import
  bool learns = false;               // auto: they were learned from a worker, or will be if there are none
  std::string list = {};             // the file that keeps what is learned; empty: none can be kept
};

struct HostOptions {
  std::string host_id;
  int64_t host_pid = 0;
  v1::NodeConfig config;
  absl::Duration termination_grace = absl::Seconds(30);  // after a signal from outside
  std::set<int> leave_signals;  // --signals-to-handle: signals that mean leave, besides the usual four
  std::optional<StopBefore> stop_before;
  // Exit code at which the platform retries the job; used if the training is not at fault for the end. 0: none.
  int retryable_exit_code = 0;
  std::string local_rank_option;  // name of the option that --pass-local-rank adds ("local-rank"); empty: none
  std::string python;             // path of the workers' Python; empty: the program needs none
  absl::Duration setup_timeout = absl::ZeroDuration();        // zero: no setup
  absl::Duration preflight_timeout = absl::ZeroDuration();    // zero: no preflight
  absl::Duration gpu_release_timeout = absl::ZeroDuration();  // zero: GPUs are not checked
  PreloadOptions preload;
  bool driver_pids = false;  // the driver's pids are valid here: the host is in no PID namespace of its own

  absl::Duration shutdown_grace() const { return absl::Milliseconds(config.shutdown_grace_ms()); }
  absl::Duration coordinator_timeout() const { return absl::Milliseconds(config.coordinator_timeout_ms()); }
};

}  // namespace muster::host
