// What the host core has its shell do. The shell carries effects out in the order in which they were appended.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/host/core/restart_history.h"
#include "base/core/note.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

// From the end of all processes of a round, or of a check, to the moment when what they wrote last is no
// longer waited for. It takes that long only if the console's reader is stalled or a file system hangs.
inline constexpr absl::Duration kLastOutputLimit = absl::Milliseconds(200);

// Starts an agent over a new link; an older link is closed first. On failure: OnAgentFailed. In a host that starts
// no agents: uses the link that came with OnAgentCame.
struct StartAgent {
  uint64_t number = 0;
};
// Sends SIGKILL to the agent, if the host has started it, then closes its link.
struct KillAgent {};
// Sends a status to the current agent.
struct SendStatus {
  v1::HostStatus status;
};
// Starts every worker of this node. Answers: OnSpawned, then OnExecuting or OnSpawnFailed for each worker.
struct SpawnWorkers {
  v1::Round round;
  bool forks = false;   // from the preloader, where it can; OnPreload then says whether it could
  bool learns = false;  // the first of them writes down which modules it imports: see ReadLearned
  absl::Duration head_start = absl::ZeroDuration();  // of rank 0, if they are forked
};
// Starts the Python that imports these modules, and from which workers can be forked then. Answer: OnPreload.
struct StartPreloader {
  std::vector<std::string> modules;
  bool learned =
      false;  // the modules are what a worker has imported: some may be no longer there, or the script's
};
// Reads what the worker of SpawnWorkers{.learns = true} has imported so far. Answer: OnPreload, if it is anything.
struct ReadLearned {};
// Keeps learned modules for the next job with this script.
struct KeepLearned {
  std::vector<std::string> modules;
};
// Ends it; no further OnPreload comes from it.
struct StopPreloader {};
// Signals the process group of every live worker.
struct SignalWorkers {
  int signal = 0;
};
// The first signal of a stop, to those processes that session_stop.h names; see SparesRest, too.
struct StopWorkers {
  int signal = 0;
};
// Half of the grace period is over: the same signal to the processes that were left out.
struct SignalRest {};
// Signals the topmost processes of the workers' sessions that handle the signal. Answer: OnForwarded.
struct ForwardSignal {
  int signal = 0;
};
// Signals these workers: their groups, or only the topmost processes of their sessions that handle the signal.
// Answer: OnRanksSignalled.
struct SignalRanks {
  int signal = 0;
  std::set<int> local_ranks;  // none: all
  bool only_handlers = true;
  std::string why;
};
// Ends a worker that does not go on: SIGABRT, at which Python writes its stacks where faulthandler is enabled, and
// kHungGrace later SIGKILL. It has failed by itself, for this reason.
inline constexpr absl::Duration kHungGrace = absl::Seconds(2);
struct EndHungWorker {
  int local_rank = 0;
  std::string why;
};
// Takes the stacks of this node's workers (base/stacks). Answer: OnSnapshot.
struct TakeSnapshot {
  int first_rank = 0;  // global rank of worker 0
  // Workers may be signalled: those that use NCCL write their flight recorders and answer with a line of output,
  // and those of --preload write stacks that py-spy does not show.
  bool with_recorders = true;
  std::optional<int> only = {};  // local rank: of this worker alone, with its last lines of output
};
// Writes the whole of a snapshot into the attempt's folder, if there is one.
struct KeepSnapshot {
  std::string text;
};
// Sends SIGKILL to all worker groups and to all orphans that became children of the host. Answer: OnSwept.
struct Sweep {};
// No process of the round is left: takes in what they wrote last. Waits until the progress file was checked and
// the output of this worker, the cause of a failure, was read to its end; at most for kLastOutputLimit. Answer:
// OnRoundOutput, after a report that the progress file was touched.
struct GatherRoundOutput {
  std::optional<int> local_rank;  // nullopt: no worker failed
};
// The same for the output of a check's command. Answer: OnCheckOutput.
struct GatherCheckOutput {};
// Sets the instant at which the kernel sends SIGKILL to the host itself; nullopt: disarms the timer.
struct SetKernelTimer {
  std::optional<BootTime> at;
};
// Reserves another master port and releases the previous one. Answer: OnOffer.
struct RenewOffer {};
// A shell command that must succeed before this node takes part in a round.
enum class Check {
  kSetup,      // --node-setup: once
  kPreflight,  // --preflight: before each round
};
// Starts the command of a check. Answer: OnCheckEnded.
struct StartCheck {
  Check check = Check::kPreflight;
};
// Asks which processes hold GPUs. Answer: OnGpuUsers.
struct AskGpus {};
// Raises SIGSTOP in the host, for Ctrl-Z without a lease.
struct StopSelf {};
// The command that runs on one node once the job is over.
enum class LastCommand {
  kNone,
  kOnSuccess,  // --on-success
  kOnFailure,  // --on-failure
};
// Flushes the output, runs the last command and exits.
struct Finish {
  int exit_code = 0;
  int signal = 0;      // not 0: end by this signal instead of exiting with the code
  std::string origin;  // "worker" or "muster"
  std::string reason;
  std::optional<v1::Verdict> verdict;
  v1::Round last;               // the latest round that this node knows
  bool asked_to_leave = false;  // whoever asked is waiting for this host to end, possibly with a time limit
  bool tells_all = true;        // of the verdict to people: see PrintsWholeReport
  LastCommand last_command = LastCommand::kNone;
  Restarts restarts = {};
  std::optional<v1::Failure> own_failure = {};  // of this node in its last round, if nobody has judged it
};
// Another request to end came after Finish: the host waits only briefly for the readers of its output.
struct HurryFinish {
  bool cancel = false;  // SIGINT: a last command that fails because of it has been cancelled
};
using Effect =
    std::variant<StartAgent, KillAgent, SendStatus, SpawnWorkers, StartPreloader, ReadLearned, KeepLearned,
                 StopPreloader, SignalWorkers, StopWorkers, SignalRest, ForwardSignal, SignalRanks, EndHungWorker,
                 TakeSnapshot, KeepSnapshot, Sweep, GatherRoundOutput, GatherCheckOutput, SetKernelTimer,
                 RenewOffer, StartCheck, AskGpus, StopSelf, Finish, HurryFinish, Note>;
using Effects = std::vector<Effect>;

}  // namespace muster::host
