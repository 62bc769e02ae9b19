// What a round costs: counted once, when the next is made, from the greatest round seen. So a coordinator that
// died while draining comes to the same numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/v1/rendezvous.pb.h"
#include "proto/base/time.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

// Why a round ended. Any number of failures in one round is one.
enum class RoundEnd { kMembership, kWorkerFailure, kNodeLoss };

struct Counts {
  int restart_count = 0;
  int failures = 0;
  std::vector<BootTime> losses;  // when; those outside the window are forgotten

  // What comes after a round that ended so at `now`.
  Counts After(RoundEnd end, BootTime now, absl::Duration window) const;
  // Each count no smaller than in `other`: counts never shrink.
  Counts AtLeast(const Counts& other) const;
};

// The failure that came first and is no echo of our own stop; within kSameMoment a signal or an OOM kill beats an
// exit code.
struct SeenFailure {
  v1::Failure failure;
  BootTime at = absl::InfinitePast();  // arrival minus age
};
std::optional<SeenFailure> FirstCause(const std::vector<SeenFailure>& failures);

// What else failed in that round, in brief, for the verdict's report: what followed on the cause's own node, then
// the other nodes' failures in their order.
void SetRootCause(const SeenFailure& cause, std::vector<SeenFailure> failures, v1::Verdict* verdict);

int ExitCodeOf(const v1::Failure& failure);               // the code, or 128 + signal
std::string DescribeFailure(const v1::Failure& failure);  // "rank 3 on host b exited with code 7"

}  // namespace muster::rendezvous
