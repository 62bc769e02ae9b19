// Which worker made this node's round fail, among all workers of the node that failed in it.
//
// The first failure is the cause, unless it is an echo (base/wire/failure.h): then its own cause has kEchoPatience
// to end, too. A worker whose end is reported after the stop replaces the cause if it had ended before, or if what
// it wrote shows that it failed earlier: its peers may fail because of it faster than it ends. All others are
// listed as failures after muster's own signal, also where no worker of this node is the cause. A worker that had
// created its done file has not failed, however it ends; one that muster has ended because the job hung has. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/core/effects.h"
#include "agent/host/core/ending.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

// Exit code 2 within this time after the start gets the hint about argparse.
inline constexpr absl::Duration kUsageErrorWithin = absl::Minutes(1);

// The end of a worker, and the clocks that date it.
struct WorkerEnd {
  BootTime at = absl::InfinitePast();           // when the host saw it; the report may have come later
  absl::Time wall_at_boot = absl::UnixEpoch();  // the machine's boot by the wall clock, as both clocks show it now
  int local_rank = 0;
  int64_t pid = 0;
  Ending ending = {};
};

// What is the same for all rounds of this node.
struct NodeFacts {
  int slots = 0;  // workers of a round
  std::string hostname = "";
  std::string local_rank_option = "";  // these two: see HostOptions
  std::string python = "";
};

class RoundFailures {
 public:
  RoundFailures() = default;
  RoundFailures(const v1::Round& round, BootTime started_at, const NodeFacts& node)
      : round_(round), started_at_(started_at), node_(node) {}

  // stopping_since: when muster began to stop the workers; nullopt: it has not. True: the round has failed, and
  // its workers must be stopped. An echo alone makes it fail only later: TakeEchoes.
  [[nodiscard]] bool OnEnd(const WorkerEnd& end, std::optional<BootTime> stopping_since, Effects* out);
  // The worker made the round fail, by its end or without one.
  void Fail(const WorkerEnd& end, Effects* out);

  // The cause of the echoes so far is awaited up to this time; nullopt: there are none, or a cause is known.
  std::optional<BootTime> AwaitsCauseUntil() const;
  void TakeEchoes(Effects* out);  // waits no longer: the first of them is the cause

  void OnLastOutput(const std::string& lines);  // the last that the worker of the cause wrote; ignored without one
  void AddHint();                               // call once all workers have ended

  const std::optional<v1::Failure>& cause() const { return cause_; }
  // The cause, or else the first failure after muster's signal; with the others in it.
  void Describe(v1::HostStatus* status) const;

 private:
  void SayDone(const WorkerEnd& end, Effects* out) const;
  void TakeHung(const WorkerEnd& end, Effects* out);
  void AddFurther(const WorkerEnd& end, BootTime stopping_since, Effects* out);
  void AddEcho(const WorkerEnd& echo);
  std::optional<BootTime> FailedBefore(const WorkerEnd& end, BootTime stopping_since) const;
  std::string LeftEarly() const;
  bool TakesLate(const WorkerEnd& end, BootTime stopping_since, Effects* out);
  void TakeLate(const WorkerEnd& end, BootTime at, BootTime stopping_since, Effects* out);
  void AddOther(v1::Failure other, BootTime at);
  BootTime FailedAt(const WorkerEnd& end) const;
  v1::Failure MakeFailure(const WorkerEnd& end, BootTime at) const;
  void SetCause(const WorkerEnd& end, BootTime at);
  void SayCause(const WorkerEnd& end, const std::string& more, Effects* out) const;

  v1::Round round_;
  BootTime started_at_ = absl::InfinitePast();
  NodeFacts node_;
  std::optional<v1::Failure> cause_;
  BootTime cause_at_ = absl::InfinitePast();
  struct Other {
    v1::Failure failure;  // in brief
    BootTime at;
  };
  std::vector<Other> others_;  // in the order in which they became known, the first kMaxOtherFailures
  int more_others_ = 0;
  std::vector<WorkerEnd> echoes_;       // before muster's signal, in order of time; their cause is not known
  std::map<int, BootTime> left_early_;  // local ranks that exited with 0 before muster's signal
  std::map<int, bool> without_input_;   // ended workers that read /dev/null; whether their output is unseen
  // Every worker that has ended exited with code 2 by itself, or was ended by muster's signal: argparse rejects
  // the arguments of all workers alike.
  bool all_usage_errors_ = true;
};

}  // namespace muster::host
