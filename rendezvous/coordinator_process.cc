#include "rendezvous/coordinator_process.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console/log.h"
#include "base/console/writer.h"
#include "base/core/one_signal.h"
#include "base/core/status_macros.h"
#include "base/core/waiting_line.h"
#include "base/exit_codes.h"
#include "base/io/event_loop.h"
#include "base/io/health.h"
#include "base/proc/port_holder.h"
#include "base/proc/process_setup.h"
#include "base/proc/run_program.h"
#include "base/text/signal_name.h"
#include "rendezvous/coordinator_service.h"
#include "rendezvous/core/port_retry.h"
#include "rendezvous/door.h"
#include "rendezvous/job_shown.h"
#include "rendezvous/transport/credential_watch.h"
#include "rendezvous/transport/grpc_log.h"
#include "rendezvous/transport/process_start.h"
#include "rendezvous/transport/serving.h"

namespace muster::rendezvous {
namespace {

constexpr char kPart[] = "coordinator";
constexpr absl::Duration kBindRetry = absl::Milliseconds(200);

// Lives on the loop thread.
class CoordinatorProcess {
 public:
  CoordinatorProcess(const v1::NodeConfig& config, Severity log_level, const sigset_t& ignored, ReportOf report_of)
      : config_(config), log_level_(log_level), ignored_(ignored), report_of_(std::move(report_of)) {}
  ~CoordinatorProcess() {
    door_.reset();
    shown_.reset();
    service_.reset();
    if (signal_fd_ >= 0) close(signal_fd_);
    writer_.FlushLast(kFlushLimit);
    LogOptions direct;
    direct.level = log_level_;
    direct.json = config_.log_json();
    InitLog(direct);  // the writer is about to be destroyed
  }

  CoordinatorEnd Run() {
    absl::Status ready = loop_.status();
    ready.Update(writer_.status());
    if (ready.ok()) ready = WatchSignals();
    if (!ready.ok()) {
      Log(Severity::kError, kPart, AsStd(ready.message()));
      return {.exit_code = kExitFault};
    }
    InitLog({.level = log_level_,
             .writer = &writer_,
             .quiet_fd = config_.log_split() ? STDOUT_FILENO : STDERR_FILENO,
             .json = config_.log_json(),
             .run_id = config_.run_id(),
             .host = config_.hostname()});
    if (const absl::Status prepared = PrepareForGrpc(); !prepared.ok()) {
      Log(Severity::kError, kPart, AsStd(prepared.message()));
      return {.exit_code = kExitFault};
    }
    SetGrpcLogSink([](const std::string& line) { Log(Severity::kDebug, kPart, line); });
    health_.Open(ListenForHealth());
    absl::StatusOr<FirstCredentials> first = FirstFrom(config_, TlsRole::kPrimary);
    if (!first.ok()) {
      Log(Severity::kError, kPart, AsStd(first.status().message()));
      return {.exit_code = kExitBadEnvironment};
    }
    credentials_.emplace(&loop_, *std::move(first),
                         CredentialWatch::Events{.log = [](const Note& note) { Log(kPart, note); }});
    Serve();
    loop_.Run();
    return end_;
  }

 private:
  void Serve() {
    service_ = std::make_unique<CoordinatorService>(
        OptionsFrom(config_), Entropy(),
        CoordinatorService::Callbacks{
            .post = [this](std::function<void()> closure) { loop_.Post(std::move(closure)); },
            .clock = &EventLoop::Now,
            .note = [](const Note& note) { Log(kPart, note); },
            .member_attached = [](const std::string&) {}});
    shown_.emplace(&loop_, config_, service_.get(), [](const Note& note) { Log(kPart, note); });
    Listen();
  }

  // As in `muster run`: each of these asks for the end, unless it was ignored at the start (nohup, a shell's
  // background job).
  absl::Status WatchSignals() {
    sigset_t handled;
    sigemptyset(&handled);
    for (const int one : {SIGTERM, SIGHUP, SIGQUIT, SIGINT}) {
      if (sigismember(&ignored_, one) != 1) sigaddset(&handled, one);
    }
    const sigset_t all = AllButFaults();
    sigprocmask(SIG_SETMASK, &all, nullptr);
    signal_fd_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd_ < 0) return absl::ErrnoToStatus(errno, "creating a descriptor for signals");
    loop_.Watch(signal_fd_, EPOLLIN, [this](uint32_t) { OnSignal(); });
    return absl::OkStatus();
  }

  void OnSignal() {
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return;
    const BootTime now = EventLoop::Now();
    if (asked_at_ && now < *asked_at_ + kOneSignal) return;
    const bool again = asked_at_.has_value();
    asked_at_ = now;
    asked_by_ = static_cast<int>(info.ssi_signo);
    if (again || port_ == 0) return EndAsAsked();
    service_->AskToEnd();
    if (service_->MayEnd()) return EndAsAsked();
    Log(Severity::kInfo, kPart,
        DescribeSignal(asked_by_) +
            ": no more rounds begin here; the coordinator serves nodes that leave until they have left, and nodes "
            "that run for 20s (again: ends at once)",
        {.event = events::kLeaving});
  }

  void EndAsAsked() {
    const bool cancelled = asked_by_ == SIGINT;
    end_.signal = cancelled ? SIGINT : 0;
    Finish(cancelled ? kExitCancelled : kExitLeft,
           DescribeSignal(asked_by_) +
               ": the job continues if a coordinator is started again at this address within the lease");
  }

  void Listen() {
    ServerOptions options = ServerOptionsFrom(config_, credentials_->credentials());
    if (port_ != 0) options.listen.port = port_;  // the nodes know this port
    const absl::Status status = service_->Listen(options);
    if (status.ok()) {
      port_ = service_->port();
      port_retry_.OnListening();
      if (!door_) OpenDoor();
      for (const Note& note : ServingNotes(config_)) Log(kPart, note);
      Log(Severity::kInfo, kPart,
          "listening on " + options.listen.host + ", port " + std::to_string(service_->port()) + ", for run " +
              config_.run_id());
      Tick();
      return;
    }
    const BootTime now = EventLoop::Now();
    if (absl::IsUnavailable(status) && port_retry_.SearchIsDue(now))
      port_retry_.SetHolder(now, FindPortHolder(static_cast<uint16_t>(options.listen.port)));
    const PortUser user = {
        .has_served = port_ != 0, .lease = LeaseOf(config_), .port = options.listen.port, .runs_alone = true};
    const PortRetry::Next next = port_retry_.OnFailure(now, status, user);
    if (next.exit_code != 0) return Finish(next.exit_code, next.why);
    if (last_warning_ != next.why) Log(Severity::kWarning, kPart, next.why);
    last_warning_ = next.why;
    loop_.After(kBindRetry, [this] { Listen(); });
  }

  // Its address is not known here as the nodes know it, but the port is the same.
  void OpenDoor() {
    Door::Ways ways;
    ways.look = [this](const v1::Question& question) { return service_->Look(question); };
    ways.ask = [](const v1::Question&, const Door::Done&) {};  // once it listens it has the answer itself
    ways.last_events = [this] {
      v1::Question question;
      question.set_kind(v1::Question::KIND_EVENTS);
      const std::optional<v1::JobView> view = service_->Look(question);
      return view ? view->events() : v1::Events();
    };
    v1::Answer named;
    named.set_run_id(config_.run_id());
    named.set_coordinator(absl::StrCat(":", port_));
    door_.emplace(&loop_, absl::StrCat("coordinator", absl::Hex(Entropy())), std::move(named), std::move(ways));
  }

  void Tick() {
    service_->Tick();
    door_->OnTick();
    shown_->OnTick();
    // The core's part is over once it is finished; ending the process concerns no node.
    const auto verdict = service_->FinishedWith();
    if (verdict && !over_since_) over_since_ = EventLoop::Now();
    if (verdict && (shown_->IsDone() || EventLoop::Now() >= *over_since_ + kLastShown)) {
      if (!shown_->IsDone()) Log(Severity::kWarning, kPart, kNotAllShown);
      v1::Exit end;
      *end.mutable_verdict() = *verdict;
      door_->OnEnd(end);
      Print(report_of_(*verdict));
      Finish(verdict->exit_code(), verdict->reason());
      return;
    }
    if (asked_at_ && service_->MayEnd()) return EndAsAsked();
    const BootTime now = EventLoop::Now();
    LogWaiting(waiting_.Set(now, service_->Waiting()));
    LogWaiting(waiting_.OnTick(now));
    loop_.After(kTick, [this] { Tick(); });
  }

  // In the primary's process the agent prints this line; here there is no agent.
  static void LogWaiting(const std::optional<std::string>& line) {
    if (line) Log(Severity::kInfo, kPart, *line);
  }

  void Print(const std::string& report) {
    if (!config_.log_json()) {
      writer_.Write(STDERR_FILENO, report);
    } else if (!report.empty()) {
      Log(Severity::kError, kPart, report, {.event = events::kFailureReport});
    }
  }

  void Finish(int exit_code, const std::string& reason) {
    end_.exit_code = exit_code;
    const bool wanted = exit_code == 0 || end_.signal == SIGINT;  // Ctrl-C is a request, not an error
    Log(wanted ? Severity::kInfo : Severity::kError, kPart,
        "exit code " + std::to_string(exit_code) + ": " + reason, {.event = events::kJobEnded});
    loop_.Stop();
  }

  const v1::NodeConfig& config_;
  const Severity log_level_;
  const sigset_t ignored_;  // when this process started
  const ReportOf report_of_;
  Writer writer_;
  EventLoop loop_;
  HealthDoor health_{&loop_, [this] {
                       return Health{port_ != 0 ? "coordinator, listening" : "coordinator", port_ != 0};
                     }};
  std::optional<CredentialWatch> credentials_;
  std::unique_ptr<CoordinatorService> service_;
  std::optional<Door> door_;  // once it listens
  std::optional<JobShown> shown_;
  WaitingLine waiting_;
  int signal_fd_ = -1;
  int port_ = 0;                        // where it listens; 0: not yet
  std::optional<BootTime> over_since_;  // the job
  std::optional<BootTime> asked_at_;    // by the newest signal
  int asked_by_ = 0;
  CoordinatorEnd end_;
  PortRetry port_retry_;
  std::string last_warning_;  // about a failure to listen
};

}  // namespace

CoordinatorEnd RunCoordinator(const v1::NodeConfig& config, Severity log_level, const sigset_t& ignored,
                              ReportOf report_of) {
  const CoordinatorEnd end = CoordinatorProcess(config, log_level, ignored, std::move(report_of)).Run();
  EndPrograms();  // of --on-event
  return end;
}

}  // namespace muster::rendezvous
