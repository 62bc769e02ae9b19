#include "agent/process/sidecar.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/process/core/sidecar_core.h"
#include "base/console/log.h"
#include "base/core/check.h"
#include "base/core/driver.h"
#include "base/core/status_macros.h"
#include "base/crypto/sidecar_proof.h"
#include "base/exit_codes.h"
#include "base/io/event_loop.h"
#include "base/io/frame_exchange.h"
#include "base/io/health.h"
#include "base/io/thread.h"
#include "base/io/token_lines.h"
#include "base/io/unix_socket.h"
#include "base/io/whole_file.h"
#include "base/proc/pod.h"
#include "base/proc/process_setup.h"
#include "base/text/bounded_json.h"
#include "base/text/signal_name.h"
#include "base/wire/sidecar.h"
#include "nlohmann/json.hpp"

namespace muster::agent {
namespace {

constexpr char kPart[] = "sidecar";
constexpr size_t kMaxResultBytes = 4096;  // of the file that a host has left
constexpr int kMaxChallenges = 4;         // in one call: each change of the host's token file causes one
constexpr int kLinkFd = 3;
constexpr int kHostEndFd = 4;
constexpr int kTokensFd = 5;

bool AsksToEnd(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

// A connection to the host, and what shows the end of its container.
struct HostLink {
  OwnedFd connection;
  OwnedFd host_end;  // see HostHello; invalid: nothing does
};

// Our hello and the host's answer, and if it asks for the token, our proof and its next answer.
struct Exchange {
  explicit Exchange(const v1::AgentHello& said) : out(said), hello(out.payload()) {}
  OwnedFd connection;
  OutgoingFrame out;
  const std::string hello;
  int challenges = 0;  // that the host has sent
  IncomingFrame in;
  bool sent = false;
};

// A socket from which the text can be read, up to its end. An agent gets its tokens by one: until it is private,
// /proc shows its environment to every process of its user, and lets them open its pipes and files, but no socket.
// The descriptor is above those that an agent has by number.
absl::StatusOr<OwnedFd> SocketWith(const std::string& text) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "creating a socket pair");
  }
  const OwnedFd reading(ends[0]), writing(ends[1]);
  const ssize_t sent = send(writing.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return absl::ErrnoToStatus(errno, "handing the tokens over");
  if (sent < static_cast<ssize_t>(text.size())) {
    return absl::ResourceExhaustedError("handing the tokens over: the kernel gives a socket too little memory");
  }
  OwnedFd moved(fcntl(reading.get(), F_DUPFD_CLOEXEC, kTokensFd + 1));
  if (!moved.valid()) return absl::ErrnoToStatus(errno, "copying a descriptor");
  return moved;
}

// Lives on the loop thread.
class SidecarProcess {
 public:
  explicit SidecarProcess(SidecarOptions options)
      : options_(std::move(options)), core_(options_.socket, options_.first_wait) {}
  ~SidecarProcess() {
    HangUp();
    LoseAgent();
    loop_.Unwatch(signals_.get());
  }

  int Run();

 private:
  void Tick();

  // The host.
  void Apply(const CallHost&);
  absl::Status Dial();
  void Talk();
  absl::StatusOr<bool> TryToTalk();  // true: the host has answered
  void TakeAnswer();
  void TakeChallenge(const v1::HostChallenge& challenge);
  std::string ProofFor(const v1::HostChallenge& challenge) const;
  void TakeNewTokens();
  void HangUp();
  void NotReached(const absl::Status& why);
  std::optional<HostResult> ReadResult() const;

  // The agent.
  void Apply(const StartAgentOver&);
  absl::Status StartAgent();
  void WatchAgentsHost();
  void Apply(const KillOwnAgent&);
  void LoseAgent();
  void Apply(const EndSidecar& end);

  void OnSignals();
  void Reap();

  SidecarOptions options_;
  const std::string pod_ = PodHere();
  EventLoop loop_;
  SidecarCore core_;
  CoreDriver<SidecarCore, SidecarEffect> driver_{
      &core_,
      {.clock = &EventLoop::Now,
       .carry_out = ByType<SidecarEffect>([this](const auto& effect) { Apply(effect); }),
       .log = [](const Note& note) { Log(kPart, note); }}};
  HealthDoor health_{
      &loop_, [this] {
        const bool runs = agent_ != 0;
        return Health{runs ? "sidecar, connected to its host" : "sidecar, waiting for its host", runs};
      }};
  OwnedFd signals_;
  std::optional<Exchange> exchange_;  // under way
  HostLink welcomed_;                 // of a host that waits for its agent
  HostLink agents_;                   // of the agent that runs; shared with it
  pid_t agent_ = 0;                   // 0: none runs
  int exit_code_ = kExitFault;
};

int SidecarProcess::Run() {
  if (!loop_.status().ok()) {
    Log(Severity::kError, kPart, std::string(AsStd(loop_.status().message())));
    return kExitFault;
  }
  const sigset_t all = AllButFaults();
  signals_.Reset(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) {
    Log(Severity::kError, kPart, absl::StrCat("creating a descriptor for signals: ", std::strerror(errno)));
    return kExitFault;
  }
  loop_.Watch(signals_.get(), EPOLLIN, [this](uint32_t) { OnSignals(); });
  health_.Open(ListenForHealth());
  driver_.Feed(&SidecarCore::Begin);
  Tick();
  loop_.Run();
  return exit_code_;
}

void SidecarProcess::Tick() {
  driver_.Feed(&SidecarCore::OnTick);
  loop_.After(kTick, [this] { Tick(); });
}

// ---- the host

void SidecarProcess::Apply(const CallHost&) {
  HangUp();
  if (const absl::Status dialled = Dial(); !dialled.ok()) NotReached(dialled);
}

absl::Status SidecarProcess::Dial() {
  options_.hello.set_nonce(NewNonce());
  exchange_.emplace(options_.hello);
  ASSIGN_OR_RETURN(exchange_->connection, ConnectToUnixSocket(options_.socket));
  RETURN_IF_ERROR(CheckListener(exchange_->connection.get(), options_.socket));
  Talk();
  return absl::OkStatus();
}

void SidecarProcess::Talk() {
  const absl::StatusOr<bool> answered = TryToTalk();
  if (!answered.ok()) return NotReached(answered.status());
  if (*answered) return TakeAnswer();
  loop_.Watch(exchange_->connection.get(), exchange_->sent ? EPOLLIN : EPOLLIN | EPOLLOUT,
              [this](uint32_t) { Talk(); });
}

absl::StatusOr<bool> SidecarProcess::TryToTalk() {
  const int fd = exchange_->connection.get();
  if (!exchange_->sent) {
    const absl::StatusOr<bool> sent = exchange_->out.Write(fd);
    // A host that refuses us may have closed the connection already: its answer is still to be read.
    if (!sent.ok() && !absl::IsUnavailable(sent.status())) return sent.status();
    exchange_->sent = !sent.ok() || *sent;
  }
  return exchange_->in.Read(fd);
}

void SidecarProcess::TakeAnswer() {
  v1::HostHello answer;
  const std::string_view payload = exchange_->in.payload();
  if (!answer.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return NotReached(absl::InvalidArgumentError("its answer cannot be parsed"));
  }
  if (answer.has_challenge()) return TakeChallenge(answer.challenge());
  HostLink link{{}, exchange_->in.TakeDescriptor()};
  loop_.Unwatch(exchange_->connection.get());
  link.connection = std::move(exchange_->connection);
  exchange_.reset();
  if (!answer.refused().empty()) {
    return driver_.Feed(&SidecarCore::OnRefused, answer.exit_code(), answer.refused());
  }
  welcomed_ = std::move(link);
  driver_.Feed(&SidecarCore::OnWelcome, answer.host_id(), answer.retryable_exit_code());
}

// The host must have shown that it has the token before we do.
void SidecarProcess::TakeChallenge(const v1::HostChallenge& challenge) {
  if (++exchange_->challenges > kMaxChallenges) {
    return NotReached(absl::InvalidArgumentError("it asks for the token again and again"));
  }
  v1::SidecarProof answer;
  answer.set_proof(ProofFor(challenge));
  if (answer.proof().empty()) {
    TakeNewTokens();
    answer.set_proof(ProofFor(challenge));
  }
  loop_.Unwatch(exchange_->connection.get());
  exchange_->out = OutgoingFrame(answer);
  exchange_->in = IncomingFrame();
  exchange_->sent = false;
  Talk();
}

// By our token that the host has, too. Empty: it has shown none of ours.
std::string SidecarProcess::ProofFor(const v1::HostChallenge& challenge) const {
  for (const absl::string_view line : absl::StrSplit(options_.tokens, '\n', absl::SkipEmpty())) {
    const std::string_view token = AsStd(line);
    const std::string expected = ProofOfHost(token, exchange_->hello, challenge.nonce());
    for (const std::string& shown : challenge.proofs()) {
      if (SameProof(shown, expected)) return ProofOfSidecar(token, exchange_->hello, challenge.nonce());
    }
  }
  return "";
}

void SidecarProcess::TakeNewTokens() {
  const std::string newest = options_.token_file.empty() ? "" : TokenLines(options_.token_file);
  if (!newest.empty()) options_.tokens = newest;
}

void SidecarProcess::HangUp() {
  if (exchange_ && exchange_->connection.valid()) loop_.Unwatch(exchange_->connection.get());
  exchange_.reset();
}

void SidecarProcess::NotReached(const absl::Status& why) {
  HangUp();
  driver_.Feed(&SidecarCore::OnNotReached, std::string(AsStd(why.message())), ReadResult());
}

// What a host has left here when it ended.
std::optional<HostResult> SidecarProcess::ReadResult() const {
  const absl::StatusOr<std::string> text = ReadWholeFile(ResultPath(options_.socket), kMaxResultBytes);
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<nlohmann::json> result = ParseBoundedJson(*text, {});
  if (!result.ok() || !result->is_object()) return std::nullopt;
  const auto id = result->find(kResultHostId), code = result->find(kResultExitCode),
             pod = result->find(kResultPod);
  if (id == result->end() || code == result->end() || !id->is_string() || !code->is_number_integer()) {
    return std::nullopt;
  }
  const bool of_this_pod = pod != result->end() && pod->is_string() && !pod_.empty() && *pod == pod_;
  return HostResult{id->get<std::string>(), code->get<int>(), of_this_pod};
}

// ---- the agent

void SidecarProcess::Apply(const StartAgentOver&) {
  MUSTER_CHECK(agent_ == 0, "two agents of one sidecar");
  agents_ = std::exchange(welcomed_, {});
  if (const absl::Status started = StartAgent(); !started.ok()) {
    agents_ = {};
    return driver_.Feed(&SidecarCore::OnAgentNotStarted, std::string(AsStd(started.message())));
  }
  WatchAgentsHost();
}

absl::Status SidecarProcess::StartAgent() {
  // All are moved out of the way first: dup2 onto itself would keep close-on-exec.
  const OwnedFd socket(fcntl(agents_.connection.get(), F_DUPFD_CLOEXEC, kTokensFd + 1));
  const OwnedFd end(agents_.host_end.valid() ? fcntl(agents_.host_end.get(), F_DUPFD_CLOEXEC, kTokensFd + 1) : -1);
  ASSIGN_OR_RETURN(const OwnedFd tokens, SocketWith(options_.tokens));
  if (!socket.valid() || end.valid() != agents_.host_end.valid()) {
    return absl::ErrnoToStatus(errno, "copying a descriptor");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket.get(), kLinkFd);
  // Without its sidecar an agent would go on beside the next one's, where no container ends it.
  std::vector<std::string> words = {
      "muster", "agent", "--fd", absl::StrCat(kLinkFd), "--sidecar", absl::StrCat(getpid())};
  if (end.valid()) {
    posix_spawn_file_actions_adddup2(&actions, end.get(), kHostEndFd);
    words.insert(words.end(), {"--host-end", absl::StrCat(kHostEndFd)});
  }
  posix_spawn_file_actions_adddup2(&actions, tokens.get(), kTokensFd);
  words.insert(words.end(), {"--tokens", absl::StrCat(kTokensFd)});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ResourceExhaustedError(WhyRefused(std::error_code(error, std::generic_category())));
  agent_ = pid;
  return absl::OkStatus();
}

// The agent shares both descriptors, so this process sees what the agent sees.
void SidecarProcess::WatchAgentsHost() {
  const int connection = agents_.connection.get(), end = agents_.host_end.get();
  loop_.Watch(connection, EPOLLRDHUP, [this, connection](uint32_t) {
    loop_.Unwatch(connection);
    driver_.Feed(&SidecarCore::OnLinkClosed);
  });
  if (end < 0) return;
  loop_.Watch(end, EPOLLIN, [this, end](uint32_t) {
    loop_.Unwatch(end);
    driver_.Feed(&SidecarCore::OnHostEnded);
  });
}

void SidecarProcess::Apply(const KillOwnAgent&) {
  if (agent_ != 0) kill(agent_, SIGKILL);
}

// The host sees the end of its agent once this process has closed the link, too.
void SidecarProcess::LoseAgent() {
  loop_.Unwatch(agents_.connection.get());
  loop_.Unwatch(agents_.host_end.get());
  agents_ = {};
  agent_ = 0;
}

void SidecarProcess::Apply(const EndSidecar& end) {
  exit_code_ = end.exit_code;
  loop_.Post([this] { loop_.Stop(); });  // it may not run yet
}

// ---- signals

void SidecarProcess::OnSignals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) Reap();
    if (AsksToEnd(number)) driver_.Feed(&SidecarCore::OnEndSignal, DescribeSignal(number));
  }
}

void SidecarProcess::Reap() {
  for (pid_t pid = waitpid(-1, nullptr, WNOHANG); pid > 0; pid = waitpid(-1, nullptr, WNOHANG)) {
    if (pid != agent_) continue;
    LoseAgent();
    driver_.Feed(&SidecarCore::OnAgentEnded);
  }
}

}  // namespace

int RunSidecar(SidecarOptions options) { return SidecarProcess(std::move(options)).Run(); }

}  // namespace muster::agent
