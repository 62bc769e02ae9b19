// What a round costs: counted once, when the next is made, from the greatest round seen. So a coordinator that
// died while draining comes to the same numbers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

// Why a round ended. Any number of failures in one round is one.
enum class EndCause { kMembership, kWorkerFailure, kNodeLoss };

struct RoundResult {
  EndCause end = EndCause::kMembership;
  BootTime at;              // when its drain was complete
  absl::Duration lasted;    // from its making to its first trouble
  bool watched = false;     // some member looked at a progress file
  bool progressed = false;  // that was touched meanwhile
  std::string culprit;      // host id of the root cause; empty: not known, or no failure
};

// By a touch of the progress file; where nobody looks at one, by having run for long.
bool MadeProgress(const RoundResult& round);

struct RestartLedger {
  int restart_count = 0;
  int failures = 0;
  std::vector<BootTime>
      failure_times;             // within the restart window, where there is one; the newest kMaxFailureAges
  std::vector<BootTime> losses;  // when; those outside the window are forgotten
  int fast_failures = 0;         // rounds in a row that failed within kFastFailure
  int idle_failures = 0;         // restarts in a row that failed without progress
  int idle_changes = 0;          // changes of membership in a row without progress
  std::string culprit;           // of the newest failed round
  int culprit_streak = 0;        // failed rounds in a row of which it was the root cause
  std::map<std::string, BootTime> excluded;  // host id -> until when it is set aside

  // What comes after a round that ended so.
  RestartLedger After(const RoundResult& round, const CoordinatorOptions& options) const;
  // What is known once another coordinator's round, a greater one, has been seen. The sums are no smaller than
  // these: they never shrink.
  RestartLedger Learning(const RestartLedger& seen) const;

  int FailuresInWindow(const CoordinatorOptions& options) const;
  // Before the next round is made; `dice` is uniform over all its values.
  absl::Duration DelayBeforeNext(const CoordinatorOptions& options, uint64_t dice) const;

  void WriteTo(BootTime now, v1::Round* round) const;
  void WriteAgesTo(BootTime now, v1::Round* round) const;  // only what time changes: the rest was told once
  static RestartLedger ReadFrom(const v1::Round& round, BootTime now);

 private:
  void NoteFailure(const RoundResult& round, const CoordinatorOptions& options);
};

// The failure that came first and is no echo: not of our own stop, and not one that says itself that a peer has
// gone, if within kEchoWindow there is one that does not. Within kSameMoment an OOM kill beats a signal, and that
// an exit code.
struct SeenFailure {
  v1::Failure failure;
  std::string host_id;                 // whose worker it was
  BootTime at = absl::InfinitePast();  // arrival minus age
};
// Where a failure is kept: thousands of them, each with its texts, are not copied to be compared.
struct FailureRef {
  const v1::Failure* failure = nullptr;
  const std::string* host_id = nullptr;
  BootTime at = absl::InfinitePast();
};
std::vector<FailureRef> RefsTo(const std::vector<SeenFailure>& failures);
bool SoundsLikeAnEcho(const v1::Failure& failure);  // by what the worker, or its libraries, said: a peer has gone
std::optional<SeenFailure> FirstCause(std::vector<FailureRef> failures);

// What else failed in that round, in brief, for the verdict's report: what followed on the cause's own node, then
// the other nodes' failures in their order.
void SetRootCause(const SeenFailure& cause, std::vector<FailureRef> failures, v1::Verdict* verdict);

int ExitCodeOf(const v1::Failure& failure);               // the code, or 128 + signal
std::string DescribeFailure(const v1::Failure& failure);  // "rank 3 on host b exited with code 7"

}  // namespace muster::rendezvous
