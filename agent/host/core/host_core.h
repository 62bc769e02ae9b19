// The host core: every decision about one node's worker processes. Events come in, effects go out.
//
// It holds one member for each question, and only puts their answers into one order: which round runs here and how
// its workers are stopped (LocalRound), until when they may run (Lease), whether the node is fit for the next
// round (Fitness), which agent it obeys (AgentSupervisor), why it leaves the job (Departure), and with which code
// the host exits (HostExit). None of them knows another; each gets the facts that it needs as arguments.
//
// Pure: each event takes the present time and appends effects, to be carried out in order. The core does no I/O,
// reads no clock and starts nothing itself. Lives on the host's loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/core/agent_supervisor.h"
#include "agent/host/core/departure.h"
#include "agent/host/core/effects.h"
#include "agent/host/core/ending.h"
#include "agent/host/core/fitness.h"
#include "agent/host/core/hang_watch.h"
#include "agent/host/core/host_exit.h"
#include "agent/host/core/host_options.h"
#include "agent/host/core/lease.h"
#include "agent/host/core/local_round.h"
#include "agent/host/core/memory_use.h"
#include "agent/host/core/preload.h"
#include "agent/host/core/restart_history.h"
#include "agent/host/core/signal_orders.h"
#include "agent/host/core/step_rates.h"
#include "base/core/driver.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

class HostCore {
 public:
  explicit HostCore(HostOptions options);

  // Call it first: starts the first agent, if this host starts agents.
  void Begin(BootTime now, Effects* out);

  void OnTick(BootTime now, Effects* out);

  // The link to the agent. Events of an agent other than the latest are ignored.
  void OnDirective(BootTime now, const v1::HostDirective& directive, Effects* out);
  void OnAgentClosed(BootTime now, uint64_t agent_number, Effects* out);
  void OnMemoryUse(BootTime now, const MemoryUse& use, Effects* out);  // for the sidecar, about once a second
  // An agent has come by itself, to a host that starts none (NodeConfig.split). It replaces an earlier one.
  void OnAgentCame(BootTime now, Effects* out);
  // The agent could not be started. The core retries, for the coordinator timeout at most, but gives up at once
  // if it was the first agent.
  void OnAgentFailed(BootTime now, uint64_t agent_number, const std::string& why, Effects* out);

  // Answers to SpawnWorkers: OnSpawned once the processes exist; then, for each worker, one of the two others.
  void OnSpawned(BootTime now, const std::vector<v1::Worker>& workers, Effects* out);
  void OnExecuting(BootTime now, int local_rank, Effects* out);
  void OnSpawnFailed(BootTime now, int local_rank, int exit_code, const std::string& why, Effects* out);

  // News of the preloader, and answers to SpawnWorkers{.forks = true}.
  void OnPreload(BootTime now, const PreloadNews& news, Effects* out);

  void OnExit(BootTime now, int local_rank, const Ending& ending, Effects* out);
  // Queried when a worker's first process has ended, before the rest of its session is killed. True: the processes
  // of its session that handle the stop signal have the rest of the grace period, whatever has become of the first
  // one: the signal has ended it, for example, or it is a shell whose EXIT trap has run.
  bool SparesRest() const;
  // The spared processes of this worker have ended; this may be called before OnExit, which the worker's last
  // output delays. Not called after a Sweep effect, which kills them.
  void OnRestEnded(BootTime now, int local_rank, Effects* out);
  void OnProgress(BootTime now, Effects* out);  // at each touch of the progress file in the current round

  // Answer to Sweep. left: empty when nothing of the round is alive; else the processes that are still alive.
  void OnSwept(BootTime now, const std::string& left, Effects* out);
  // Answer to GatherRoundOutput. lines: the last that the worker in it wrote; empty: none are known.
  void OnRoundOutput(BootTime now, const std::string& lines, Effects* out);

  void OnOffer(BootTime now, uint32_t port, Effects* out);  // 0: no port could be reserved

  // The present wall-clock time, which may be set at any moment. Call before each OnTick.
  void OnWallClock(BootTime now, absl::Time wall, Effects* out);

  // Answer to StartCheck; a Sweep then kills the processes that the command left.
  void OnCheckEnded(BootTime now, const Ending& ending, Effects* out);
  // Answer to GatherCheckOutput.
  void OnCheckOutput(BootTime now, const std::string& last_line, Effects* out);
  void OnGpuUsers(BootTime now, const GpuUsers& users, Effects* out);  // answer to AskGpus

  // All signals but SIGTSTP, for which see OnSuspend. SIGTERM, SIGHUP, SIGQUIT: leave the job. SIGINT: cancel the
  // job. SIGUSR1, SIGUSR2: forwarded only to worker processes that handle them, because the default
  // action would end a shell around the training, or the training itself; see OnForwarded.
  // HostOptions::leave_signals turns any of these into leave. SIGCONT continues the workers. After Finish:
  // HurryFinish, if the signal means leave or cancel.
  void OnSignal(BootTime now, int signal, Effects* out);
  // Answer to ForwardSignal: so many worker processes handle that signal. If none does, SIGUSR2 asks for a
  // snapshot of the workers.
  void OnForwarded(BootTime now, int signal, int processes, Effects* out);
  // Answer to SignalRanks. processes: that got it; workers, if it went to their groups.
  void OnRanksSignalled(BootTime now, const SignalRanks& order, int processes, Effects* out);
  void OnSnapshot(BootTime now, const std::vector<RankSnapshot>& ranks, Effects* out);  // answer to TakeSnapshot
  // Workers that have shown a sign of life, by local rank. Looked for about once a second.
  void OnSigns(BootTime now, const std::set<int>& local_ranks, Effects* out);
  void OnSteps(BootTime now, const std::vector<StepSeen>& seen, Effects* out);  // found by the same looks
  // SIGTSTP: with a lease it suspends only the workers; without a lease StopSelf, or a note if no shell could
  // continue this process once it is stopped.
  void OnSuspend(BootTime now, bool shell_can_continue, Effects* out);

  bool finished() const { return finished_; }
  bool stopping() const { return round_.stopping(); }  // this node ends its workers itself
  v1::HostPhase phase() const { return round_.phase(); }
  const v1::RoundId& started() const { return round_.id(); }
  uint64_t agent_number() const { return agent_.number(); }
  bool leased() const { return lease_.exists(); }
  absl::Duration lease() const { return lease_.length(); }
  BootTime lease_deadline() const { return lease_.deadline(); }

 private:
  // Whether nothing keeps this node from another round.
  bool IsIdle() const { return !finished_ && !round_.active() && !exit_.decided() && !departure_.begun(); }
  Fitness::Job JobForFitness() const;
  void Prepare(BootTime now, Effects* out);
  std::string Preparing() const;

  // The round and its workers.
  void Obey(BootTime now, const v1::HostDirective& directive, Effects* out);
  void MaybeStart(BootTime now, const v1::Round& round, Effects* out);
  void BeginStop(BootTime now, Stop stop, Effects* out);
  void StopAfterFailure(BootTime now, Effects* out);
  void WatchLease(BootTime now, Effects* out);
  void WatchStop(BootTime now, Effects* out);
  void RoundIsOver(BootTime now, Effects* out);

  // The agent.
  void NextAgent(BootTime now, Effects* out);
  void Dismiss(Effects* out);
  void GiveUp(BootTime now, int exit_code, const std::string& reason, Effects* out);
  void WatchAgent(BootTime now, absl::Duration counted, Effects* out);
  void ReplaceSilentAgent(BootTime now, const AgentSupervisor::Need& need, Effects* out);

  // The end.
  void BeginLeave(BootTime now, const LeaveRequest& request, Effects* out);
  void StopNow(BootTime now, int signal, Effects* out);
  void DecideExit(const v1::Exit& exit, Effects* out);
  void WatchEnd(BootTime now, Effects* out);

  void SetWallAtBoot(BootTime now, absl::Time wall);
  bool MeansLeave(int signal) const;
  void SendStatus(Effects* out);  // sends a status to the agent now

  const HostOptions options_;
  AgentSupervisor agent_;
  LocalRound round_;
  v1::RoundId not_started_;  // the newest round that came after the lease had ended
  Lease lease_;
  Fitness fitness_;
  Preload preload_;
  Departure departure_;
  HostExit exit_;
  // What the newest agent wants to find again after its death, stored before anything else is done with a
  // directive; the next agent gets it with the first status.
  v1::Memory memory_;
  MemoryUse memory_use_;
  bool serves_others_ = false;  // other nodes use the coordinator on this node
  HangWatch hang_watch_;
  SignalOrders signal_orders_;
  StepRates steps_;
  RestartHistory history_;
  bool finished_ = false;                        // Finish was appended: no event has an effect any more
  absl::Time wall_at_boot_ = absl::UnixEpoch();  // of the machine, by the latest reading of the wall clock
  BootTime last_tick_ = absl::InfinitePast();
  BootTime last_beat_ = absl::InfinitePast();
};

using HostDriver = CoreDriver<HostCore, Effect>;

}  // namespace muster::host
