#include "agent/host/worker_group.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include "agent/host/debugger.h"
#include "agent/host/process/leftovers.h"
#include "agent/host/process/taken_port.h"
#include "agent/host/watch/stack_dump.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/bounded_call.h"
#include "base/proc/dead_hosts.h"
#include "base/text/signal_name.h"
#include "base/text/text.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

int64_t Number(const v1::Round& round) { return static_cast<int64_t>(round.id().number()); }

}  // namespace

WorkerGroup::WorkerGroup(EventLoop* loop, Spawner* spawner, Preloader* preloader, const HostCore* core,
                         HostDriver* driver, const LaunchPlan* plan, const Marker& marker, Writer* writer)
    : loop_(loop),
      spawner_(spawner),
      preloader_(preloader),
      core_(core),
      driver_(driver),
      plan_(plan),
      marker_(marker),
      slots_(static_cast<int>(plan->argv.size())),
      output_(plan->output, slots_, plan->environment.role_name, writer),
      timer_pipe_(
          loop, [this](int local_rank, const std::string& what) { OnTimerExpired(local_rank, what); },
          [this](int local_rank) { KillWorker(local_rank); }),
      progress_(loop, plan->progress_file, [this] { driver_->Feed(&HostCore::OnProgress); }),
      activity_(
          loop,
          {.showed = [this](const std::set<int>& ranks) { driver_->Feed(&HostCore::OnSigns, ranks); },
           .stepped = [this](const std::vector<StepSeen>& seen) { driver_->Feed(&HostCore::OnSteps, seen); }}) {}

absl::Status WorkerGroup::Start() {
  null_.Reset(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_.valid()) return absl::ErrnoToStatus(errno, "opening /dev/null");
  OpenTimerPipe();
  if (plan_->watches_activity) RETURN_IF_ERROR(WithContext(activity_.Start(), "cannot watch for hangs"));
  return WithContext(progress_.Start(), "cannot watch the progress file");
}

void WorkerGroup::OpenTimerPipe() {
  const auto enabled = plan_->inherited.find("TORCHELASTIC_ENABLE_FILE_TIMER");
  if (enabled == plan_->inherited.end() || enabled->second != "1") return;
  const auto path = plan_->inherited.find("TORCHELASTIC_TIMER_FILE");
  const absl::Status open = timer_pipe_.Open(path == plan_->inherited.end() ? "" : path->second);
  if (plan_->debugged) timer_pipe_.Hold();
  if (open.ok()) return;
  Log(Severity::kWarning, kPart, "the workers run without a file timer: " + std::string(AsStd(open.message())));
}

// ---- spawning -----------------------------------------------------------------------------------------------

void WorkerGroup::Spawn(const SpawnWorkers& effect) {
  const v1::Round& round = effect.round;
  SetLogContext({.node = round.node_rank(), .round = Number(round)});
  const absl::Duration limit = CapByLease(kOpenLimit, kOpenLeaseFraction);
  const BootTime began = EventLoop::Now();
  output_.BeginRound(round, limit - limit / kErrorFilesFraction);
  failure_details_.BeginRound(CapByLease(kDetailsLimit, kDetailsLeaseFraction));
  KeepErrorFiles(std::max(limit - (EventLoop::Now() - began), limit / kErrorFilesFraction));
  if (plan_->watches_activity) recorders_.BeginRound(output_.Folder(), round.restart_count(), limit);
  WarnOfMissingReader(round);
  const std::optional<Undebuggable> undebuggable = PrepareDebugging(round);
  terminal_.Restore();
  timer_pipe_.BeginRound();
  progress_.BeginRound();
  oom_watch_.BeginRound();
  workers_.clear();
  without_input_.clear();
  listens_on_ = round.first_rank() == 0 ? static_cast<uint16_t>(round.master().port()) : 0;
  std::vector<Prepared> prepared;
  std::vector<std::pair<int, std::string>> failed;
  const auto fail = [&failed](int local_rank, const absl::Status& status) {
    failed.emplace_back(local_rank, AsStd(status.message()));
  };
  for (int local_rank = 0; local_rank < slots_; ++local_rank) {
    if (undebuggable && undebuggable->local_rank == local_rank) continue;
    auto worker = PrepareWorker(round, local_rank);
    if (worker.ok()) {
      prepared.push_back(*std::move(worker));
    } else {
      fail(local_rank, worker.status());
    }
  }
  if (effect.learns && !prepared.empty()) Learn(&prepared.front());
  const std::vector<absl::StatusOr<pid_t>> pids = StartAll(effect, &prepared);
  std::vector<v1::Worker> spawned;
  for (size_t i = 0; i < prepared.size(); ++i) {
    Started(prepared[i], pids[i]);
    if (!pids[i].ok()) {
      fail(prepared[i].local_rank, pids[i].status());
      continue;
    }
    v1::Worker worker;
    worker.set_local_rank(prepared[i].local_rank);
    worker.set_pid(*pids[i]);
    if (const auto process = ReadProcess(*pids[i])) worker.set_start_ticks(process->start);
    spawned.push_back(worker);
  }
  WatchActivity();
  driver_->Feed(&HostCore::OnSpawned, spawned);
  for (const auto& [local_rank, why] : failed) OnSpawnFailed(local_rank, kExitFault, why);
  if (undebuggable) OnSpawnFailed(undebuggable->local_rank, kExitUsage, undebuggable->why);
}

std::optional<Undebuggable> WorkerGroup::PrepareDebugging(const v1::Round& round) {
  debugged_here_.reset();
  if (!plan_->debugged) return std::nullopt;
  std::optional<Undebuggable> undebuggable = CheckDebugger(*plan_->debugged, round, slots_);
  if (undebuggable) return undebuggable;
  debugged_here_ = LocalRankOf(*plan_->debugged, round, slots_);
  Log(Severity::kInfo, kPart, DescribeDebugger(*plan_->debugged, round, slots_));
  return std::nullopt;
}

void WorkerGroup::WatchActivity() {
  if (!plan_->watches_activity) return;
  std::vector<ActivityWatch::Worker> workers;
  for (const auto& [local_rank, running] : workers_) {
    ActivityWatch::Worker worker = {
        .local_rank = local_rank, .pid = running.pid, .heartbeat = running.heartbeat_file};
    const std::array<WorkerOutput::Signs, 2> signs = output_.SignsOf(local_rank);
    for (const StepSource source : {StepSource::kOut, StepSource::kErr}) {
      const auto& [file, bytes, lines, on_terminal] = signs[static_cast<size_t>(source)];
      worker.streams.push_back({source, file, bytes, lines});
      worker.on_terminal |= on_terminal;
    }
    workers.push_back(std::move(worker));
  }
  activity_.BeginRound(std::move(workers), plan_->progress_file);
}

void WorkerGroup::KeepErrorFiles(absl::Duration limit) {
  if (!NeedsPrivateFiles()) return;
  const absl::Status kept = error_files_.BeginRound(slots_, limit);
  if (kept.ok()) return;
  Log(Severity::kWarning, kPart,
      "the workers run without an error file (TORCHELASTIC_ERROR_FILE) and a done file (MUSTER_DONE_FILE): " +
          std::string(AsStd(kept.message())));
}

// Checked here, because with several nodes the number of ranks is known only once there is a round.
void WorkerGroup::WarnOfMissingReader(const v1::Round& round) const {
  const StdinRule& rule = plan_->stdin_rule;
  if (rule.kind != StdinRule::kRank || rule.rank < round.world_size() || plan_->debugged) return;
  Log(Severity::kWarning, kPart,
      "--stdin " + std::to_string(rule.rank) + ": no worker gets standard input, because the world size is " +
          std::to_string(round.world_size()));
}

// A limit for blocking on a file system, capped by a fraction of the lease.
absl::Duration WorkerGroup::CapByLease(absl::Duration most, int part) const {
  return core_->leased() ? std::min(most, core_->lease() / part) : most;
}

// Whether the workers' error files and done files are private ones: there is no log folder for them.
bool WorkerGroup::NeedsPrivateFiles() const {
  return output_.AttemptFolder(0).empty() && !output_.forbids_files();
}

absl::StatusOr<WorkerGroup::Prepared> WorkerGroup::PrepareWorker(const v1::Round& round, int local_rank) {
  const int rank = round.first_rank() + local_rank;
  Prepared prepared;
  prepared.local_rank = local_rank;
  WorkerCommand& command = prepared.start.command;
  const bool is_debugged = debugged_here_ == local_rank;
  command.argv = (is_debugged ? plan_->debugged_argv : plan_->argv)[static_cast<size_t>(local_rank)];
  command.file = plan_->file;
  if (!plan_->cpus.empty()) command.cpus = plan_->cpus[static_cast<size_t>(local_rank)];
  WorkerEnvironmentOptions environment = plan_->environment;
  environment.marker = FormatMarker(marker_);
  environment.recorder = recorders_.Variables();
  environment.timer_file = timer_pipe_.path();
  const std::string folder = output_.AttemptFolder(local_rank);
  if (!folder.empty()) {
    environment.error_file = folder + "/error.json";
    environment.done_file = folder + "/done";
    environment.heartbeat_file = folder + "/heartbeat";
  } else if (NeedsPrivateFiles()) {
    environment.error_file = error_files_.PathOf(local_rank);
    environment.done_file = error_files_.DonePathOf(local_rank);
    environment.heartbeat_file = error_files_.HeartbeatPathOf(local_rank);
  }
  environment.files_are_forbidden = output_.forbids_files();
  if (!GetsStdin(plan_->stdin_rule, rank, slots_, HasKeyboard())) {
    command.stdin_fd = null_.get();
    without_input_.insert(local_rank);
    environment.keyboard_is_anothers = plan_->stdin_rule.kind == StdinRule::kRank;
  }
  command.environment = WorkerEnvironment(round, local_rank, environment, plan_->inherited);
  ASSIGN_OR_RETURN(const WorkerOutput::Descriptors output, output_.Open(local_rank));
  // pdb shows its prompt where its keyboard is, whatever becomes of the output of other workers.
  const bool is_on_terminal = is_debugged && !plan_->debugged->port && !plan_->output.prefix_all;
  if (!is_on_terminal) {
    command.stdout_fd = output.out;
    command.stderr_fd = output.err;
  }
  prepared.start.events = EventsOf(local_rank, rank);
  prepared.error_file = environment.error_file;
  prepared.done_file = environment.done_file;
  prepared.heartbeat_file = environment.heartbeat_file;
  prepared.keeps_files = !folder.empty();
  return prepared;
}

void WorkerGroup::Learn(Prepared* worker) {
  imports_file_ =
      worker->done_file.empty() ? "" : worker->done_file.substr(0, worker->done_file.rfind('/')) + "/imports";
  worker->start.learn_file = imports_file_;
}

// The worker that is debugged has another command line, so it starts normally.
std::vector<absl::StatusOr<pid_t>> WorkerGroup::StartAll(const SpawnWorkers& effect,
                                                         std::vector<Prepared>* prepared) {
  std::vector<absl::StatusOr<pid_t>> pids;
  if (const auto forked = effect.forks && !plan_->debugged ? Fork(effect, prepared) : std::nullopt) {
    pids.assign(forked->begin(), forked->end());
    return pids;
  }
  for (Prepared& worker : *prepared) {
    worker.stacks.reset();
    pids.push_back(spawner_->SpawnWorker(worker.start.command, worker.start.events));
  }
  return pids;
}

std::optional<std::vector<pid_t>> WorkerGroup::Fork(const SpawnWorkers& effect, std::vector<Prepared>* prepared) {
  std::vector<Preloader::Worker> workers;
  for (Prepared& worker : *prepared) {
    // Without it only a snapshot lacks something.
    if (auto file = MakeStacksFile(); file.ok()) worker.stacks = std::make_shared<OwnedFd>(*std::move(file));
    workers.push_back(worker.start);
    const bool is_rank_zero = effect.round.first_rank() + worker.local_rank == 0;
    if (!is_rank_zero) workers.back().delay = effect.head_start;
    workers.back().stacks_fd = worker.stacks ? worker.stacks->get() : null_.get();
  }
  PreloadNews news;
  const auto pids = preloader_->Fork(workers, CapByLease(kForkLimit, kForkLeaseFraction), &news);
  driver_->Feed(&HostCore::OnPreload, news);
  if (!pids.ok()) return std::nullopt;
  return *pids;
}

void WorkerGroup::Started(const Prepared& prepared, const absl::StatusOr<pid_t>& pid) {
  const int local_rank = prepared.local_rank;
  output_.Spawned(local_rank, pid.ok());
  auto [out, err] = output_.SignsOf(local_rank);
  failure_details_.Expect(local_rank, {.error_file = prepared.error_file,
                                       .done_file = prepared.done_file,
                                       .kept = prepared.keeps_files,
                                       .err = {std::move(err.file), std::move(err.lines)},
                                       .out = {std::move(out.file), std::move(out.lines)}});
  if (!pid.ok()) return;
  workers_[local_rank] = {.pid = *pid, .heartbeat_file = prepared.heartbeat_file, .stacks = prepared.stacks};
  timer_pipe_.WorkerStarted(local_rank, *pid);
}

// ---- what happens to workers --------------------------------------------------------------------------------

Spawner::WorkerEvents WorkerGroup::EventsOf(int local_rank, int rank) {
  Spawner::WorkerEvents events;
  events.executing = [this, local_rank] { driver_->Feed(&HostCore::OnExecuting, local_rank); };
  events.failed = [this, local_rank](int exit_code, const std::string& why) {
    OnSpawnFailed(local_rank, exit_code, why);
  };
  events.exited = [this, local_rank](const Ending& ending) { OnExit(local_rank, ending); };
  events.ends = [this, rank](pid_t pid, const Ending& ending) { SayWhatItLeaves(rank, pid, ending); };
  events.spares_rest = [this] { return core_->SparesRest(); };
  events.rest_ended = [this, local_rank] { driver_->Feed(&HostCore::OnRestEnded, local_rank); };
  return events;
}

void WorkerGroup::SayWhatItLeaves(int rank, pid_t pid, const Ending& ending) const {
  if (!ending.ok() || core_->stopping()) return;
  const std::string left = LeftBehind(pid);
  if (left.empty()) return;
  Log(Severity::kWarning, kPart,
      "worker rank " + std::to_string(rank) + " (pid " + std::to_string(pid) +
          ") exited with code 0 while processes that it had started still ran; ended with it: " + left +
          "; if they were the training, let the program wait for them (in a shell script: wait)",
      {.rank = rank});
}

void WorkerGroup::OnSpawnFailed(int local_rank, int exit_code, const std::string& why) {
  driver_->Feed(&HostCore::OnSpawnFailed, local_rank, exit_code, CutUtf8(OneLine(why), kMaxErrorText));
}

void WorkerGroup::OnExit(int local_rank, Ending ending) {
  if (ending.by_signal && ending.number == SIGKILL) ending.oom_killed = oom_watch_.WasOomKilled(local_rank);
  const auto worker = workers_.find(local_rank);
  if (worker != workers_.end() && ending.by_signal && worker->second.ordered.Explains(ending.number))
    failure_details_.AddReason(local_rank, worker->second.ordered.why);
  if (!ending.ok()) failure_details_.Explain(local_rank, &ending);
  ending.without_input = without_input_.contains(local_rank);
  ending.output_is_unseen = output_.SignsOf(local_rank)[1].on_terminal;
  timer_pipe_.WorkerEnded(local_rank);
  const bool may_be_echo = !ending.ok() && (!ending.by_signal || ending.number == SIGABRT);
  if (may_be_echo && local_rank == 0 && listens_on_ != 0 && !core_->stopping())
    ending.port_taken_by = WhoTook(listens_on_);
  ReportExit(local_rank, std::move(ending),
             EventLoop::Now() + (may_be_echo ? kLastWordsLimit : absl::ZeroDuration()));
}

// Another thread reads the worker's pipe. A process that the worker has left may hold it open.
void WorkerGroup::ReportExit(int local_rank, Ending ending, BootTime until) {
  if (EventLoop::Now() < until && !failure_details_.HasHeardOut(local_rank)) {
    loop_->After(kLastOutputPoll,
                 [this, local_rank, ending = std::move(ending), until] { ReportExit(local_rank, ending, until); });
    return;
  }
  if (!ending.ok()) failure_details_.AddLastWords(local_rank, &ending);
  ending.wall = absl::Now();
  driver_->Feed(&HostCore::OnExit, local_rank, ending);
}

void WorkerGroup::OnTimerExpired(int local_rank, const std::string& what) {
  Log(Severity::kWarning, kPart, "worker with local rank " + std::to_string(local_rank) + ": " + what);
  failure_details_.AddReason(local_rank, what);
  oom_watch_.WeKill(local_rank);
}

void WorkerGroup::EndHung(int local_rank, const std::string& why) {
  const auto worker = workers_.find(local_rank);
  if (worker == workers_.end()) return;
  failure_details_.AddReason(local_rank, why);
  spawner_->Kill(worker->second.pid, SIGABRT);
  loop_->After(kHungGrace, [this, local_rank, pid = worker->second.pid] {
    const auto still = workers_.find(local_rank);
    if (still != workers_.end() && still->second.pid == pid) KillWorker(local_rank);
  });
}

void WorkerGroup::KeepSnapshot(const std::string& text) {
  const std::string path = output_.SnapshotPath();
  if (path.empty()) return;
  // On a thread of its own: the file system may not answer.
  const auto written = CallAside([path, text] { return (std::ofstream(path, std::ios::app) << text).good(); });
  if (written) Log(Severity::kInfo, kPart, "all stacks of this node's workers are in " + path);
}

void WorkerGroup::KillWorker(int local_rank) {
  const auto worker = workers_.find(local_rank);
  if (worker == workers_.end()) return;
  oom_watch_.WeKill(local_rank);
  spawner_->Kill(worker->second.pid, SIGKILL);
}

// ---- stopping -----------------------------------------------------------------------------------------------

void WorkerGroup::Signal(int signal) {
  if (signal == SIGKILL) oom_watch_.WeKillAll();
  spawner_->SignalWorkers(signal);
}

void WorkerGroup::Stop(int signal) {
  if (signal == SIGKILL) oom_watch_.WeKillAll();
  spawner_->StopWorkers(signal);
}

void WorkerGroup::Forward(int signal) {
  const int processes = spawner_->ForwardSignal(signal);
  driver_->Feed(&HostCore::OnForwarded, signal, processes);
}

void WorkerGroup::SignalRanks(const host::SignalRanks& effect) {
  std::set<pid_t> leaders;
  for (auto& [local_rank, worker] : workers_) {
    if (!effect.local_ranks.empty() && effect.local_ranks.count(local_rank) == 0) continue;
    leaders.insert(worker.pid);
    if (!effect.only_handlers) worker.ordered = {effect.signal, effect.why, EventLoop::Now()};
    if (effect.signal == SIGKILL) oom_watch_.WeKill(local_rank);
  }
  const int processes = effect.only_handlers ? spawner_->ForwardSignal(effect.signal, leaders)
                                             : spawner_->SignalGroups(effect.signal, leaders);
  driver_->Feed(&HostCore::OnRanksSignalled, effect, processes);
}

void WorkerGroup::BeforeSweep() {
  spawner_->CollectWorkers();
  oom_watch_.WeKillAll();
}

std::optional<bool> WorkerGroup::IsAncestorOf(const ProcessInfo& child) const {
  if (IsInWorkersSession(child)) return true;
  return BearsMarkerOf(marker_.host_id, child);
}

// A process cannot join an existing session, and a session's number is not reused while it has members. So a
// member of a worker's session belongs to the worker even without the marker, unless a process that is not the
// worker leads the session: then the number of an ended worker was reused.
bool WorkerGroup::IsInWorkersSession(const ProcessInfo& child) const {
  const bool is_workers = std::any_of(workers_.begin(), workers_.end(),
                                      [&](const auto& worker) { return worker.second.pid == child.session; });
  return is_workers && (spawner_->Knows(child.session) || !IsThere(child.session));
}

std::set<pid_t> WorkerGroup::Pids() const {
  std::set<pid_t> pids;
  for (const auto& [local_rank, worker] : workers_) pids.insert(worker.pid);
  return pids;
}

std::vector<SnapshotTaker::Subject> WorkerGroup::Subjects(const TakeSnapshot& snapshot) const {
  std::vector<SnapshotTaker::Subject> subjects;
  for (const auto& [local_rank, worker] : workers_) {
    if (snapshot.only.value_or(local_rank) != local_rank) continue;
    const int rank = snapshot.first_rank + local_rank;
    SnapshotTaker::Subject& subject = subjects.emplace_back();
    subject.rank = rank;
    subject.worker = worker.pid;
    if (snapshot.with_recorders) subject.recorder = recorders_.PathsOf(rank);
    if (snapshot.with_recorders) subject.stacks = worker.stacks;
    if (snapshot.only) subject.last_output = failure_details_.OutputNow(local_rank);
  }
  return subjects;
}

void WorkerGroup::GatherOutput(std::optional<int> local_rank) {
  if (plan_->watches_activity) activity_.EndRound();
  output_.EndRound();
  progress_.Look();
  if (local_rank) failure_details_.BeginLastOutput(*local_rank);
  AwaitOutput(local_rank, EventLoop::Now() + kLastOutputLimit);
}

// Waits for two other threads: one reads the worker's pipe or file, the other checks the progress file.
void WorkerGroup::AwaitOutput(std::optional<int> local_rank, BootTime until) {
  const bool complete = (!local_rank || failure_details_.Complete(*local_rank)) && progress_.looked();
  if (!complete && EventLoop::Now() < until) {
    loop_->After(kLastOutputPoll, [this, local_rank, until] { AwaitOutput(local_rank, until); });
    return;
  }
  // Posted: queued behind a report that the progress file was touched.
  loop_->Post([this, lines = local_rank ? failure_details_.LastOutput(*local_rank) : ""] {
    driver_->Feed(&HostCore::OnRoundOutput, lines);
  });
}

}  // namespace muster::host
