// Prints what it costs a coordinator's process that many agents connect at once: time until each has its first
// directive, processor time, memory, and the cost of their heartbeats and of a look at the job (`muster status`,
// --http) once all of them run a round; with a token and without one, side by side. The coordinator is the real
// one; the agents are real sessions that run no workers. It asserts nothing.
//
//     gathering [AGENTS] [ROUNDS]        default: 1000 agents, each form 3 times
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/check.h"
#include "base/crypto/identity.h"
#include "base/io/event_loop.h"
#include "base/wire/ids.h"
#include "rendezvous/coordinator_service.h"
#include "rendezvous/transport/process_start.h"
#include "rendezvous/transport/remote_session.h"
#include "rendezvous/transport/server.h"
#include "rendezvous/web/status_json.h"

namespace muster::rendezvous {
namespace {

constexpr int kDefaultAgents = 1'000;
constexpr int kDefaultRounds = 3;
constexpr absl::Duration kIdle = absl::Seconds(5);
constexpr absl::Duration kBeat = absl::Seconds(1);
constexpr absl::Duration kLease = absl::Seconds(5);  // a new coordinator waits for its end before the first round
constexpr absl::Duration kLimit = absl::Minutes(2);
constexpr absl::Duration kConnectLimit = absl::Seconds(30);
constexpr int kLooks = 10;
constexpr int kSlots = 8;
constexpr char kRunId[] = "run";
constexpr char kToken[] = "a-token-of-more-than-22-characters";

// What the coordinator's process has used so far.
struct Use {
  double cpu_s = 0;
  int64_t memory_kib = 0;  // now
};

// What one look at the job costs the coordinator's loop, and as JSON a thread of its own.
struct Looked {
  double view_ms = 0;
  double json_ms = 0;
  int64_t view_bytes = 0;
  int64_t json_bytes = 0;
};

Looked LookAt(CoordinatorService* coordinator) {
  Looked looked;
  const BootTime began = EventLoop::Now();
  const std::optional<v1::JobView> view = coordinator->Look({});
  const BootTime seen = EventLoop::Now();
  MUSTER_CHECK(view.has_value(), "the coordinator shows its job");
  looked.view_bytes = static_cast<int64_t>(view->ByteSizeLong());
  looked.json_bytes = static_cast<int64_t>(StatusJson(*view, absl::Now()).size());
  looked.view_ms = absl::ToDoubleMilliseconds(seen - began);
  looked.json_ms = absl::ToDoubleMilliseconds(EventLoop::Now() - seen);
  return looked;
}

Use OwnUse() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Use use;
  use.cpu_s = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
              static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> use.memory_kib;
  }
  return use;
}

std::shared_ptr<LiveCredentials> WithToken(const std::string& token) {
  if (token.empty()) return nullptr;
  return std::make_shared<LiveCredentials>(TokenCredentials({token}, kRunId));
}

constexpr char kAskUse = '?', kAskLook = 'l';

// A process of its own. Writes its port to `out`, and its Use or a Looked for each byte that comes from `in`.
[[noreturn]] void Serve(int agents, const std::string& token, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  MUSTER_CHECK(PrepareForGrpc().ok(), "gRPC can start");
  EventLoop loop;
  const Post post = [&loop](std::function<void()> closure) { loop.Post(std::move(closure)); };
  CoordinatorOptions job;
  job.run_id = kRunId;
  job.min_nodes = job.max_nodes = agents;
  job.lease = kLease;
  CoordinatorService coordinator(job, 42, {post, &EventLoop::Now, [](const Note&) {}, nullptr});
  ServerOptions options;
  options.listen = {.host = "127.0.0.1", .port = 0, .loopback_only = true};
  options.credentials = WithToken(token);
  options.version = "bench";
  options.lease = kLease;
  MUSTER_CHECK(coordinator.Listen(options).ok(), "the coordinator listens");
  std::function<void()> tick = [&] {
    coordinator.Tick();
    loop.After(kTick, tick);
  };
  tick();
  const int port = coordinator.port();
  MUSTER_CHECK(write(out, &port, sizeof(port)) == sizeof(port), "the port was written");
  loop.Watch(in, EPOLLIN, [&](uint32_t) {
    char asked = 0;
    if (read(in, &asked, 1) != 1) std::_Exit(0);
    if (asked == kAskLook) {
      const Looked looked = LookAt(&coordinator);
      MUSTER_CHECK(write(out, &looked, sizeof(looked)) == sizeof(looked), "the look was written");
      return;
    }
    const Use use = OwnUse();
    MUSTER_CHECK(write(out, &use, sizeof(use)) == sizeof(use), "the use was written");
  });
  loop.Run();
  std::_Exit(0);
}

struct Result {
  double gathered_s = 0;
  double gathering_cpu_s = 0;
  double memory_mib = 0;
  double idle_cpu_ms = 0;  // of each second
  Looked look;             // the slowest of some
};

class Job {
 public:
  Job(int agents, const std::string& token) : token_(token) {
    int to[2], from[2];
    MUSTER_CHECK(pipe(to) == 0 && pipe(from) == 0, "pipes");
    pid_ = fork();
    if (pid_ == 0) {
      close(to[1]);
      Serve(agents, token, to[0], from[1]);
    }
    close(to[0]);
    ask_ = to[1];
    answer_ = from[0];
    Read(&port_, sizeof(port_));
    nodes_.resize(static_cast<size_t>(agents));
    for (Node& node : nodes_) node.host = IdentityFrom(NewSecret());
  }
  ~Job() {
    nodes_.clear();
    close(ask_);
    waitpid(pid_, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Result Run() {
    Result result;
    const Use before = Ask();
    const BootTime began = EventLoop::Now();
    for (size_t i = 0; i < nodes_.size(); ++i) Connect(i);
    Await([this] { return answered_ == nodes_.size(); });
    result.gathered_s = absl::ToDoubleSeconds(EventLoop::Now() - began);
    const Use gathered = Ask();
    result.gathering_cpu_s = gathered.cpu_s - before.cpu_s;
    result.memory_mib = static_cast<double>(gathered.memory_kib - before.memory_kib) / 1024;
    BeginToBeat();
    Await([this] { return running_ == nodes_.size(); });
    Pass(kBeat);  // the last of them has said so
    const Use running = Ask();
    Pass(kIdle);
    result.idle_cpu_ms = (Ask().cpu_s - running.cpu_s) * 1e3 / absl::ToDoubleSeconds(kIdle);
    for (int i = 0; i < kLooks; ++i) {
      const Looked look = Look();
      if (look.view_ms > result.look.view_ms) result.look = look;
    }
    return result;
  }

 private:
  void Read(void* to, size_t size) const {
    MUSTER_CHECK(read(answer_, to, size) == static_cast<ssize_t>(size), "the coordinator answers");
  }
  Use Ask() const {
    MUSTER_CHECK(write(ask_, &kAskUse, 1) == 1, "the coordinator is asked");
    Use use;
    Read(&use, sizeof(use));
    return use;
  }

  Looked Look() const {
    MUSTER_CHECK(write(ask_, &kAskLook, 1) == 1, "the coordinator is asked");
    Looked looked;
    Read(&looked, sizeof(looked));
    return looked;
  }

  void Connect(size_t i) {
    Node& node = nodes_[i];
    RemoteSessionOptions options;
    options.dial.coordinator.set_host("127.0.0.1");
    options.dial.coordinator.set_port(static_cast<uint32_t>(port_));
    options.dial.credentials = WithToken(token_);
    options.dial.lease = kLease;
    options.host = node.host;
    options.connect_limit = kConnectLimit;
    SessionEvents events;
    events.on_connected = [this, i](const std::string&) { Say(i); };
    events.on_directive = [this, i](const v1::Directive& directive) { Take(i, directive); };
    events.on_disconnected = [this, i](const std::string& why, int) {
      std::fprintf(stderr, "agent %zu: %s\n", i, why.c_str());
      nodes_[i].session->Connect();
    };
    events.on_closed = [] {};
    v1::AgentStatus& status = node.status;
    status.mutable_id()->set_agent_number(1);
    status.set_protocol(kProtocol);
    status.set_run_id(kRunId);
    status.set_host_id(node.host.id);
    status.set_hostname(absl::StrCat("worker-", i));
    status.set_phase(v1::PHASE_READY);
    status.set_slots(kSlots);
    status.set_in_job_ms(1);
    status.mutable_offer()->set_host("127.0.0.1");
    status.mutable_offer()->set_port(5000);
    node.session = std::make_unique<RemoteSession>(options, &loop_, events);
    node.session->Connect();
  }

  // Acts as an agent whose workers start at once.
  void Take(size_t i, const v1::Directive& directive) {
    Node& node = nodes_[i];
    if (!node.answered) ++answered_;
    node.answered = true;
    v1::AgentStatus& status = node.status;
    *status.mutable_applied() = directive.id();
    *status.mutable_epoch() = directive.id().epoch();
    if (!directive.has_run() || status.phase() == v1::PHASE_RUNNING) return;
    *status.mutable_last() = directive.run();
    status.set_phase(v1::PHASE_RUNNING);
    status.set_outcome(v1::OUTCOME_RAN);
    status.set_live_workers(kSlots);
    status.set_quiet_ms(100);
    for (int slot = 0; slot < kSlots; ++slot) status.add_steps(48'120 + slot);
    ++running_;
  }

  void Say(size_t i) {
    Node& node = nodes_[i];
    node.status.mutable_id()->set_seq(node.status.id().seq() + 1);
    node.session->Send(node.status);
  }

  // At times of its own, as nodes do.
  void Beat(size_t i) {
    Say(i);
    loop_.After(kBeat, [this, i] { Beat(i); });
  }
  void BeginToBeat() {
    const auto agents = static_cast<double>(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      loop_.After(kBeat * (static_cast<double>(i) / agents), [this, i] { Beat(i); });
    }
  }

  void Pass(absl::Duration time) {
    const BootTime until = EventLoop::Now() + time;
    Await([until] { return EventLoop::Now() >= until; });
  }

  void Await(const std::function<bool()>& done) {
    const BootTime until = EventLoop::Now() + kLimit;
    std::function<void()> look = [&] {
      if (done()) return loop_.Stop();
      MUSTER_CHECK(EventLoop::Now() < until, "all agents are answered in time");
      loop_.After(absl::Milliseconds(1), look);
    };
    loop_.Post(look);
    loop_.Run();
  }

  struct Node {
    Identity host;
    v1::AgentStatus status;
    bool answered = false;
    std::unique_ptr<RemoteSession> session;
  };

  const std::string token_;
  pid_t pid_ = 0;
  int ask_ = -1;
  int answer_ = -1;
  int port_ = 0;
  size_t answered_ = 0;
  size_t running_ = 0;
  EventLoop loop_;
  std::vector<Node> nodes_;
};

// In a process of its own, since gRPC does not survive a fork.
Result RunOnce(int agents, const std::string& token) {
  int result_pipe[2];
  MUSTER_CHECK(pipe(result_pipe) == 0, "a pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    RaiseDescriptorLimit();
    Result result;
    {
      Job job(agents, token);
      result = job.Run();
    }
    MUSTER_CHECK(write(result_pipe[1], &result, sizeof(result)) == sizeof(result), "the result was written");
    std::_Exit(0);
  }
  close(result_pipe[1]);
  Result result;
  const bool told = read(result_pipe[0], &result, sizeof(result)) == sizeof(result);
  close(result_pipe[0]);
  waitpid(pid, nullptr, 0);
  MUSTER_CHECK(told, "the run ends");
  return result;
}

int Main(int argc, char** argv) {
  const int agents = argc > 1 ? std::atoi(argv[1]) : kDefaultAgents;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : kDefaultRounds;
  std::printf(
      "%d agents of one machine        gathered    CPU of it   memory      CPU of beats, each second     slowest "
      "look: as JSON\n",
      agents);
  for (int round = 0; round < rounds; ++round) {
    for (const char* token : {"", kToken}) {
      const Result result = RunOnce(agents, token);
      std::printf("%-30s %8.2f s %10.2f s %7.1f MiB %10.1f ms %20.1f ms, %d KiB: %.1f ms, %d KiB\n",
                  *token == '\0' ? "without a token" : "with a token", result.gathered_s, result.gathering_cpu_s,
                  result.memory_mib, result.idle_cpu_ms, result.look.view_ms,
                  static_cast<int>(result.look.view_bytes / 1024), result.look.json_ms,
                  static_cast<int>(result.look.json_bytes / 1024));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace muster::rendezvous

int main(int argc, char** argv) { return muster::rendezvous::Main(argc, argv); }
