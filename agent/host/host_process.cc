#include "agent/host/host_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "agent/host/agent_child.h"
#include "agent/host/closing.h"
#include "agent/host/kernel_timer.h"
#include "agent/host/output/worker_output.h"
#include "agent/host/port_keeper.h"
#include "agent/host/preflight.h"
#include "agent/host/process/spawner.h"
#include "agent/host/process/sweeper.h"
#include "agent/host/report/error_file.h"
#include "agent/host/report/last_words.h"
#include "agent/host/watch/file_timer_pipe.h"
#include "agent/host/watch/gpu_watch.h"
#include "agent/host/watch/oom_watch.h"
#include "agent/host/watch/progress_watch.h"
#include "base/check.h"
#include "base/console/log.h"
#include "base/io/event_loop.h"
#include "base/proc/environ_reader.h"
#include "base/proc/keyboard.h"
#include "base/proc/marked.h"
#include "base/proc/shell_job.h"
#include "base/signal_name.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
// Maximum numbers of open descriptors while a node starts.
// Of the host: loop, signals, output, follower, /dev/null, port, agent, preflight, /proc, a lock.
constexpr int kHostDescriptors = 25;
constexpr int kWorkerDescriptors = 2;       // pidfd, status pipe
constexpr int kPipedWorkerDescriptors = 6;  // the same, and both ends of two pipes or files
constexpr int kAgentDescriptors = 32;       // of an agent with gRPC, which inherits the host's limits
// Between two looks at what other threads read.
constexpr absl::Duration kLastOutputPoll = absl::Milliseconds(2);
constexpr int kHandledSignals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};

}  // namespace

bool GetsStdin(const StdinRule& rule, int rank, int slots, bool keyboard) {
  switch (rule.kind) {
    case StdinRule::kDefault:
      return slots == 1 || keyboard;
    case StdinRule::kAll:
      return true;
    case StdinRule::kNone:
      return false;
    case StdinRule::kRank:
      return rank == rule.rank;
  }
  return false;
}

JobEnd AboutThisNode(const v1::NodeConfig& config, const std::string& program) {
  JobEnd end;
  end.program = program;
  end.host = config.hostname();
  if (config.has_place()) end.place = config.place();
  end.run_id = config.run_id();
  end.version = config.version();
  end.started = absl::Now();
  end.zone = absl::LocalTimeZone();
  return end;
}

namespace {

class HostProcess {
 public:
  HostProcess(HostOptions options, LaunchPlan plan, Writer* writer)
      : slots_(options.config.slots()),
        leave_signals_(options.leave_signals),
        plan_(std::move(plan)),
        writer_(writer),
        marker_(OwnMarker(options.host_id, options.config.run_id(), options.config.boot_id(),
                          options.config.pid_namespace())),
        about_(AboutThisNode(options.config, plan_.program)),
        core_(std::move(options)),
        output_(plan_.output, slots_, plan_.environment.role_name, writer_),
        closing_(&loop_, &output_, writer_, [this] { loop_.Stop(); }),
        spawner_(&loop_, plan_.process),
        sweeper_(
            &loop_, &spawner_,
            [this](const std::string& left) { driver_.Feed(&HostCore::OnSwept, ToUtf8(left, kMaxErrorText)); },
            EndDescendants, [this](const ProcessInfo& child) { return ComesFromWorker(child); }),
        agent_(&loop_, &spawner_, plan_.agent_arguments, plan_.inherited, AgentEvents()),
        preflight_(&spawner_, writer_, plan_.preflight),
        gpus_(&loop_, &spawner_, Marked(plan_.inherited),
              [this](const GpuUsers& users) { driver_.Feed(&HostCore::OnGpuUsers, users); }),
        port_keeper_(plan_.worker_ports),
        timer_pipe_(
            &loop_, [this](int local_rank, const std::string& what) { OnTimerExpired(local_rank, what); },
            [this](int local_rank) { KillWorker(local_rank); }),
        progress_(&loop_, plan_.progress_file, [this] { driver_.Feed(&HostCore::OnProgress); }) {}

  ~HostProcess() {
    if (signal_fd_ >= 0) close(signal_fd_);
    if (null_fd_ >= 0) close(null_fd_);
  }

  absl::StatusOr<HostEnd> Run() {
    RETURN_IF_ERROR(loop_.status());
    RETURN_IF_ERROR(sweeper_.status());
    RETURN_IF_ERROR(WatchSignals());
    null_fd_ = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd_ < 0) return absl::ErrnoToStatus(errno, "opening /dev/null");
    if (plan_.ends_orphans) EndPredecessorsOrphans();
    if (plan_.before_start) plan_.before_start();
    OpenTimerPipe();
    RETURN_IF_ERROR(WithContext(progress_.Start(), "cannot watch the progress file"));
    driver_.Feed(&HostCore::Begin);
    driver_.Feed(&HostCore::OnWallClock, absl::Now());
    RETURN_IF_ERROR(first_agent_);
    ScheduleTick();
    loop_.Run();
    return end_;
  }

 private:
  // Whether a child that this process did not start descends from a worker. nullopt: not known now.
  std::optional<bool> ComesFromWorker(const ProcessInfo& child) const {
    if (IsInWorkersSession(child)) return true;
    return BearsMarkerOf(marker_.host_id, child);
  }

  // A process cannot join an existing session, and a session's number is not reused while it has members. So a
  // member of a worker's session belongs to the worker even without the marker, unless a process that is not the
  // worker leads the session: then the number of an ended worker was reused.
  bool IsInWorkersSession(const ProcessInfo& child) const {
    const bool is_workers = std::any_of(worker_pids_.begin(), worker_pids_.end(),
                                        [&](const auto& worker) { return worker.second == child.session; });
    return is_workers && (spawner_.Knows(child.session) || !IsThere(child.session));
  }

  // Runs before there is an agent or a worker, so it may block.
  void EndPredecessorsOrphans() {
    const OrphanReport report = EndOrphans(marker_);
    if (!report.ended.empty()) {
      std::string names;
      for (const std::string& name : report.ended) names += (names.empty() ? "" : ", ") + name;
      Log(Severity::kWarning, kPart,
          "killed " + std::to_string(report.ended.size()) +
              " processes left by a dead muster of this run: " + ToUtf8(names, kMaxErrorText));
    }
    if (!report.left.empty()) {
      Log(Severity::kError, kPart,
          "processes left by a dead muster of this run could not be killed: " +
              ToUtf8(report.left, kMaxErrorText));
    }
    if (!report.unseen.empty()) {
      Log(Severity::kWarning, kPart,
          "a dead muster of this run may have left processes that cannot be inspected: " +
              ToUtf8(report.unseen, kMaxErrorText));
    }
  }

  void ScheduleTick() {
    loop_.After(kTick, [this] {
      // After a pause of this process, worker exits and the tick are pending at once. Workers that have ended by
      // now ended before the tick may end the lease.
      spawner_.CollectWorkers();
      driver_.Feed(&HostCore::OnWallClock, absl::Now());
      driver_.Feed(&HostCore::OnTick);
      ScheduleTick();
    });
  }

  // ---- signals ----

  absl::Status WatchSignals() {
    sigset_t handled;
    sigemptyset(&handled);
    for (int signal : kHandledSignals) {
      if (sigismember(&plan_.process.ignored, signal) != 1) sigaddset(&handled, signal);
    }
    for (int signal : leave_signals_) sigaddset(&handled, signal);
    signal_fd_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd_ < 0) return absl::ErrnoToStatus(errno, "making a descriptor for signals");
    loop_.Watch(signal_fd_, EPOLLIN, [this](uint32_t) { ReadSignals(); });
    return absl::OkStatus();
  }

  void ReadSignals() {
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        sweeper_.OnChildSignal();
        continue;
      }
      spawner_.CollectWorkers();  // workers that have ended by now were not ended by this signal
      if (signal == SIGTSTP) {
        driver_.Feed(&HostCore::OnSuspend, ShellCanContinue());
      } else {
        driver_.Feed(&HostCore::OnSignal, signal);
      }
    }
  }

  // ---- the agent ----

  AgentChild::Events AgentEvents() {
    AgentChild::Events events;
    events.on_directive = [this](const v1::HostDirective& directive) {
      spawner_.CollectWorkers();  // workers that have ended by now were not ended by this order
      driver_.Feed(&HostCore::OnDirective, directive);
    };
    events.on_closed = [this](uint64_t number) { driver_.Feed(&HostCore::OnAgentClosed, number); };
    events.on_failed = [this](uint64_t number, const absl::Status& status) {
      if (number == 1) {  // no workers run yet, so the host fails at once
        first_agent_ = WithContext(status, "cannot start the first agent");
        return;
      }
      const std::string why(AsStd(status.message()));
      driver_.Feed(&HostCore::OnAgentFailed, number, why);
    };
    return events;
  }

  void Apply(const StartAgent& effect) { agent_.Start(effect.number); }
  void Apply(const KillAgent&) { agent_.Close(); }
  void Apply(const SendStatus& effect) { agent_.Send(effect.status); }

  // ---- workers ----

  void Apply(const SpawnWorkers& effect) {
    const v1::Round& round = effect.round;
    std::vector<v1::Worker> spawned;
    std::vector<std::pair<int, std::string>> failed;
    SetLogContext({.node = round.node_rank(), .round = Number(round)});
    const absl::Duration limit = CapByLease(kOpenLimit, kOpenLeaseFraction);
    const BootTime began = EventLoop::Now();
    output_.BeginRound(round, limit - limit / kErrorFilesFraction);
    failure_details_.BeginRound(CapByLease(kDetailsLimit, kDetailsLeaseFraction));
    if (KeepsErrorFiles()) {
      const absl::Duration left = limit - (EventLoop::Now() - began);
      const absl::Status kept = error_files_.BeginRound(slots_, std::max(left, limit / kErrorFilesFraction));
      if (!kept.ok()) {
        Log(Severity::kWarning, kPart,
            "the workers run without an error file (TORCHELASTIC_ERROR_FILE): " +
                std::string(AsStd(kept.message())));
      }
    }
    WarnOfMissingReader(round);
    terminal_.Restore();
    timer_pipe_.BeginRound();
    progress_.BeginRound();
    oom_watch_.BeginRound();
    worker_pids_.clear();
    for (int local_rank = 0; local_rank < slots_; ++local_rank) {
      const auto pid = SpawnWorker(round, local_rank);
      if (!pid.ok()) {
        failed.emplace_back(local_rank, AsStd(pid.status().message()));
        continue;
      }
      v1::Worker worker;
      worker.set_local_rank(local_rank);
      worker.set_pid(*pid);
      if (const auto process = ReadProcess(*pid)) worker.set_start_ticks(process->start);
      spawned.push_back(worker);
    }
    driver_.Feed(&HostCore::OnSpawned, spawned);
    for (const auto& [local_rank, why] : failed) OnSpawnFailed(local_rank, kSpawnRefused, why);
  }

  // Checked here, because with several nodes the number of ranks is known only once there is a round.
  void WarnOfMissingReader(const v1::Round& round) const {
    const StdinRule& rule = plan_.stdin_rule;
    if (rule.kind != StdinRule::kRank || rule.rank < round.world_size()) return;
    Log(Severity::kWarning, kPart,
        "--stdin " + std::to_string(rule.rank) + ": no worker gets standard input, because the world size is " +
            std::to_string(round.world_size()));
  }

  // A limit for blocking on a file system, capped by a fraction of the lease.
  absl::Duration CapByLease(absl::Duration most, int part) const {
    return core_.leased() ? std::min(most, core_.lease() / part) : most;
  }

  // Whether private error files are needed: the workers have no log folder and the user named no error file.
  bool KeepsErrorFiles() const {
    return output_.AttemptFolder(0).empty() && plan_.environment.error_file.empty() && !output_.forbids_files();
  }

  absl::StatusOr<pid_t> SpawnWorker(const v1::Round& round, int local_rank) {
    const int rank = round.first_rank() + local_rank;
    WorkerCommand command;
    command.argv = plan_.argv[static_cast<size_t>(local_rank)];
    command.file = plan_.file;
    if (!plan_.cpus.empty()) command.cpus = plan_.cpus[static_cast<size_t>(local_rank)];
    WorkerEnvironmentOptions environment = plan_.environment;
    environment.marker = FormatMarker(marker_);
    environment.timer_file = timer_pipe_.path();
    const std::string folder = output_.AttemptFolder(local_rank);
    if (!folder.empty()) {
      environment.error_file = folder + "/error.json";
    } else if (KeepsErrorFiles()) {
      environment.error_file = error_files_.PathOf(local_rank);
    }
    command.environment = WorkerEnvironment(round, local_rank, environment, plan_.inherited);
    if (output_.forbids_files()) command.environment["TORCHELASTIC_ERROR_FILE"] = "";  // as in torchrun
    if (!GetsStdin(plan_.stdin_rule, rank, slots_, HasKeyboard())) command.stdin_fd = null_fd_;
    ASSIGN_OR_RETURN(const WorkerOutput::Descriptors output, output_.Open(local_rank));
    command.stdout_fd = output.out;
    command.stderr_fd = output.err;
    auto pid = spawner_.SpawnWorker(command, EventsOf(local_rank));
    output_.Spawned(local_rank, pid.ok());
    failure_details_.Expect(local_rank, {.error_file = environment.error_file,
                                         .kept = !folder.empty(),
                                         .stderr_file = output_.ErrorOutput(local_rank),
                                         .tail = output_.ErrorTail(local_rank)});
    if (pid.ok()) {
      worker_pids_[local_rank] = *pid;
      timer_pipe_.WorkerStarted(local_rank, *pid);
    }
    return pid;
  }

  Spawner::WorkerEvents EventsOf(int local_rank) {
    Spawner::WorkerEvents events;
    events.executing = [this, local_rank] { driver_.Feed(&HostCore::OnExecuting, local_rank); };
    events.failed = [this, local_rank](int exit_code, const std::string& why) {
      OnSpawnFailed(local_rank, exit_code, why);
    };
    events.exited = [this, local_rank](const Ending& ending) { OnExit(local_rank, ending); };
    events.spares_rest = [this](const Ending& ending) { return core_.SparesRest(ending); };
    events.rest_ended = [this, local_rank] { driver_.Feed(&HostCore::OnRestEnded, local_rank); };
    return events;
  }

  void OnSpawnFailed(int local_rank, int exit_code, const std::string& why) {
    const std::string text = ToUtf8(why, kMaxErrorText);
    driver_.Feed(&HostCore::OnSpawnFailed, local_rank, exit_code, text);
  }

  void OnExit(int local_rank, Ending ending) {
    if (ending.by_signal && ending.number == SIGKILL) ending.oom_killed = oom_watch_.WasOomKilled(local_rank);
    if (!ending.ok()) failure_details_.Explain(local_rank, &ending);
    timer_pipe_.WorkerEnded(local_rank);
    ending.wall = absl::Now();
    driver_.Feed(&HostCore::OnExit, local_rank, ending);
  }

  void Apply(const SignalWorkers& effect) {
    if (effect.signal == SIGKILL) oom_watch_.WeKillAll();
    spawner_.SignalWorkers(effect.signal);
  }
  void Apply(const StopWorkers& effect) {
    if (effect.signal == SIGKILL) oom_watch_.WeKillAll();
    spawner_.StopWorkers(effect.signal);
  }
  void Apply(const ForwardSignal& effect) {
    const int count = spawner_.ForwardSignal(effect.signal);
    if (count > 0) return;
    Log(Severity::kWarning, kPart,
        DescribeSignal(effect.signal) + " was not forwarded: no worker process handles it");
  }
  void Apply(const Sweep&) {
    spawner_.CollectWorkers();  // workers that have ended by now were not killed by the sweep
    oom_watch_.WeKillAll();
    sweeper_.Sweep();
  }

  void Apply(const GatherRoundOutput& effect) {
    RememberOldWorkers();
    output_.EndRound();
    progress_.Look();
    AwaitRoundOutput(effect.local_rank, EventLoop::Now() + kLastOutputLimit);
  }

  // Waits for two other threads: one reads the worker's pipe, the other checks the progress file.
  void AwaitRoundOutput(std::optional<int> local_rank, BootTime until) {
    const bool complete = (!local_rank || failure_details_.Complete(*local_rank)) && progress_.looked();
    if (!complete && EventLoop::Now() < until) {
      loop_.After(kLastOutputPoll, [this, local_rank, until] { AwaitRoundOutput(local_rank, until); });
      return;
    }
    // Posted: queued behind a report that the progress file was touched.
    loop_.Post([this, lines = local_rank ? failure_details_.LastOutput(*local_rank) : ""] {
      driver_.Feed(&HostCore::OnRoundOutput, lines);
    });
  }

  // ---- between rounds ----

  EnvironmentMap Marked(EnvironmentMap environment) const {
    environment[kMarkerVariable] = FormatMarker(marker_);
    return environment;
  }

  void Apply(const StartPreflight&) {
    WorkerEnvironmentOptions environment = plan_.environment;
    environment.marker = FormatMarker(marker_);
    const auto ended = [this](const Ending& ending) { driver_.Feed(&HostCore::OnPreflightEnded, ending); };
    const absl::Status started =
        preflight_.Start(PreflightEnvironment(environment, about_.place, plan_.inherited), ended);
    if (!started.ok()) ended(Ending{.number = kSpawnRefused, .error_text = std::string(AsStd(started.message()))});
  }

  void Apply(const GatherPreflightOutput&) { AwaitPreflightOutput(EventLoop::Now() + kLastOutputLimit); }

  // The writer's thread may not have read its last line yet.
  void AwaitPreflightOutput(BootTime until) {
    if (!preflight_.complete() && EventLoop::Now() < until) {
      loop_.After(kLastOutputPoll, [this, until] { AwaitPreflightOutput(until); });
      return;
    }
    driver_.Feed(&HostCore::OnPreflightOutput, preflight_.LastLine());
  }

  void Apply(const AskGpus&) { gpus_.Ask(); }

  void RememberOldWorkers() {
    std::set<pid_t> pids = sweeper_.ended();
    pids.merge(spawner_.TakeSpared());
    for (const auto& [local_rank, pid] : worker_pids_) pids.insert(pid);
    gpus_.SetOldWorkers(std::move(pids));
  }

  // ---- the file timer ----

  void OpenTimerPipe() {
    const auto enabled = plan_.inherited.find("TORCHELASTIC_ENABLE_FILE_TIMER");
    if (enabled == plan_.inherited.end() || enabled->second != "1") return;
    const auto path = plan_.inherited.find("TORCHELASTIC_TIMER_FILE");
    const absl::Status open = timer_pipe_.Open(path == plan_.inherited.end() ? "" : path->second);
    if (open.ok()) return;
    Log(Severity::kWarning, kPart, "the workers run without a file timer: " + std::string(AsStd(open.message())));
  }

  void OnTimerExpired(int local_rank, const std::string& what) {
    Log(Severity::kWarning, kPart, "worker with local rank " + std::to_string(local_rank) + ": " + what);
    failure_details_.AddReason(local_rank, what);
    oom_watch_.WeKill(local_rank);
  }

  void KillWorker(int local_rank) {
    const auto worker = worker_pids_.find(local_rank);
    if (worker == worker_pids_.end()) return;
    oom_watch_.WeKill(local_rank);
    spawner_.Kill(worker->second, SIGKILL);
  }

  // ---- the rest ----

  void Apply(const SetKernelTimer& effect) {
    if (!effect.at) {
      kernel_timer_.Disarm();
      return;
    }
    const absl::Status armed = kernel_timer_.Arm(*effect.at);
    const bool known = !std::exchange(kernel_timer_trouble_, armed).ok();
    if (armed.ok() || known) return;  // logged once; each extension of the lease tries again
    Log(Severity::kWarning, kPart,
        std::string(AsStd(armed.message())) +
            ": if this process is suspended or hangs, its workers are stopped at the end of the lease by the "
            "agent "
            "alone, not by the kernel; raise the limit of pending signals (ulimit -i)");
  }

  void Apply(const RenewOffer&) {
    const auto port = port_keeper_.Renew();
    const std::string trouble(AsStd(port.status().message()));
    if (trouble != offer_trouble_ && !port.ok()) Log(Severity::kError, kPart, trouble);  // once for all retries
    offer_trouble_ = trouble;
    driver_.Feed(&HostCore::OnOffer, port.ok() ? *port : 0);
  }

  static int64_t Number(const v1::Round& round) { return static_cast<int64_t>(round.id().number()); }

  void Apply(const StopSelf&) { kill(getpid(), SIGSTOP); }

  void Apply(const Finish& effect) {
    end_ = {effect.exit_code, effect.signal};
    JobEnd end = about_;
    end.exit_code = effect.exit_code;
    end.origin = effect.origin;
    end.reason = effect.reason;
    end.verdict = effect.verdict;
    end.last = effect.last;
    end.ended = absl::Now();
    closing_.Begin(plan_.report, end, effect.asked_to_leave);
  }

  void Apply(const HurryFinish&) { closing_.Hurry(); }

  static constexpr int kSpawnRefused = 126;  // exit code of a worker for which no process could be created

  const int slots_;
  const std::set<int> leave_signals_;
  const LaunchPlan plan_;
  Writer* const writer_;
  const Marker marker_;
  const JobEnd about_;  // the fields of the report that are known from the start
  HostEnd end_;
  int signal_fd_ = -1;
  int null_fd_ = -1;
  const TerminalModes terminal_;
  EventLoop loop_;
  HostCore core_;
  HostDriver driver_{&core_,
                     {.clock = &EventLoop::Now,
                      .carry_out = ByType<Effect>([this](const auto& effect) { Apply(effect); }),
                      .log = [](const Note& note) { Log(kPart, note); }}};
  WorkerOutput output_;
  Closing closing_;
  Spawner spawner_;
  Sweeper sweeper_;
  AgentChild agent_;
  absl::Status first_agent_;
  Preflight preflight_;
  GpuWatch gpus_;
  PortKeeper port_keeper_;
  std::string offer_trouble_;  // why the last attempt to reserve a port failed; empty: it succeeded
  KernelTimer kernel_timer_;
  absl::Status kernel_timer_trouble_;  // result of the last attempt to arm it
  OomWatch oom_watch_;
  ErrorFiles error_files_;
  FailureDetails failure_details_;
  FileTimerPipe timer_pipe_;
  ProgressWatch progress_;
  std::map<int, pid_t> worker_pids_;  // of the current round, by local rank
};

}  // namespace

int LeastDescriptors(const LaunchPlan& plan, bool single_node) {
  const bool untouched = !plan.output.prefix_all && !plan.output.writes_files();
  const int for_each = untouched ? kWorkerDescriptors : kPipedWorkerDescriptors;
  const int own = kHostDescriptors + static_cast<int>(plan.argv.size()) * for_each;
  return std::max(own, single_node ? 0 : kAgentDescriptors);
}

absl::StatusOr<HostEnd> RunHost(HostOptions options, LaunchPlan plan, Writer* writer) {
  MUSTER_CHECK(static_cast<int>(plan.argv.size()) == options.config.slots(), "one command for each slot");
  return HostProcess(std::move(options), std::move(plan), writer).Run();
}

}  // namespace muster::host
