// The host core: every decision about one node's worker processes. It decides what starts, what is stopped and
// how, when the lease ends, when an agent is replaced, and with which code the host exits.
//
// Pure: each event takes the present time and appends effects, to be carried out in order. The core does no I/O,
// reads no clock and starts nothing itself. Lives on the host's loop thread. host_core.cc: the agent and the
// round; stopping.cc: the stop ladder, the lease, signals and the end; leaving.cc: why and when this node leaves
// the job; preparing.cc: whether this node is fit for a round.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/host/core/ladder.h"
#include "base/driver.h"
#include "base/note.h"
#include "base/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr absl::Duration kTick = absl::Milliseconds(100);  // OnTick is called at least this often
// Silence that one tick can add at most, so that a pause of this process is not counted as silence of another.
inline constexpr absl::Duration kMaxCountedSilence = absl::Milliseconds(250);
inline constexpr absl::Duration kStartLimit = absl::Seconds(60);      // from spawning to the last worker's exec
inline constexpr absl::Duration kStuckAfterKill = absl::Seconds(10);  // from SIGKILL to HOST_PHASE_STUCK
// From the end of all processes of a round, or of the preflight, to the moment when what they wrote last is no
// longer waited for. It takes that long only if the console's reader is stalled or a file system hangs.
inline constexpr absl::Duration kLastOutputLimit = absl::Milliseconds(200);
inline constexpr absl::Duration kSayFinishing = absl::Seconds(1);  // from a wrapper's end to the message about it
inline constexpr absl::Duration kLeaveReportLimit = absl::Seconds(1);  // a leaving host waits for the coordinator
// A signal repeated within this time counts as the same request.
inline constexpr absl::Duration kOneSignal = absl::Milliseconds(200);
inline constexpr absl::Duration kAgentRestartWindow = absl::Seconds(10);
// Timeout of an agent in a job without a lease, while the host waits for it.
inline constexpr absl::Duration kLoneAgentSilence = absl::Seconds(10);
inline constexpr absl::Duration kAgentRetry = absl::Seconds(3);   // after an agent could not be started
inline constexpr absl::Duration kOfferRetry = absl::Seconds(5);   // after no master port could be reserved
inline constexpr absl::Duration kBeat = absl::Milliseconds(500);  // between statuses to the agent
inline constexpr size_t kMaxErrorText = 4096;                     // bytes of each text of a failure that is sent
inline constexpr size_t kMaxBriefText = 256;                      // the same for failures other than the first
inline constexpr int kMaxOtherFailures = 8;  // sent for one node; further ones are only counted
// Exit code 2 within this time after the start gets the hint about argparse.
inline constexpr absl::Duration kUsageErrorWithin = absl::Minutes(1);
inline constexpr absl::Duration kLeastGrace = absl::Seconds(1);  // minimum grace period before a deadline
// Between the end of the workers and a deadline.
inline constexpr absl::Duration kDeadlineReserve = absl::Seconds(1);
// No round is started in this time before --stop-before takes effect, or in the time of --stop-before if shorter.
inline constexpr absl::Duration kMaxUselessRound = absl::Minutes(1);
inline constexpr absl::Duration kUnfitRetry = absl::Seconds(10);  // doubles with each failed attempt
inline constexpr absl::Duration kMaxUnfitRetry = absl::Minutes(5);
inline constexpr absl::Duration kGpuPoll = absl::Milliseconds(200);  // from an answer to the next question
// Time for processes to leave the GPUs if their pids cannot be compared with those of the workers.
inline constexpr absl::Duration kUnknownGpuUsers = absl::Seconds(5);
inline constexpr size_t kMaxUnfitText = 320;  // bytes of the reason why this node is not fit
inline constexpr int kMaxGpuPidsNamed = 8;
inline constexpr int kMaxAgentRestarts = 5;  // deaths of agents within the window that count as a fault of muster
// Timeout for the first message of an agent. It sends none before it is configured: it starts, and may look up the
// primary's name for 2 s, which is as long as half of a short lease.
inline constexpr absl::Duration kFirstWordLimit = absl::Seconds(10);

// Effects.

// Starts an agent over a new link; an older link is closed first. On failure: OnAgentFailed.
struct StartAgent {
  uint64_t number = 0;
};
// Sends SIGKILL to the agent, then closes its link.
struct KillAgent {};
// Sends a status to the current agent.
struct SendStatus {
  v1::HostStatus status;
};
// Starts every worker of this node. Answers: OnSpawned, then OnExecuting or OnSpawnFailed for each worker.
struct SpawnWorkers {
  v1::Round round;
};
// Signals the process group of every live worker.
struct SignalWorkers {
  int signal = 0;
};
// The same, as the first signal of a stop: see SparesRest.
struct StopWorkers {
  int signal = 0;
};
// Signals every process of the workers' sessions that handles the signal.
struct ForwardSignal {
  int signal = 0;
};
// Sends SIGKILL to all worker groups and to all orphans that became children of the host. Answer: OnSwept.
struct Sweep {};
// No process of the round is left: takes in what they wrote last. Waits until the progress file was checked and
// the output of this worker, the cause of a failure, was read to its end; at most for kLastOutputLimit. Answer:
// OnRoundOutput, after a report that the progress file was touched.
struct GatherRoundOutput {
  std::optional<int> local_rank;  // nullopt: no worker failed
};
// The same for the output of the preflight. Answer: OnPreflightOutput.
struct GatherPreflightOutput {};
// Sets the instant at which the kernel sends SIGKILL to the host itself; nullopt: disarms the timer.
struct SetKernelTimer {
  std::optional<BootTime> at;
};
// Reserves another master port and releases the previous one. Answer: OnOffer.
struct RenewOffer {};
// Starts the preflight command. Answer: OnPreflightEnded.
struct StartPreflight {};
// Asks which processes hold GPUs. Answer: OnGpuUsers.
struct AskGpus {};
// Raises SIGSTOP in the host, for Ctrl-Z without a lease.
struct StopSelf {};
// Flushes the output and exits.
struct Finish {
  int exit_code = 0;
  int signal = 0;      // not 0: end by this signal instead of exiting with the code
  std::string origin;  // "worker" or "muster"
  std::string reason;
  std::optional<v1::Verdict> verdict;
  v1::Round last;               // the latest round that this node knows
  bool asked_to_leave = false;  // whoever asked is waiting for this host to end, possibly with a time limit
};
// Another request to end came after Finish: the host waits only briefly for the readers of its output.
struct HurryFinish {};
using Effect = std::variant<StartAgent, KillAgent, SendStatus, SpawnWorkers, SignalWorkers, StopWorkers,
                            ForwardSignal, Sweep, GatherRoundOutput, GatherPreflightOutput, SetKernelTimer,
                            RenewOffer, StartPreflight, AskGpus, StopSelf, Finish, HurryFinish, Note>;
using Effects = std::vector<Effect>;

// How a worker ended: its wait status, and what is known about the cause.
struct Ending {
  bool by_signal = false;
  int number = 0;  // exit code or signal
  bool core_dumped = false;
  bool oom_killed = false;
  // Explanation by the worker or by muster; UTF-8, at most kMaxErrorText bytes each.
  std::string error_text = "";
  std::string callstack = "";
  std::string error_file = "";                 // path of the worker's error file; empty: none, or it is not kept
  std::optional<int64_t> failed_at_s = {};     // as the worker reported it: wall clock, truncated to a second
  std::optional<absl::Time> reported_at = {};  // modification time of its error file, by the wall clock
  // The wall clock when the end was seen: it may have been set since OnWallClock. nullopt: as before.
  std::optional<absl::Time> wall = {};
  // Other processes of its session were spared until the grace period ends: OnRestEnded or a sweep follows.
  bool rest_lives = false;

  bool ok() const { return !by_signal && number == 0; }
};

// --stop-before: the node leaves the job this long before its deadline.
struct StopBefore {
  absl::Time deadline;  // wall clock
  absl::Duration before;
  std::string why;  // a sentence, for messages
};

// Processes that hold this node's GPUs, as listed by the driver's tool.
struct GpuUsers {
  std::string trouble = "";            // why the list could not be read; empty: it was read
  std::set<int64_t> old_workers = {};  // pids of exited workers that no other process has taken since
  std::set<int64_t> others = {};
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
  bool external_agent = false;    // sidecar: another process starts the agent, and the host waits for it
  std::string local_rank_option;  // name of the option that --pass-local-rank adds ("local-rank"); empty: none
  absl::Duration preflight_timeout = absl::ZeroDuration();    // zero: no preflight
  absl::Duration gpu_release_timeout = absl::ZeroDuration();  // zero: GPUs are not checked
  bool driver_pids = false;  // the driver's pids are valid here: the host is in no PID namespace of its own
};

class HostCore {
 public:
  explicit HostCore(HostOptions options);

  // Call it first: starts the first agent.
  void Begin(BootTime now, Effects* out);

  void OnTick(BootTime now, Effects* out);

  // The link to the agent. Events of an agent other than the latest are ignored.
  void OnDirective(BootTime now, const v1::HostDirective& directive, Effects* out);
  void OnAgentClosed(BootTime now, uint64_t agent_number, Effects* out);
  // The agent could not be started. The core retries, for the coordinator timeout at most.
  void OnAgentFailed(BootTime now, uint64_t agent_number, const std::string& why, Effects* out);

  // Answers to SpawnWorkers: OnSpawned once the processes exist; then, for each worker, one of the two others.
  void OnSpawned(BootTime now, const std::vector<v1::Worker>& workers, Effects* out);
  void OnExecuting(BootTime now, int local_rank, Effects* out);
  void OnSpawnFailed(BootTime now, int local_rank, int exit_code, const std::string& why, Effects* out);

  void OnExit(BootTime now, int local_rank, const Ending& ending, Effects* out);
  // Queried when a worker's first process has ended, before the rest of its session is killed. True: muster's stop
  // signal ended that process, for example a shell that runs a script, so it could not wait for its children; the
  // processes of its session that handle the signal get the rest of the grace period.
  bool SparesRest(const Ending& ending) const;
  // The spared processes of this worker have ended. Not called after a Sweep effect, which kills them.
  void OnRestEnded(BootTime now, int local_rank, Effects* out);
  void OnProgress(BootTime now, Effects* out);  // the progress file was touched in the current round

  // Answer to Sweep. left: empty when nothing of the round is alive; else the processes that are still alive.
  void OnSwept(BootTime now, const std::string& left, Effects* out);
  // Answer to GatherRoundOutput. lines: the last that the worker in it wrote; empty: none are known.
  void OnRoundOutput(BootTime now, const std::string& lines, Effects* out);

  void OnOffer(BootTime now, uint32_t port, Effects* out);  // 0: no port could be reserved

  // The present wall-clock time, which may be set at any moment. Call before each OnTick.
  void OnWallClock(BootTime now, absl::Time wall, Effects* out);

  // Answer to StartPreflight; a Sweep then kills the processes that it left.
  void OnPreflightEnded(BootTime now, const Ending& ending, Effects* out);
  // Answer to GatherPreflightOutput.
  void OnPreflightOutput(BootTime now, const std::string& last_line, Effects* out);
  void OnGpuUsers(BootTime now, const GpuUsers& users, Effects* out);  // answer to AskGpus

  // Every signal but SIGTSTP. SIGTERM, SIGHUP, SIGQUIT: leave the job. SIGINT: cancel the job. SIGUSR1, SIGUSR2:
  // forwarded only to worker processes that handle them, because the default action would end a shell around the
  // training, or the training itself. HostOptions::leave_signals turns any of these into leave. SIGCONT continues
  // the workers. After Finish: HurryFinish, if the signal means leave or cancel.
  void OnSignal(BootTime now, int signal, Effects* out);
  // SIGTSTP: with a lease it suspends only the workers; without a lease StopSelf, or a note if no shell could
  // continue this process once it is stopped.
  void OnSuspend(BootTime now, bool shell_can_continue, Effects* out);

  bool finished() const { return finished_; }
  v1::HostPhase phase() const { return phase_; }
  const v1::RoundId& started() const { return started_; }
  uint64_t agent_number() const { return agent_number_; }
  bool leased() const { return lease_ > absl::ZeroDuration(); }
  absl::Duration lease() const { return lease_; }

  BootTime lease_deadline() const { return lease_deadline_; }

 private:
  enum class WorkerState {
    kSpawned,
    kExecuting,
    kFinishing,  // its first process has ended, spared processes of its session have not
    kEnded
  };
  struct WorkerEntry {
    int64_t pid = 0;
    uint64_t start_ticks = 0;
    WorkerState state = WorkerState::kSpawned;
    BootTime ended_at = absl::InfinitePast();  // when its first process ended
    bool said_that_it_finishes = false;
  };
  static bool HasEnded(const WorkerEntry& worker) {  // whether its first process has ended
    return worker.state == WorkerState::kFinishing || worker.state == WorkerState::kEnded;
  }

  // Between rounds: whether this node is fit for the next one.
  enum class Fitness {
    kUnknown,    // not checked yet; the check waits until the coordinator has ended the last round
    kGpus,       // exited workers may still hold GPUs
    kPreflight,  // the preflight runs
    kEnding,     // the processes that it left are being killed
    kFit,
    kUnfit,  // until the next attempt
  };
  void Prepare(BootTime now, Effects* out);
  void WatchPreparing(BootTime now, Effects* out);
  bool RoundIsClosed() const;
  void GpusAreFree(BootTime now, Effects* out);
  void EndPreflight(BootTime now, Effects* out);
  void OnPreflightSwept(BootTime now, const std::string& left, Effects* out);
  bool PreflightMatters() const;  // this node may still take part in a round
  std::string WhyPreflightFailed() const;
  void BecomeFit(BootTime now, Effects* out);
  void BecomeUnfit(BootTime now, const std::string& why, Effects* out);
  bool EndPreparing(BootTime now, Effects* out);  // true: nothing of it is alive, or can be killed
  std::string Preparing() const;

  // Rounds.
  void MaybeStart(BootTime now, const v1::Round& round, Effects* out);
  void BeginStop(BootTime now, int signal, absl::Duration grace, v1::Outcome outcome, const std::string& cause,
                 Effects* out);
  void Fail(BootTime now, int local_rank, const Ending& ending, int64_t pid, Effects* out);
  std::optional<int> FailedLocalRank() const;  // of the worker that made the current round fail
  void FailToo(BootTime now, int local_rank, const Ending& ending, int64_t pid);
  void FailLate(BootTime now, int local_rank, const Ending& ending, int64_t pid, Effects* out);
  v1::Failure MakeFailure(int local_rank, const Ending& ending, int64_t pid, BootTime at) const;
  BootTime FailedAt(BootTime now, const Ending& ending) const;
  void SetWallAtBoot(BootTime now, absl::Time wall);
  NoteSubject FailedWorker() const;  // the worker of failure_
  void AddHint();
  void SayWhatFinishes(BootTime now, Effects* out);
  void AllEnded(BootTime now, Effects* out);
  void RoundIsOver(BootTime now, Effects* out);
  int LiveWorkers() const;
  bool Active() const { return phase_ != v1::HOST_PHASE_IDLE; }

  // Lease.
  void ExtendLease(BootTime now, const v1::HostDirective& directive, Effects* out);
  BootTime LeaseTermMoment() const;
  BootTime LeaseKillMoment() const;
  void WatchLease(BootTime now, Effects* out);
  std::string WhyLeaseEnds(BootTime now) const;
  void UpdateKernelTimer(Effects* out);

  // Agent.
  void NextAgent(BootTime now, Effects* out);
  void GiveUp(BootTime now, const std::string& reason, Effects* out);  // a fault of muster or of the machine
  void WatchAgent(BootTime now, absl::Duration counted, Effects* out);
  void WatchAgentOfLoneNode(BootTime now, absl::Duration counted, Effects* out);
  absl::Duration SilenceLimit() const;
  void ReplaceSilentAgent(BootTime now, Effects* out);

  // Leaving.
  void BeginLeave(BootTime now, int signal, const std::string& reason, absl::Duration grace, Effects* out);
  bool MeansLeave(int signal) const;
  bool ConfirmsLeave(BootTime now, int signal, Effects* out);
  bool IsTooLateFor(BootTime now) const;
  bool StaysForOthers(BootTime now, Effects* out);
  std::string WhyLeft() const;

  // End.
  void WatchOffer(BootTime now, Effects* out);
  void WatchEnd(BootTime now, Effects* out);
  void FinishWith(const v1::Exit& exit, Effects* out);
  void AskForRetry();
  void WatchStop(BootTime now, Effects* out);
  void WatchStart(BootTime now, Effects* out);

  void SendStatus(Effects* out);  // sends a status to the agent now
  void Say(Severity severity, std::string text, Effects* out, const NoteSubject& subject = {}) const;
  v1::HostStatus MakeStatus();

  const HostOptions options_;

  // Link to the agent.
  uint64_t agent_number_ = 0;
  bool agent_attached_ = false;
  bool config_sent_ = false;
  uint64_t status_seq_ = 0;
  uint64_t applied_seq_ = 0;
  absl::Duration silence_;  // of the agent, counting only time in which this process ran
  bool agent_has_spoken_ = false;
  std::deque<BootTime> agent_starts_;
  BootTime agent_retry_at_ = absl::InfiniteFuture();
  std::optional<BootTime> agents_fail_since_;  // no agent has sent a message since then
  BootTime last_tick_ = absl::InfinitePast();
  BootTime last_beat_ = absl::InfinitePast();

  // The agent's memory.
  v1::Memory memory_;

  // The round.
  v1::HostPhase phase_ = v1::HOST_PHASE_IDLE;
  v1::RoundId started_;
  v1::Round round_;
  BootTime started_at_ = absl::InfinitePast();
  std::map<int, WorkerEntry> workers_;
  v1::Outcome outcome_ = v1::OUTCOME_NONE;
  bool progressed_ = false;  // the progress file was touched in the round started_
  std::optional<v1::Failure> failure_;
  BootTime failure_at_ = absl::InfinitePast();
  absl::Time wall_at_boot_ = absl::UnixEpoch();
  bool all_zero_ = true;   // every worker that has ended so far exited 0
  bool all_usage_ = true;  // every such worker exited 2 by itself, or was ended by muster's signal
  std::optional<Ladder> ladder_;
  int stop_signal_ = 0;                         // first signal of the ladder
  BootTime stopped_at_ = absl::InfinitePast();  // when the ladder began
  bool sweeping_ = false;
  BootTime swept_at_ = absl::InfinitePast();
  bool gathering_output_ = false;                 // nothing of the round is alive; OnRoundOutput is awaited
  BootTime kill_since_ = absl::InfiniteFuture();  // when SIGKILL was first sent
  uint32_t offer_port_ = 0;
  BootTime offer_asked_at_ = absl::InfinitePast();

  // Between rounds.
  Fitness fitness_ = Fitness::kUnknown;
  std::string unfit_why_;  // why the last attempt failed; empty: it succeeded
  absl::Duration retry_pause_ = kUnfitRetry;
  BootTime retry_at_ = absl::InfiniteFuture();
  bool gpus_may_be_held_ = false;    // by workers of the last round
  bool gpus_were_silent_ = false;    // the warning that GPU users cannot be listed was given
  std::set<int64_t> gpu_strangers_;  // processes that held GPUs for longer than kUnknownGpuUsers
  BootTime gpus_since_ = absl::InfinitePast();
  BootTime ask_gpus_at_ = absl::InfiniteFuture();  // infinite while an answer is pending
  BootTime preflight_since_ = absl::InfinitePast();
  BootTime preflight_ending_since_ = absl::InfinitePast();
  std::optional<Ending> preflight_ending_;  // nullopt: stopped by its timeout, or because the node leaves
  std::string preflight_last_line_;

  // The lease.
  absl::Duration lease_;
  BootTime lease_deadline_ = absl::InfinitePast();
  std::optional<BootTime> kernel_timer_;

  // The end.
  std::optional<v1::Leave> leave_;
  std::optional<BootTime> signalled_;          // when the first signal that means leave came
  BootTime stop_at_ = absl::InfiniteFuture();  // of --stop-before, by the latest reading of the wall clock
  BootTime leave_at_ = absl::InfinitePast();
  BootTime leave_until_ = absl::InfinitePast();  // end of the workers' grace period
  bool serves_others_ = false;
  bool said_why_it_stays_ = false;
  BootTime idle_since_ = absl::InfinitePast();
  std::optional<v1::Exit> exit_;
  BootTime exit_at_ = absl::InfinitePast();
  bool flushed_ = false;
  BootTime agent_gone_at_ = absl::InfinitePast();
  bool finished_ = false;
  std::string trouble_;
};

using HostDriver = CoreDriver<HostCore, Effect>;

}  // namespace muster::host
