// Asks the doors of the nodes of this machine (rendezvous/door.h). Any thread; blocks within its limits.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/time.h"
#include "base/io/frame_exchange.h"
#include "base/io/owned_fd.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

inline constexpr absl::Duration kNameLimit = absl::Seconds(5);  // for what all doors call their jobs
inline constexpr absl::Duration kDoorBack = absl::Seconds(5);   // from the end of an agent to the door of the next
inline constexpr absl::Duration kViewLimit = absl::Seconds(10);  // for the state of a job

// A job of which nodes are here.
struct JobHere {
  std::string run_id;
  std::string coordinator;         // as in v1::Answer: jobs may have one run id
  std::vector<std::string> doors;  // of its nodes
  std::vector<pid_t> pids;         // of who listens there, as far as this namespace has them
};

// The jobs of this user, or for root of all users, in the order of their names. Doors that do not answer are left
// out.
std::vector<JobHere> JobsHere();

// What the first door says that knows the state of the job. Unavailable: none does, and why.
absl::StatusOr<v1::JobView> ViewOf(const JobHere& job, const v1::Question& question);

// Waits for the end of a job. An end that comes between two calls of Await() is not missed.
class EndVisit {
 public:
  explicit EndVisit(JobHere job) : job_(std::move(job)) {}

  // Unavailable: its nodes here have ended, and it is not known how the job has; DeadlineExceeded: it goes on.
  absl::StatusOr<v1::JobEnd> Await(absl::Duration limit);
  // Asks at the next door that opens, so that the end is heard from now on.
  void Begin();

 private:
  const JobHere job_;
  size_t next_ = 0;  // which door is asked next
  OwnedFd asked_;    // invalid: no door is asked at the moment
  std::optional<IncomingFrame> answer_;
  BootTime asked_at_ = absl::InfinitePast();
  std::string why_ = "no node of it is here any more";
};

}  // namespace muster::cli
