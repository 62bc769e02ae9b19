#include "agent/process/agent_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "agent/platform/notice/notice_watch.h"
#include "agent/process/core/agent_core.h"
#include "agent/process/host_ender.h"
#include "agent/process/local_coordinator.h"
#include "agent/process/local_session.h"
#include "base/console/log.h"
#include "base/console/writer.h"
#include "base/core/status_macros.h"
#include "base/environment.h"
#include "base/exit_codes.h"
#include "base/io/bounded_call.h"
#include "base/io/event_loop.h"
#include "base/io/framed_link.h"
#include "base/io/read_to_end.h"
#include "base/io/temporary_folder.h"
#include "base/proc/dead_hosts.h"
#include "base/proc/process_setup.h"
#include "base/proc/run_program.h"
#include "base/text/tokens.h"
#include "base/wire/ids.h"
#include "base/wire/sidecar.h"
#include "rendezvous/door.h"
#include "rendezvous/transport/address.h"
#include "rendezvous/transport/channel_options.h"
#include "rendezvous/transport/credential_watch.h"
#include "rendezvous/transport/grpc_log.h"
#include "rendezvous/transport/inquiry.h"
#include "rendezvous/transport/peer_address.h"
#include "rendezvous/transport/process_start.h"
#include "rendezvous/transport/remote_session.h"
#include "rendezvous/transport/serving.h"

namespace muster::agent {
namespace {

constexpr absl::Duration kFinalSendLimit = absl::Seconds(1);  // for the last messages to arrive before the exit
constexpr absl::Duration kFinalFlushLimit = absl::Milliseconds(50);  // for our log lines, if their reader is slow
// A host that leaves waits for a second for its agent (agent/host/core/host_exit.h).
constexpr absl::Duration kLastShownOfLeaving = absl::Milliseconds(500);
constexpr absl::Duration kDrainPoll = absl::Milliseconds(5);
constexpr absl::Duration kCertificateLimit = absl::Seconds(5);
constexpr absl::Duration kCleanUpLimit = absl::Milliseconds(500);  // for removing a dead host's folders

Severity LevelByVariable() {
  Severity severity = Severity::kInfo;
  if (const char* level = std::getenv("MUSTER_LOG_LEVEL")) ParseSeverity(level, &severity);
  return severity;
}

std::string TakeVariable(const char* name) {
  const char* const found = std::getenv(name);
  std::string value = found == nullptr ? "" : found;
  EraseVariable(name);
  return value;
}

// The host in another container does not know the token: the sidecar hands it over.
void TakeOwnCredentials(int tokens_fd, v1::NodeConfig* config) {
  config->clear_tokens();
  config->clear_certificates();
  std::string text;
  if (tokens_fd >= 0 && ReadToEnd(tokens_fd, kMaxTokenFileBytes, &text) != 0) text.clear();
  const absl::StatusOr<std::vector<std::string>> tokens = ParseTokens(text);
  if (tokens.ok()) config->mutable_tokens()->Assign(tokens->begin(), tokens->end());
  config->set_token_file(TakeVariable(kTokenFileVariable));
  v1::Certificates files;
  files.set_cert_file(TakeVariable(kTlsCertVariable));
  files.set_key_file(TakeVariable(kTlsKeyVariable));
  files.set_ca_file(TakeVariable(kTlsCaVariable));
  files.set_name(TakeVariable(kTlsNameVariable));
  if (files.cert_file().empty()) return;
  const auto read = CallWithin(kCertificateLimit, [files]() mutable {
    const absl::Status status = rendezvous::ReadCertificates(&files);
    return std::pair(status, files);
  });
  if (!read || !read->first.ok()) {
    Log(Severity::kError, "agent",
        read ? AsStd(read->first.message()) : "--tls-cert: its file system does not answer");
  }
  *config->mutable_certificates() = read ? read->second : files;
}

// A sidecar runs and writes what it was given itself: the workers could have changed what the host says.
void TakeOwnEvents(v1::NodeConfig* config) {
  config->set_events_file(TakeVariable(kEventsVariable));
  config->set_on_event(TakeVariable(kOnEventVariable));
  config->clear_on_event_filter();
  for (const absl::string_view name : absl::StrSplit(TakeVariable(kOnEventFilterVariable), ',', absl::SkipEmpty()))
    config->add_on_event_filter(std::string(name));
}

// The agent ignores signals; the host handles them and informs it. scancel, systemd and `kill -- -1` send SIGTERM
// to every process of a node, and then the agent, above all the primary's, is needed to leave the job in order.
void PrepareSignals() {
  const sigset_t all = AllButFaults();
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (const int ignored : {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE})
    signal(ignored, SIG_IGN);
}

// Lives on the loop thread.
class AgentProcess {
 public:
  explicit AgentProcess(const AgentStart& start)
      : start_(start), core_(rendezvous::Entropy()), host_pidfd_(start.host_end_fd) {}
  ~AgentProcess();

  int Run();

 private:
  // The host.
  void OnHostMessage(std::string_view payload);
  bool WatchHost(const v1::HostStatus& status);  // false: it cannot be watched, and the agent exits
  void WatchOtherContainer();

  // The start.
  bool Begin(const v1::HostStatus& first);  // false: something is missing here, and the agent exits
  bool TakeCredentials();                   // the same
  void CheckLocalAddress();
  void WatchNotice();
  void UpdateLogContext(const v1::Round& round) const;
  rendezvous::SessionEvents Events();

  // Effects.
  void Do(const ClaimPort&);
  void Do(const FreePort&);
  void Do(const TakeRole& role);
  void Do(const SendToCoordinator& send);
  void Do(const SendToHost& send);
  void Do(const Connect&);
  void Do(const Disconnect&);
  void Do(const EndHost& end);
  void Do(const Probe& probe);
  void Do(const ExitAgent& exit);

  bool HoldsExit(const SendToHost& send);
  void OpenDoor();
  void Tick();
  void OnMemberAttached(const std::string& peer);
  void StopWhenDrained();

  const AgentStart start_;
  EventLoop loop_;
  Writer writer_;
  AgentCore core_;
  AgentDriver driver_{&core_,
                      {.clock = &EventLoop::Now,
                       .carry_out = ByType<Effect>([this](const auto& effect) { Do(effect); }),
                       .log = [](const Note& note) { Log("agent", note); }}};
  std::unique_ptr<FramedLink> link_;
  bool begun_ = false;  // the first status has arrived
  v1::NodeConfig config_;
  v1::HostStatus host_;  // the first status: identifies the host
  int host_pidfd_;       // readable once the host has ended; -1: it has ended already, or nothing shows its end
  uint64_t host_start_ = 0;  // start time in clock ticks since boot; 0: not known
  const pid_t first_parent_ = getppid();
  std::unique_ptr<HostEnder> ender_;
  std::unique_ptr<NoticeWatch> notice_watch_;

  std::optional<rendezvous::CredentialWatch> credentials_;  // made by Begin()
  std::unique_ptr<LocalCoordinator> coordinator_;           // made by Begin(); outlives the session
  std::unique_ptr<rendezvous::Session> session_;
  std::map<v1::Question::Kind, std::unique_ptr<rendezvous::Inquiry>> inquiries_;  // of the door
  std::unique_ptr<rendezvous::Door> door_;

  bool disconnecting_ = false;
  bool closed_ = false;
  bool exit_sent_ = false;               // the host was told to exit
  std::optional<SendToHost> held_exit_;  // it is to be told
  std::optional<BootTime> held_until_;   // at the latest; nullopt: nothing was held yet
  std::optional<int> exit_code_;
  BootTime exit_deadline_;
};

int AgentProcess::Run() {
  for (const absl::Status& status : {loop_.status(), writer_.status()}) {
    if (status.ok()) continue;
    Log(Severity::kError, "agent", AsStd(status.message()));
    return kExitFault;
  }
  InitLog({.level = LevelByVariable(), .writer = &writer_});
  link_ = std::make_unique<FramedLink>(
      &loop_, start_.fd, [this](std::string_view payload) { OnHostMessage(payload); },
      [this](const std::string&) { driver_.Feed(&AgentCore::OnHostLinkClosed); });
  loop_.Run();
  return exit_code_.value_or(0);
}

AgentProcess::~AgentProcess() {
  notice_watch_.reset();
  if (ender_ != nullptr) {  // the dead host cannot remove its folders
    (void)CallWithin(kCleanUpLimit, [] {
      RemoveAbandonedFolders();
      return true;
    });
  }
  ender_.reset();
  door_.reset();
  inquiries_.clear();
  session_.reset();
  coordinator_.reset();
  if (host_pidfd_ >= 0) close(host_pidfd_);
  if (start_.tokens_fd >= 0) close(start_.tokens_fd);
  InitLog({});
}

// Before the end of the job its last events are shown: with workers that have ended nothing else waits for that.
bool AgentProcess::HoldsExit(const SendToHost& send) {
  if (exit_sent_ || coordinator_->HasShownAll()) return false;
  const BootTime now = EventLoop::Now();
  // A host takes an agent that says nothing for half of a lease for frozen.
  const absl::Duration lease = rendezvous::LeaseOf(config_);
  absl::Duration limit =
      lease > absl::ZeroDuration() ? std::min(rendezvous::kLastShown, lease / 4) : rendezvous::kLastShown;
  if (!send.directive.exit().has_verdict()) limit = std::min(limit, kLastShownOfLeaving);
  if (!held_until_) held_until_ = now + limit;
  if (now >= *held_until_) {
    Log(Severity::kWarning, "coordinator", rendezvous::kNotAllShown);
    return false;
  }
  held_exit_ = send;
  return true;
}

void AgentProcess::Do(const SendToHost& send) {
  if (send.directive.has_exit() && HoldsExit(send)) return;
  if (send.directive.has_start()) UpdateLogContext(send.directive.start());
  // The host prints the very last line, so flush what agent and coordinator have logged about the end.
  if (send.directive.has_exit() && !std::exchange(exit_sent_, true)) {
    writer_.Flush(kFinalFlushLimit);
    if (door_ != nullptr) door_->OnEnd(send.directive.exit());
  }
  link_->Send(send.directive);
}

void AgentProcess::UpdateLogContext(const v1::Round& round) const {
  LogContext context;
  context.node = config_.has_place() ? config_.place() : -1;
  if (round.has_node_rank()) {
    context = {.node = round.node_rank(), .round = static_cast<int64_t>(round.id().number())};
  }
  SetLogContext(context);
}

// --- The host -------------------------------------------------------------------------------------------------

void AgentProcess::OnHostMessage(std::string_view payload) {
  v1::HostStatus status;
  if (!status.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    Log(Severity::kError, "agent",
        "the host sent an invalid status: this agent exits, and the host starts another");
    // Exit rather than stay silent: the host limits how often it restarts its agent.
    return Do(ExitAgent{kExitFault, "an invalid status"});
  }
  if (status.has_config()) status.mutable_config()->set_split(start_.by_sidecar);
  if (exit_code_.has_value() || (!std::exchange(begun_, true) && !Begin(status))) return;
  driver_.Feed(&AgentCore::OnHostStatus, status);
}

bool AgentProcess::WatchHost(const v1::HostStatus& status) {
  if (config_.split()) {
    WatchOtherContainer();
    return true;
  }
  host_pidfd_ = OpenPidFd(static_cast<pid_t>(status.host_pid()));
  const auto ended = [this] { driver_.Feed(&AgentCore::OnHostClosed); };
  if (host_pidfd_ < 0 && errno != ESRCH) {  // the host may be alive: do not end its workers
    Log(Severity::kError, "agent",
        "cannot watch the host process (pid " + std::to_string(status.host_pid()) +
            "): " + std::string(std::strerror(errno)));
    Do(ExitAgent{kExitFault, "the host cannot be watched"});
    return false;
  }
  if (host_pidfd_ < 0) {  // the host is gone already
    loop_.Post(ended);
    return true;
  }
  if (const auto process = ReadProcess(static_cast<pid_t>(status.host_pid()))) host_start_ = process->start;
  loop_.Watch(host_pidfd_, EPOLLIN, [this, ended](uint32_t) {
    loop_.Unwatch(host_pidfd_);
    ended();
  });
  return true;
}

// The descriptor is a pidfd of process 1 of the host's container: once that has ended, the kernel has ended all
// others.
void AgentProcess::WatchOtherContainer() {
  if (host_pidfd_ < 0) return;  // then only the end of the lease shows that the host has ended
  loop_.Watch(host_pidfd_, EPOLLIN, [this](uint32_t) {
    loop_.Unwatch(host_pidfd_);
    driver_.Feed(&AgentCore::OnHostClosed);
  });
}

// --- The start ------------------------------------------------------------------------------------------------

bool AgentProcess::Begin(const v1::HostStatus& first) {
  host_ = first;
  const v1::NodeConfig& given = host_.config();
  InitLog({.level = LevelByVariable(),
           .writer = &writer_,
           .quiet_fd = given.log_split() ? STDOUT_FILENO : STDERR_FILENO,
           .json = given.log_json(),
           .run_id = given.run_id(),
           .host = given.hostname()});
  if (start_.by_sidecar) {
    TakeOwnCredentials(start_.tokens_fd, host_.mutable_config());
    TakeOwnEvents(host_.mutable_config());
  }
  config_ = host_.config();
  UpdateLogContext(host_.memory().last());
  if (!TakeCredentials()) return false;
  coordinator_ = std::make_unique<LocalCoordinator>(&loop_, host_, start_.sockets, credentials_->credentials(),
                                                    [this](const std::string& peer) { OnMemberAttached(peer); });
  const absl::Status enough = config_.single_node() ? absl::OkStatus() : rendezvous::CheckThreadsForGrpc();
  if (!enough.ok()) {
    Log(Severity::kError, "agent", AsStd(enough.message()));
    Do(ExitAgent{kExitFault, "no threads for gRPC"});
    return false;
  }
  return WatchHost(host_);
}

bool AgentProcess::TakeCredentials() {
  if (config_.tokens().empty() && !config_.has_certificates() && config_.http_token().empty()) OpenMemoryAgain();
  const auto& kept = host_.memory().credentials();
  const rendezvous::FileTexts newest =
      start_.by_sidecar ? rendezvous::FileTexts() : rendezvous::FileTexts(kept.begin(), kept.end());
  absl::StatusOr<rendezvous::FirstCredentials> first =
      rendezvous::FirstFrom(config_, rendezvous::RoleOf(config_), newest);
  if (!first.ok()) {
    Log(Severity::kError, "agent", AsStd(first.status().message()));
    Do(ExitAgent{kExitFault, "no usable certificates"});
    return false;
  }
  rendezvous::CredentialWatch::Events events{.log = [](const Note& note) { Log("agent", note); }};
  if (!start_.by_sidecar) {
    events.taken = [this](const rendezvous::FileTexts& texts) {
      loop_.Post([this, texts] { driver_.Feed(&AgentCore::OnCredentials, texts); });
    };
  }
  credentials_.emplace(&loop_, *std::move(first), std::move(events));
  return true;
}

void AgentProcess::Do(const ClaimPort&) {
  const bool used_by_other = !coordinator_->ClaimPort();
  driver_.Feed(&AgentCore::OnPortClaimed, used_by_other);
}

void AgentProcess::Do(const FreePort&) { coordinator_->Withdraw(); }

void AgentProcess::Do(const TakeRole& role) {
  const bool is_first = session_ == nullptr;
  // The session of a member has called: it ends when that call is over.
  loop_.Post([before = std::shared_ptr<rendezvous::Session>(std::move(session_))] {});
  if (is_first && !config_.single_node()) {
    rendezvous::SanitizeGrpcEnvironment();
    rendezvous::SetGrpcLogSink([](const std::string& line) { Log(Severity::kDebug, "agent", line); });
  }
  if (role.serves) {
    session_ = std::make_unique<LocalSession>(&loop_, coordinator_->Serve(),
                                              rendezvous::FirstLocalAddress(config_), Events());
  } else {
    session_ = std::make_unique<rendezvous::RemoteSession>(
        rendezvous::RemoteSessionOptions{.dial = rendezvous::DialPlanFrom(config_, credentials_->credentials()),
                                         .host = rendezvous::IdentityOf(config_),
                                         .connect_limit = kConnectLimit,
                                         .address = config_.primary_address(),
                                         .server_name = TitleOfCoordinator(config_),
                                         .reached_before = role.was_in_job},
        &loop_, Events());
  }
  if (!is_first) return;
  CheckLocalAddress();
  OpenDoor();
  WatchNotice();
  loop_.Post([this] { Tick(); });
}

// A warning only: other nodes may reach this one by an address that it does not have itself (NAT).
void AgentProcess::CheckLocalAddress() {
  const std::string& address = config_.local_addr();
  if (!rendezvous::IsLiteral(address) || rendezvous::IsLocalAddress(address).value_or(true)) return;
  Log(Severity::kWarning, "agent",
      "--local-addr " + address + " is not an address of this machine: worker 0 may not be able to listen on it");
}

void AgentProcess::OpenDoor() {
  rendezvous::Door::Ways ways;
  ways.look = [this](const v1::Question& question) { return coordinator_->Look(question); };
  ways.ask = [this](const v1::Question& question, rendezvous::Door::Done done) {
    inquiries_[question.kind()] = std::make_unique<rendezvous::Inquiry>(
        rendezvous::DialPlanFrom(config_, credentials_->credentials()),
        rendezvous::Inquiry::Asker{rendezvous::IdentityOf(config_), config_.run_id()}, question,
        rendezvous::kAskLimit, &loop_, std::move(done));
  };
  ways.last_events = [this] {
    v1::Question question;
    question.set_kind(v1::Question::KIND_EVENTS);
    v1::Events events;
    if (const auto view = coordinator_->Look(question))
      events = view->events();
    else
      core_.events().AddTo(EventLoop::Now(), events.mutable_newest());
    return events;
  };
  v1::Answer named;
  named.set_run_id(config_.run_id());
  named.set_coordinator(config_.single_node() ? host_.host_id() : ToString(config_.primary()));
  door_ = std::make_unique<rendezvous::Door>(&loop_, host_.host_id(), std::move(named), std::move(ways));
}

// Every agent watches anew: its predecessor has passed a notice on to the host, or this agent receives it again.
void AgentProcess::WatchNotice() {
  notice_watch_ = std::make_unique<NoticeWatch>(
      &loop_, config_.notice(), [this](const std::string& why) { driver_.Feed(&AgentCore::OnNotice, why); });
  const absl::Status started = notice_watch_->Start();
  if (started.ok()) return;
  Log(Severity::kError, "agent",
      "--preemption-notice: some notices will be missed: " + std::string(AsStd(started.message())));
}

rendezvous::SessionEvents AgentProcess::Events() {
  return {
      .on_connected = [this](const std::string& address) { driver_.Feed(&AgentCore::OnConnected, address); },
      .on_directive = [this](const v1::Directive& directive) { driver_.Feed(&AgentCore::OnDirective, directive); },
      .on_disconnected =
          [this](const std::string& why, int refused) {
            const rendezvous::OwnPort port = session_->own_port();
            const auto next = coordinator_->AfterFailure(why, refused, port);
            driver_.Feed(&AgentCore::OnDisconnected, next.why, next.exit_code);
            driver_.Feed(&AgentCore::OnUnanswered, port != rendezvous::OwnPort::kNone,
                         port == rendezvous::OwnPort::kFree);
          },
      .on_closed =
          [this] {
            closed_ = true;
            if (exit_code_.has_value()) StopWhenDrained();
          }};
}

// Called while the member's first status is processed. A first status is never READY in this epoch, so the next
// round is made with the offer sent here.
void AgentProcess::OnMemberAttached(const std::string& peer) {
  coordinator_->OnMemberAttached();
  loop_.Post([this] { driver_.Feed(&AgentCore::OnReached); });  // the coordinator is busy
  const std::string address = rendezvous::LocalAddressTowards(peer);
  driver_.Feed(&AgentCore::OnLocalAddress, address);
}

// --- Effects --------------------------------------------------------------------------------------------------

void AgentProcess::Do(const SendToCoordinator& send) { session_->Send(send.status); }

void AgentProcess::Do(const Connect&) {
  disconnecting_ = false;
  closed_ = false;
  const bool has_served = IsSet(core_.memory().epoch());  // by this agent or an earlier one
  const auto failed = coordinator_->Listen(has_served);
  if (!failed) return session_->Connect();
  driver_.Feed(&AgentCore::OnDisconnected, failed->why, failed->exit_code);
}

void AgentProcess::Do(const Disconnect&) {
  disconnecting_ = true;
  if (session_ != nullptr) session_->Disconnect();
}

void AgentProcess::Do(const EndHost& end) {
  if (ender_ != nullptr) return;
  coordinator_->GiveUpPort();  // first: ending processes may take long, and the next host may have started
  DeadHosts host{.ids = {host_.host_id()}, .start = host_start_};
  for (const v1::Worker& worker : end.workers) {
    host.sessions.push_back({.pid = worker.pid(), .start = worker.start_ticks()});
  }
  // If we are the host's child, the process that adopts us adopts its other children, too.
  const bool is_child = first_parent_ == static_cast<pid_t>(host_.host_pid());
  if (host_pidfd_ >= 0) loop_.Unwatch(host_pidfd_);
  ender_ = std::make_unique<HostEnder>(
      &loop_, host_pidfd_, std::move(host), [is_child] { return is_child ? getppid() : 0; },
      HostEnder::Events{
          .on_swept = [this] { driver_.Feed(&AgentCore::OnHostSwept); },
          .on_not_swept = [this](const std::string& left) { driver_.Feed(&AgentCore::OnHostNotSwept, left); },
          .on_host_lives = [this] { driver_.Feed(&AgentCore::OnHostLives); },
          .on_remark = [](const std::string& line) { Log(Severity::kWarning, "agent", line); }});
  ender_->Begin(end.kill_first);
}

void AgentProcess::Do(const Probe& probe) {
  const Marker own = OwnMarker(host_.host_id(), config_.run_id(), config_.boot_id(), config_.pid_namespace());
  const bool dead = IsProvedDead(probe.process, own, config_, host_.host_pid());
  loop_.Post([this, dead, process = probe.process] { driver_.Feed(&AgentCore::OnProbed, process, dead); });
}

void AgentProcess::Do(const ExitAgent& exit) {
  if (exit_code_.has_value()) return;
  exit_code_ = exit.exit_code;
  if (exit.at_once) return loop_.Stop();
  Log(Severity::kDebug, "agent", "exits: " + exit.reason);
  if (exit_sent_) coordinator_->GiveUpPort();
  exit_deadline_ = EventLoop::Now() + kFinalSendLimit;
  if (session_ == nullptr) closed_ = true;
  if (!disconnecting_) Do(Disconnect{});
  StopWhenDrained();
}

// Stops the loop when coordinator and host have the last messages, or at the deadline.
void AgentProcess::StopWhenDrained() {
  const bool drained = closed_ && (!link_->open() || link_->drained());
  if (drained || EventLoop::Now() >= exit_deadline_) return loop_.Stop();
  loop_.After(kDrainPoll, [this] { StopWhenDrained(); });
}

void AgentProcess::Tick() {
  coordinator_->Tick();
  door_->OnTick();
  driver_.Feed(&AgentCore::OnServesOthers, coordinator_->HasRemoteMembers());
  driver_.Feed(&AgentCore::OnTick);
  if (held_exit_) Do(*std::exchange(held_exit_, std::nullopt));
  loop_.After(kTick, [this] { Tick(); });
}

}  // namespace

int RunAgent(const AgentStart& start) {
  prctl(PR_SET_NAME, "muster-agent");  // otherwise it is `exe`, from /proc/self/exe
  KeepMemoryPrivate();                 // until it is known that the job has no secret: TakeCredentials()
  setsid();                            // fails if the host has done it already
  PrepareSignals();
  const int exit_code = AgentProcess(start).Run();
  EndPrograms();  // of --on-event
  return exit_code;
}

}  // namespace muster::agent
