// The host core: every decision about one node's worker processes. What starts, what is stopped and how, when the
// lease ends, when an agent is replaced, and with which code the host exits.
//
// Pure: an event and the time in, effects out, to be carried out in the order given. It does no I/O, reads no
// clock and starts nothing itself. Lives on the host's loop thread. host_core.cc: the agent and the round;
// stopping.cc: the ladder, the lease, signals and the end; leaving.cc: a leave that no signal asked for;
// preparing.cc: whether this node is fit for a round.
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
#include "base/note.h"
#include "base/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr absl::Duration kTick = absl::Milliseconds(100);  // OnTick is called at least this often
inline constexpr absl::Duration kMaxCountedSilence =
    absl::Milliseconds(250);                                           // of one tick: a pause accuses nobody
inline constexpr absl::Duration kStartLimit = absl::Seconds(60);       // spawn to the last exec
inline constexpr absl::Duration kStuckAfterKill = absl::Seconds(10);   // SIGKILL to "cannot be ended"
inline constexpr absl::Duration kSayFinishing = absl::Seconds(1);      // a wrapper's end to "its training goes on"
inline constexpr absl::Duration kLeaveReportLimit = absl::Seconds(1);  // a leaving host waits for its coordinator
inline constexpr absl::Duration kOneSignal =
    absl::Milliseconds(200);  // what comes within it is one wish, told twice
inline constexpr absl::Duration kAgentRestartWindow = absl::Seconds(10);
// Of an agent that the host waits for where there is no lease.
inline constexpr absl::Duration kLoneAgentSilence = absl::Seconds(10);
inline constexpr absl::Duration kAgentRetry = absl::Seconds(3);   // where the machine gives no process for one
inline constexpr absl::Duration kOfferRetry = absl::Seconds(5);   // where no port could be kept for the workers
inline constexpr absl::Duration kBeat = absl::Milliseconds(500);  // of statuses to the agent
inline constexpr size_t kMaxErrorText = 4096;                     // bytes of each of a failure's texts that travel
inline constexpr size_t kMaxBriefText = 256;                      // of a failure that is not the first
inline constexpr int kMaxOtherFailures = 8;                       // of one node that travel; more are counted
inline constexpr absl::Duration kUsageErrorWithin = absl::Minutes(1);  // of a start: exit code 2 is argparse's
inline constexpr absl::Duration kLeastGrace = absl::Seconds(1);        // of a node that stops by its deadline
inline constexpr absl::Duration kDeadlineReserve = absl::Seconds(1);   // of its workers' end before that deadline
// A round is not begun when less than this, or than --stop-before, is left until then.
inline constexpr absl::Duration kMaxUselessRound = absl::Minutes(1);
inline constexpr absl::Duration kUnfitRetry = absl::Seconds(10);  // then twice that, each time
inline constexpr absl::Duration kMaxUnfitRetry = absl::Minutes(5);
inline constexpr absl::Duration kGpuPoll = absl::Milliseconds(200);  // between an answer and the next question
// Where pids cannot be compared: for any process to leave the GPUs.
inline constexpr absl::Duration kUnknownGpuUsers = absl::Seconds(5);
inline constexpr size_t kMaxUnfitText = 320;  // bytes of why this node is not fit
inline constexpr int kMaxGpuPidsNamed = 8;
inline constexpr int kMaxAgentRestarts = 5;  // the fifth within the window: a fault of ours
// An agent says nothing before it is configured: it starts, and may look up the primary's name for 2 s, which is
// as long as half of a short lease.
inline constexpr absl::Duration kFirstWordLimit = absl::Seconds(10);

// Effects.
struct StartAgent {
  uint64_t number = 0;
};                    // over a new link; an older link is closed first. Where that fails: OnAgentFailed
struct KillAgent {};  // SIGKILL, then close its link
struct SendStatus {
  v1::HostStatus status;
};  // to the present agent
struct SpawnWorkers {
  v1::Round round;
};  // every worker of this node; answers: OnExecuting, OnSpawnFailed
struct SignalWorkers {
  int signal = 0;
};  // to the process group of every worker alive
struct StopWorkers {
  int signal = 0;
};  // the same, as the first signal of a stop: see SparesRest
struct ForwardSignal {
  int signal = 0;
};                // to every process of the workers' sessions that handles it
struct Sweep {};  // SIGKILL all groups and everything re-parented; answer: OnSwept
struct SetKernelTimer {
  std::optional<BootTime> at;
};                         // SIGKILL to the host itself; nullopt: disarm
struct RenewOffer {};      // drop the kept master port and keep another; answer: OnOffer
struct StartPreflight {};  // the shell line; answer: OnPreflightEnded
struct AskGpus {};         // which processes hold GPUs; answer: OnGpuUsers
struct StopSelf {};        // raise SIGSTOP: Ctrl-Z where no lease forbids it
struct Finish {            // flush the output and exit
  int exit_code = 0;
  int signal = 0;      // not 0: end by this signal rather than exit with the code
  std::string origin;  // "worker" or "muster"
  std::string reason;
  std::optional<v1::Verdict> verdict;
  v1::Round last;               // the greatest round this node was told of
  bool asked_to_leave = false;  // somebody waits for this host's end, and may have a limit
};
using Effect =
    std::variant<StartAgent, KillAgent, SendStatus, SpawnWorkers, SignalWorkers, StopWorkers, ForwardSignal, Sweep,
                 SetKernelTimer, RenewOffer, StartPreflight, AskGpus, StopSelf, Finish, Note>;
using Effects = std::vector<Effect>;

// How a worker ended, as waitid said it.
struct Ending {
  bool by_signal = false;
  int number = 0;  // exit code or signal
  bool core_dumped = false;
  bool oom_killed = false;
  // What the worker, or we, say of it; each UTF-8 and at most kMaxErrorText.
  std::string error_text = "";
  std::string callstack = "";
  std::string error_file = "";                 // its path; empty: none, or it is not kept
  std::optional<int64_t> failed_at_s = {};     // by its own word: wall clock, cut to a whole second
  std::optional<absl::Time> reported_at = {};  // wall clock, when it had written that down
  // Others of its session are finishing in their own time and were spared: OnRestEnded follows, or a sweep.
  bool rest_lives = false;

  bool ok() const { return !by_signal && number == 0; }
};

// --stop-before: the node leaves so long before its time is over.
struct StopBefore {
  absl::Time deadline;  // wall clock
  absl::Duration before;
  std::string why;  // a sentence, for people
};

// Who holds this node's GPUs, as the driver's tool lists them.
struct GpuUsers {
  std::string trouble = "";            // not empty: it could not be asked
  std::set<int64_t> old_workers = {};  // pids of ours that have ended, and that nobody else has by now
  std::set<int64_t> others = {};
};

struct HostOptions {
  std::string host_id;
  int64_t host_pid = 0;
  v1::NodeConfig config;
  absl::Duration termination_grace = absl::Seconds(30);  // after a signal from outside
  std::set<int> leave_signals;  // --signals-to-handle: these mean leave, too, beside the usual four
  std::optional<StopBefore> stop_before;
  // The platform runs a job again that ends with this code: taken where the end is no fault of the training. 0:
  // none.
  int retryable_exit_code = 0;
  bool external_agent = false;    // sidecar form: the agent is somebody else's child, and is waited for
  std::string local_rank_option;  // that each worker gets by --pass-local-rank, as local-rank; empty: none
  absl::Duration preflight_timeout = absl::ZeroDuration();    // zero: there is no preflight
  absl::Duration gpu_release_timeout = absl::ZeroDuration();  // zero: GPUs are not looked at
  bool driver_pids = false;  // the driver's pids are ours: no PID namespace is between
};

std::string NameOf(int signal);  // "SIGTERM"

class HostCore {
 public:
  explicit HostCore(HostOptions options);

  // Before anything else: starts the first agent.
  void Begin(BootTime now, Effects* out);

  void OnTick(BootTime now, Effects* out);

  // The present agent's link. Messages of an agent that is not the newest are dropped.
  void OnDirective(BootTime now, const v1::HostDirective& directive, Effects* out);
  void OnAgentClosed(BootTime now, uint64_t agent_number, Effects* out);
  // It could not be started. Tried again, for the coordinator timeout at most.
  void OnAgentFailed(BootTime now, uint64_t agent_number, const std::string& why, Effects* out);

  // Answers to SpawnWorkers. OnSpawned once the processes exist; then for each worker either.
  void OnSpawned(BootTime now, const std::vector<v1::Worker>& workers, Effects* out);
  void OnExecuting(BootTime now, int local_rank, Effects* out);
  void OnSpawnFailed(BootTime now, int local_rank, int exit_code, const std::string& why, Effects* out);

  void OnExit(BootTime now, int local_rank, const Ending& ending, Effects* out);
  // Asked when a worker's first process has ended, before anything else of its session is killed. True: our stop
  // signal has ended that process, as it ends a shell that runs a script, so that it could not wait for its
  // children; those that handle the signal have the rest of the grace.
  bool SparesRest(const Ending& ending) const;
  // The spared processes of this worker have ended. Not told any more once a sweep was asked for, which ends them.
  void OnRestEnded(BootTime now, int local_rank, Effects* out);
  // What the wall clock would have said when the machine booted, by what both clocks say now: told before OnExit,
  // since the clock may have been set since OnWallClock.
  void SetWallAtBoot(absl::Time at);

  // The last lines that this worker wrote, where we hold them: told before OnSwept. Of one that is not the cause
  // of a failure: nothing.
  void OnLastOutput(int local_rank, const std::string& lines);
  // Local rank of the worker that made the present round fail.
  std::optional<int> failed_local_rank() const;

  void OnProgress(Effects* out);  // the progress file was touched in the present round

  // Answer to Sweep: left is empty when nothing of the round is alive, else says what cannot be ended (yet).
  void OnSwept(BootTime now, const std::string& left, Effects* out);

  void OnOffer(BootTime now, uint32_t port, Effects* out);  // 0: none could be kept

  // What the wall clock says, which may be set at any moment: told before each OnTick where there is a deadline.
  void OnWallClock(BootTime now, absl::Time wall, Effects* out);

  // Answer to StartPreflight; Sweep then ends what it has left.
  void OnPreflightEnded(BootTime now, const Ending& ending, Effects* out);
  void OnPreflightOutput(const std::string& last_line);                // told before OnSwept
  void OnGpuUsers(BootTime now, const GpuUsers& users, Effects* out);  // answer to AskGpus

  // Whether a shell could continue this process if it stopped: told before SIGTSTP.
  void SetShellCanContinue(bool can) { shell_can_continue_ = can; }

  // SIGTERM, SIGHUP, SIGQUIT: leave. SIGINT: cancel the job. SIGUSR1, SIGUSR2: passed to those processes of the
  // workers that handle them: the default action would end a shell around the training, or the training itself.
  // Either of them may be made to mean leave by the options.
  // SIGTSTP: StopSelf without a lease, or a note where no shell could continue us; the workers alone with a lease;
  // SIGCONT after it continues the workers.
  void OnSignal(BootTime now, int signal, Effects* out);

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
    kFinishing,  // its first process has ended, the spared rest of its session has not
    kEnded
  };
  struct WorkerEntry {
    int64_t pid = 0;
    uint64_t start_ticks = 0;
    WorkerState state = WorkerState::kSpawned;
    BootTime ended_at = absl::InfinitePast();  // its first process
    bool said_that_it_finishes = false;
  };
  static bool HasEnded(const WorkerEntry& worker) {  // its first process
    return worker.state == WorkerState::kFinishing || worker.state == WorkerState::kEnded;
  }

  // Between rounds: whether this node is fit for the next one.
  enum class Fitness {
    kUnknown,    // to be found out once the last round is over for the coordinator, too
    kGpus,       // old workers may hold them
    kPreflight,  // it runs
    kEnding,     // what it left is being ended
    kFit,
    kUnfit,  // until it is tried again
  };
  void Prepare(BootTime now, Effects* out);
  void WatchPreparing(BootTime now, Effects* out);
  bool RoundIsClosed() const;
  void GpusAreFree(BootTime now, Effects* out);
  void EndPreflight(BootTime now, Effects* out);
  void OnPreflightSwept(BootTime now, const std::string& left, Effects* out);
  std::string WhyPreflightFailed() const;
  void BecomeFit(BootTime now, Effects* out);
  void BecomeUnfit(BootTime now, const std::string& why, Effects* out);
  bool EndPreparing(BootTime now, Effects* out);  // true: nothing of it lives, or can be ended
  std::string Preparing() const;

  // Rounds.
  void MaybeStart(BootTime now, const v1::Round& round, Effects* out);
  void BeginStop(BootTime now, int signal, absl::Duration grace, v1::Outcome outcome, const std::string& cause,
                 Effects* out);
  void Fail(BootTime now, int local_rank, const Ending& ending, int64_t pid, Effects* out);
  void FailToo(BootTime now, int local_rank, const Ending& ending, int64_t pid);
  void FailLate(BootTime now, int local_rank, const Ending& ending, int64_t pid, Effects* out);
  v1::Failure MakeFailure(int local_rank, const Ending& ending, int64_t pid, BootTime at) const;
  BootTime FailedAt(BootTime now, const Ending& ending) const;
  NoteSubject FailedWorker() const;  // of failure_
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
  void GiveUp(BootTime now, const std::string& reason, Effects* out);  // a fault of ours, or of the machine
  void WatchAgent(BootTime now, absl::Duration counted, Effects* out);
  void WatchAgentOfLoneNode(BootTime now, absl::Duration counted, Effects* out);
  absl::Duration SilenceLimit() const;
  void ReplaceSilentAgent(BootTime now, Effects* out);

  // Leaving.
  void BeginLeave(BootTime now, int signal, const std::string& reason, absl::Duration grace, Effects* out);
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
  absl::Duration silence_;  // of the agent, in our own running time
  bool agent_has_spoken_ = false;
  std::deque<BootTime> agent_starts_;
  BootTime agent_retry_at_ = absl::InfiniteFuture();
  std::optional<BootTime> agents_fail_since_;  // none has spoken since then
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
  bool progressed_ = false;  // in the round started_
  std::optional<v1::Failure> failure_;
  BootTime failure_at_ = absl::InfinitePast();
  absl::Time wall_at_boot_ = absl::UnixEpoch();
  bool all_zero_ = true;   // every worker that has ended so far exited 0
  bool all_usage_ = true;  // ... exited 2 by itself, or was ended by our signal
  std::optional<Ladder> ladder_;
  int stop_signal_ = 0;                         // that began it
  BootTime stopped_at_ = absl::InfinitePast();  // when it began
  bool sweeping_ = false;
  BootTime swept_at_ = absl::InfinitePast();
  BootTime kill_since_ = absl::InfiniteFuture();  // when SIGKILL was first sent
  uint32_t offer_port_ = 0;
  BootTime offer_asked_at_ = absl::InfinitePast();

  // Between rounds.
  Fitness fitness_ = Fitness::kUnknown;
  std::string unfit_why_;  // not empty: it was not fit when it was tried last
  absl::Duration retry_pause_ = kUnfitRetry;
  BootTime retry_at_ = absl::InfiniteFuture();
  bool gpus_may_be_held_ = false;    // by workers of the last round
  bool gpus_were_silent_ = false;    // it was said that they cannot be asked
  std::set<int64_t> gpu_strangers_;  // outlasted kUnknownGpuUsers
  BootTime gpus_since_ = absl::InfinitePast();
  BootTime ask_gpus_at_ = absl::InfiniteFuture();  // infinite: an answer is awaited
  BootTime preflight_since_ = absl::InfinitePast();
  BootTime preflight_ending_since_ = absl::InfinitePast();
  std::optional<Ending> preflight_ending_;  // none: its time was over, or ours
  std::string preflight_last_line_;

  // The lease.
  absl::Duration lease_;
  BootTime lease_deadline_ = absl::InfinitePast();
  std::optional<BootTime> kernel_timer_;

  // The end.
  bool shell_can_continue_ = true;
  std::optional<v1::Leave> leave_;
  std::optional<BootTime> signalled_;          // when the first of the signals that mean leave came
  BootTime stop_at_ = absl::InfiniteFuture();  // --stop-before, by the latest word of the wall clock
  BootTime leave_at_ = absl::InfinitePast();
  BootTime leave_until_ = absl::InfinitePast();  // its workers have so long
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

}  // namespace muster::host
