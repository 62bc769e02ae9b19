// The root cause of a round's end among the failures of its workers, and how a failure is described.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

struct SeenFailure {
  v1::Failure failure;
  std::string host_id;                 // of the worker that failed
  BootTime at = absl::InfinitePast();  // arrival minus age
};
// Refers to a stored failure, because thousands of failures with their texts are too large to copy for comparison.
struct FailureRef {
  const v1::Failure* failure = nullptr;
  const std::string* host_id = nullptr;
  BootTime at = absl::InfinitePast();
};
std::vector<FailureRef> RefsTo(const std::vector<SeenFailure>& failures);
// The root cause: the earliest failure before our own stop signal. If that one reports a lost peer, the first
// failure within kEchoPatience that does not is preferred. Within kSameMoment of it an OOM kill ranks above a
// signal, and a signal above an exit code, but no echo above a failure that is no echo.
std::optional<SeenFailure> FirstCause(std::vector<FailureRef> failures);

// Sets the root cause and, in brief, the other failures of that round: first those on the cause's own node, then
// those of other nodes in order of time.
void SetRootCause(const v1::Failure& cause, std::vector<FailureRef> failures, v1::Verdict* verdict);

int ExitCodeOf(const v1::Failure& failure);               // the exit code, or 128 + signal
std::string DescribeFailure(const v1::Failure& failure);  // "rank 3 on b exited with code 7"

}  // namespace muster::rendezvous
