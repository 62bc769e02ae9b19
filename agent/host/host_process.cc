#include "agent/host/host_process.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "agent/host/agent_child.h"
#include "agent/host/agent_door.h"
#include "agent/host/check_command.h"
#include "agent/host/kernel_timer.h"
#include "agent/host/port_keeper.h"
#include "agent/host/preload/learned_modules.h"
#include "agent/host/preload/preloader.h"
#include "agent/host/process/spawner.h"
#include "agent/host/process/sweeper.h"
#include "agent/host/signal_watch.h"
#include "agent/host/watch/gpu_watch.h"
#include "agent/host/watch/memory_watch.h"
#include "agent/host/watch/snapshot_taker.h"
#include "agent/host/worker_group.h"
#include "base/console/log.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/event_loop.h"
#include "base/io/health.h"
#include "base/proc/dead_hosts.h"
#include "base/proc/shell_job.h"
#include "base/text/utf8.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr absl::Duration kMemoryPeriod = absl::Seconds(1);
// Maximum numbers of open descriptors while a node starts.
// What the host has open: loop, signals, output, follower, /dev/null, port, agent, check, /proc, a lock, health.
constexpr int kHostDescriptors = 27;
constexpr int kDoorDescriptors =
    static_cast<int>(kMaxVisitors) + 2;      // listener, visitors, and one that is refused
constexpr int kWorkerDescriptors = 2;        // pidfd, status pipe
constexpr int kPipedWorkerDescriptors = 6;   // the same, and both ends of two pipes or files
constexpr int kPreloadDescriptors = 8;       // its pidfd, socket and output; a gate, a spec and their copies
constexpr int kForkedWorkerDescriptors = 2;  // its file for stacks; for a moment a copy of its status socket
constexpr int kAgentDescriptors = 32;        // of an agent with gRPC, which inherits the host's limits

}  // namespace

JobEnd AboutThisNode(const v1::NodeConfig& config, const std::string& program) {
  JobEnd end;
  end.program = program;
  end.host = config.hostname();
  if (config.has_place()) end.place = config.place();
  end.run_id = config.run_id();
  end.version = config.version();
  end.coordinator_alone = config.coordinator_alone();
  end.started = absl::Now();
  end.zone = absl::LocalTimeZone();
  return end;
}

namespace {

Health HealthOf(const HostCore& core) {
  if (core.finished()) return {"ending", false};
  switch (core.phase()) {
    case v1::HOST_PHASE_STARTING:
      return {"workers are starting", false};
    case v1::HOST_PHASE_RUNNING:
      return {"workers run", true};
    case v1::HOST_PHASE_STOPPING:
      return {"workers are stopping", false};
    case v1::HOST_PHASE_STUCK:
      return {"workers survive SIGKILL", false};
    default:
      return {"waiting for a round", false};
  }
}

class HostProcess {
 public:
  HostProcess(HostOptions options, LaunchPlan plan, Writer* writer)
      : leave_signals_(options.leave_signals),
        health_listener_(std::move(plan.health)),
        socket_(std::move(plan.socket)),
        plan_(std::move(plan)),
        writer_(writer),
        marker_(OwnMarker(options.host_id, options.config.run_id(), options.config.boot_id(),
                          options.config.pid_namespace())),
        about_(AboutThisNode(options.config, plan_.program)),
        core_(std::move(options)),
        spawner_(&loop_, plan_.process),
        preloader_(&loop_, &spawner_, writer_,
                   [this](const PreloadNews& news) { driver_.Feed(&HostCore::OnPreload, news); }),
        workers_(&loop_, &spawner_, &preloader_, &core_, &driver_, &plan_, marker_, writer_),
        sweeper_(
            &loop_, &spawner_, [this](const std::string& left) { OnSwept(left); }, EndDescendants,
            [this](const ProcessInfo& child) { return workers_.IsAncestorOf(child); }),
        conclusion_({&loop_, &spawner_, &sweeper_, workers_.output(), writer_, &plan_}, about_,
                    FormatMarker(marker_), [this](HostEnd end) { Stop(end); }),
        agent_(MakeAgentLink()),
        check_(&spawner_, writer_),
        gpus_(&loop_, &spawner_, Marked(plan_.inherited),
              [this](const GpuUsers& users) { driver_.Feed(&HostCore::OnGpuUsers, users); }),
        snapshots_(&loop_, &spawner_, Marked(plan_.inherited)),
        port_keeper_(plan_.worker_ports) {}

  absl::StatusOr<HostEnd> Run() {
    RETURN_IF_ERROR(loop_.status());
    RETURN_IF_ERROR(sweeper_.status());
    RETURN_IF_ERROR(
        signals_.Start(plan_.process.ignored, leave_signals_, [this](int signal) { OnSignal(signal); }));
    if (plan_.ends_orphans) EndPredecessorsOrphans();
    if (plan_.before_start) plan_.before_start();
    RETURN_IF_ERROR(workers_.Start());
    health_.Open(std::move(health_listener_));
    driver_.Feed(&HostCore::Begin);
    driver_.Feed(&HostCore::OnWallClock, absl::Now());
    if (door_ != nullptr) {
      memory_.emplace();
      ReportMemory();
      door_->Open();
    }
    ScheduleTick();
    loop_.Run();
    return end_;
  }

 private:
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
          "these processes cannot be inspected, and may be left by a dead muster of this run: " +
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

  // The sidecar outlives this container and tells why it ended.
  void ReportMemory() {
    if (const std::optional<MemoryUse> use = memory_->Read()) driver_.Feed(&HostCore::OnMemoryUse, *use);
    loop_.After(kMemoryPeriod, [this] { ReportMemory(); });
  }

  void OnSignal(int signal) {
    if (signal == SIGCHLD) return sweeper_.OnChildSignal();
    spawner_.CollectWorkers();  // workers that have ended by now were not ended by this signal
    if (signal == SIGTSTP) {
      driver_.Feed(&HostCore::OnSuspend, ShellCanContinue());
    } else {
      driver_.Feed(&HostCore::OnSignal, signal);
    }
  }

  // ---- the agent ----

  std::unique_ptr<AgentLink> MakeAgentLink() {
    if (!socket_) {
      return std::make_unique<AgentChild>(&loop_, &spawner_, plan_.agent_arguments, plan_.inherited,
                                          AgentEvents());
    }
    auto door = std::make_unique<AgentDoor>(&loop_, *std::move(socket_), AgentEvents());
    door_ = door.get();
    return door;
  }

  AgentLink::Events AgentEvents() {
    AgentLink::Events events;
    events.on_directive = [this](const v1::HostDirective& directive) {
      spawner_.CollectWorkers();  // workers that have ended by now were not ended by this order
      driver_.Feed(&HostCore::OnDirective, directive);
    };
    events.on_closed = [this](uint64_t number) { driver_.Feed(&HostCore::OnAgentClosed, number); };
    events.on_failed = [this](uint64_t number, const absl::Status& status) {
      driver_.Feed(&HostCore::OnAgentFailed, number, std::string(AsStd(status.message())));
    };
    events.on_came = [this] { driver_.Feed(&HostCore::OnAgentCame); };
    return events;
  }

  void Apply(const StartAgent& effect) { agent_->Start(effect.number); }
  void Apply(const KillAgent&) { agent_->Close(); }
  void Apply(const SendStatus& effect) { agent_->Send(effect.status); }

  // ---- workers ----

  void Apply(const SpawnWorkers& effect) {
    port_keeper_.Share();
    workers_.Spawn(effect);
  }
  void Apply(const StartPreloader& effect) {
    preloader_.Start(MakePreloadCommand(plan_, FormatMarker(marker_)), effect);
  }
  void Apply(const ReadLearned&) {
    const std::vector<std::string> names = ReadImports(workers_.imports_file());
    if (!names.empty()) {
      driver_.Feed(&HostCore::OnPreload, PreloadNews{.kind = PreloadNews::kLearned, .names = names});
    }
  }
  void Apply(const KeepLearned& effect) { KeepModules(plan_.learned, effect.modules); }
  void Apply(const StopPreloader&) { preloader_.Stop(); }
  void Apply(const SignalWorkers& effect) { workers_.Signal(effect.signal); }
  void Apply(const StopWorkers& effect) { workers_.Stop(effect.signal); }
  void Apply(const SignalRest&) { spawner_.SignalRest(); }
  void Apply(const ForwardSignal& effect) { workers_.Forward(effect.signal); }
  void Apply(const SignalRanks& effect) { workers_.SignalRanks(effect); }

  void Apply(const EndHungWorker& effect) { workers_.EndHung(effect.local_rank, effect.why); }

  void Apply(const TakeSnapshot& effect) {
    snapshots_.Take(workers_.Subjects(effect), plan_.file, [this](const std::vector<RankSnapshot>& snapshots) {
      driver_.Feed(&HostCore::OnSnapshot, snapshots);
    });
  }

  void Apply(const KeepSnapshot& effect) { workers_.KeepSnapshot(effect.text); }

  void Apply(const Sweep&) {
    workers_.BeforeSweep();
    sweeper_.Sweep();
  }

  void Apply(const GatherRoundOutput& effect) {
    std::set<pid_t> ended = sweeper_.ended();
    ended.merge(spawner_.TakeSpared());
    ended.merge(workers_.Pids());
    gpus_.SetOldWorkers(std::move(ended));
    workers_.GatherOutput(effect.local_rank);
  }

  // ---- between rounds ----

  EnvironmentMap Marked(EnvironmentMap environment) const {
    environment[kMarkerVariable] = FormatMarker(marker_);
    return environment;
  }

  void Apply(const StartCheck& effect) {
    const bool setup = effect.check == Check::kSetup;
    const auto ended = [this](const Ending& ending) { driver_.Feed(&HostCore::OnCheckEnded, ending); };
    const absl::Status started =
        check_.Start(NameOf(effect.check), setup ? plan_.setup : plan_.preflight,
                     EnvironmentOfNode(plan_, FormatMarker(marker_), about_.place), ended);
    if (!started.ok()) ended(Ending{.number = kExitFault, .error_text = std::string(AsStd(started.message()))});
  }

  void Apply(const GatherCheckOutput&) { AwaitCheckOutput(EventLoop::Now() + kLastOutputLimit); }

  // The writer's thread may not have read its last line yet.
  void AwaitCheckOutput(BootTime until) {
    if (!check_.complete() && EventLoop::Now() < until) {
      loop_.After(kLastOutputPoll, [this, until] { AwaitCheckOutput(until); });
      return;
    }
    driver_.Feed(&HostCore::OnCheckOutput, check_.LastLine());
  }

  void Apply(const AskGpus&) { gpus_.Ask(); }

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
            ": if this process is suspended or hangs, the agent alone stops its workers at the end of the "
            "lease, not the kernel; raise the limit of pending signals (ulimit -i)");
  }

  void Apply(const RenewOffer&) {
    const auto port = port_keeper_.Renew();
    const std::string trouble(AsStd(port.status().message()));
    if (trouble != offer_trouble_ && !port.ok()) Log(Severity::kError, kPart, trouble);  // once for all retries
    offer_trouble_ = trouble;
    driver_.Feed(&HostCore::OnOffer, port.ok() ? *port : 0);
  }

  void Apply(const StopSelf&) { kill(getpid(), SIGSTOP); }

  void Apply(const Finish& effect) { conclusion_.Begin(effect); }
  void Apply(const HurryFinish& effect) { conclusion_.Hurry(effect.cancel); }

  void OnSwept(const std::string& left) {
    if (!conclusion_.OnSwept(left)) driver_.Feed(&HostCore::OnSwept, ToUtf8(left, kMaxErrorText));
  }

  // Posted: if the first agent cannot be started, the host may end before the loop runs.
  void Stop(HostEnd end) {
    end_ = end;
    loop_.Post([this] { loop_.Stop(); });
  }

  const std::set<int> leave_signals_;
  OwnedFd health_listener_;            // moved into the door
  std::optional<AgentSocket> socket_;  // moved into the link
  const LaunchPlan plan_;
  Writer* const writer_;
  const Marker marker_;
  const JobEnd about_;  // the fields of the report that are known from the start
  HostEnd end_;
  EventLoop loop_;
  SignalWatch signals_{&loop_};
  HealthDoor health_{&loop_, [this] { return HealthOf(core_); }};
  HostCore core_;
  HostDriver driver_{&core_,
                     {.clock = &EventLoop::Now,
                      .carry_out = ByType<Effect>([this](const auto& effect) { Apply(effect); }),
                      .log = [](const Note& note) { Log(kPart, note); }}};
  Spawner spawner_;
  Preloader preloader_;
  WorkerGroup workers_;
  Sweeper sweeper_;
  Conclusion conclusion_;
  AgentDoor* door_ = nullptr;  // agent_, in a host that starts no agent
  std::unique_ptr<AgentLink> agent_;
  CheckCommand check_;
  GpuWatch gpus_;
  SnapshotTaker snapshots_;
  std::optional<MemoryWatch> memory_;  // in a container of its own
  PortKeeper port_keeper_;
  std::string offer_trouble_;  // why the last attempt to reserve a port failed; empty: it succeeded
  KernelTimer kernel_timer_;
  absl::Status kernel_timer_trouble_;  // result of the last attempt to arm it
};

}  // namespace

int LeastDescriptors(const LaunchPlan& plan, bool single_node) {
  const bool untouched =
      !plan.output.prefix_all && plan.output.piped == Streams::kNone && !plan.output.writes_files();
  const int for_each =
      (untouched ? kWorkerDescriptors : kPipedWorkerDescriptors) + (plan.preloads ? kForkedWorkerDescriptors : 0);
  const int own = kHostDescriptors + (plan.socket ? kDoorDescriptors : 0) +
                  (plan.preloads ? kPreloadDescriptors : 0) + static_cast<int>(plan.argv.size()) * for_each;
  return std::max(own, single_node ? 0 : kAgentDescriptors);
}

absl::StatusOr<HostEnd> RunHost(HostOptions options, LaunchPlan plan, Writer* writer) {
  if (options.preload.learns) {
    options.preload.modules = ReadModules(plan.learned);
    options.preload.list = plan.learned.file;
  }
  MUSTER_CHECK(static_cast<int>(plan.argv.size()) == options.config.slots(), "one command for each slot");
  return HostProcess(std::move(options), std::move(plan), writer).Run();
}

}  // namespace muster::host
