// The newest round on this node, from the start of its workers until nothing of it is alive: its phase, how it
// went, and the stop of its workers.
//
//   IDLE -> STARTING -> RUNNING -> STOPPING -> IDLE, from STOPPING also STUCK; any active phase may stop.
//
// A stop that has begun is never taken back. The round is over once all workers were reported as ended, a sweep
// has found nothing alive, and what they wrote last was gathered; what is known about it stays until the next one
// starts. Pure.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/core/effects.h"
#include "agent/host/core/ladder.h"
#include "agent/host/core/round_failures.h"
#include "agent/host/core/worker_table.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr absl::Duration kStartLimit = absl::Seconds(60);  // from spawning to the last worker's exec

// A reason to end the workers.
struct Stop {
  // kOrdered: by the coordinator, whose grace period is the same for all nodes. kDeparture: by a request to this
  // node to leave, whose grace period replaces that of an order. kLimit: by the end of the lease or a second
  // request; no other grace period counts.
  enum class Kind { kOwn, kOrdered, kDeparture, kLimit };

  Kind kind = Kind::kOwn;
  int signal = SIGTERM;  // the first
  absl::Duration grace = absl::ZeroDuration();
  v1::Outcome outcome = v1::OUTCOME_STOPPED;
  std::string cause = "";  // for the log
};

class LocalRound {
 public:
  explicit LocalRound(NodeFacts node) : node_(std::move(node)) {}

  v1::HostPhase phase() const { return phase_; }
  bool active() const { return phase_ != v1::HOST_PHASE_IDLE; }
  bool stuck() const { return phase_ == v1::HOST_PHASE_STUCK; }  // something survives SIGKILL
  // Whether something may be alive that can still be ended. Not once a sweep has found nothing, and not if the
  // round is stuck: SIGKILL is pending for all that is left.
  bool can_be_stopped() const { return active() && !stuck() && !gathering_output_; }
  // Whether the end of the host waits for the round: for what can be ended, then for its last output.
  bool is_awaited() const { return active() && !stuck(); }
  bool stopping() const { return ladder_.has_value(); }  // muster stops the workers; false once the round is over
  bool killed() const { return ladder_ && ladder_->killed(); }  // the grace period of the stop is over
  const v1::RoundId& id() const { return round_.id(); }         // unset: none was started yet
  v1::Outcome outcome() const { return outcome_; }
  BootTime over_since() const { return over_since_; }  // infinite past: none is over yet
  int live_workers() const { return workers_.live(); }
  const std::string& trouble() const { return trouble_; }  // what survives SIGKILL; empty: nothing so far
  std::optional<int> failed_local_rank() const;            // of the cause, while the round is active
  // What made the round fail, also once it is over.
  const std::optional<v1::Failure>& cause() const { return failures_.cause(); }
  // Whether the processes that a worker left in its session get the rest of the grace period: see HostCore.
  bool SparesRest() const;

  void Start(BootTime now, const v1::Round& round);
  void OnSpawned(const std::vector<v1::Worker>& workers) { workers_.OnSpawned(workers); }
  bool OnExecuting(int local_rank);  // true: all workers execute now

  // A worker's first process has ended. True: that makes the round fail, and its workers must be stopped.
  bool OnExit(WorkerEnd end, Effects* out);
  // True: a worker does not execute though kStartLimit has passed; that makes the round fail, too.
  bool FailsToStart(BootTime now, absl::Time wall_at_boot, Effects* out);
  // True: a worker has failed because a peer had gone, and no other failure came; that makes the round fail, too.
  bool FailsByEcho(BootTime now, Effects* out);
  void OnRestEnded(int local_rank) { workers_.OnRestEnded(local_rank); }
  // Once every worker has been reported as ended: judges the round and sweeps. Before and after that: nothing.
  void SweepIfAllEnded(BootTime now, Effects* out);

  bool OnProgress(BootTime now);  // true: for the first time in this round

  // The grace period that this stop would leave to the workers; nullopt: they have none any more.
  std::optional<absl::Duration> GraceWith(BootTime now, const Stop& stop) const;
  // Begins the ladder, or changes its grace period. True: it has begun now.
  bool BeginStop(BootTime now, const Stop& stop, Effects* out);
  bool OnTick(BootTime now, Effects* out);  // true: the round is stuck now
  bool OnSwept(const std::string& left);    // true: nothing is alive; its last output must be gathered
  // The last output was gathered; lines: of the worker that made the round fail. True: the round is over now.
  bool OnOutput(BootTime now, const std::string& lines);

  void Describe(v1::HostStatus* status) const;

 private:
  BootTime KillMoment(BootTime now, const Stop& stop) const;
  void SayWhatFinishes(BootTime now, Effects* out);
  void SignalRestIfDue(BootTime now, Effects* out);
  void KillIfDue(BootTime now, Effects* out);
  bool BecomeStuckIfDue(BootTime now, Effects* out);
  void Sweep(BootTime now, Effects* out);
  void End(BootTime now);

  const NodeFacts node_;
  v1::HostPhase phase_ = v1::HOST_PHASE_IDLE;
  v1::Round round_;
  BootTime started_at_ = absl::InfinitePast();
  WorkerTable workers_;
  v1::Outcome outcome_ = v1::OUTCOME_NONE;
  RoundFailures failures_;
  std::optional<BootTime> progress_at_;  // the newest touch of the progress file
  std::optional<Ladder> ladder_;
  bool kill_is_wanted_ = false;    // by a second signal, so no grace period is over when SIGKILL is sent
  bool judged_ = false;            // see SweepIfAllEnded
  bool sweeping_ = false;          // an answer to Sweep is awaited
  bool gathering_output_ = false;  // nothing of the round is alive; OnOutput is awaited
  BootTime kill_since_ = absl::InfiniteFuture();  // when SIGKILL was first sent
  std::string trouble_;                           // as the last sweep named it
  BootTime over_since_ = absl::InfinitePast();
};

}  // namespace muster::host
