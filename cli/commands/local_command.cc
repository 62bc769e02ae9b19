// `muster local`: starts the nodes, forwards signals to them, shows their output and waits for them.
//
// The first thread waits for signals and for the nodes to end; a second one reads the nodes' pipes and writes, so
// that a blocked terminal never delays a Ctrl-C.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/host/core/output_plan.h"
#include "agent/host/init.h"
#include "agent/host/report/job_end.h"
#include "base/core/one_signal.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/io/thread.h"
#include "base/proc/keyboard.h"
#include "base/proc/process_setup.h"
#include "base/proc/shell_job.h"
#include "base/text/duration.h"
#include "base/text/signal_name.h"
#include "base/wire/sidecar.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/commands/launcher_line.h"
#include "cli/commands/local_console.h"
#include "cli/commands/node_start.h"
#include "cli/commands/startup_signals.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_readers.h"
#include "cli/options/option_table.h"
#include "cli/plan/debugger.h"
#include "cli/plan/local_plan.h"
#include "cli/plan/machine.h"
#include "cli/plan/make_plan.h"
#include "cli/plan/program.h"
#include "cli/plan/respawn.h"
#include "cli/plan/run_plan.h"
#include "cli/plan/token.h"

namespace muster::cli {
namespace {

constexpr char kNoRespawn[] = "no-respawn";
constexpr absl::Duration kKillAfterSecondSignal = absl::Seconds(5);
constexpr absl::Duration kOutputAfterSignal = absl::Seconds(2);  // time for the reader once all nodes have ended
constexpr int kSecondSignal = 2;
constexpr int kOwnDescriptors = 2;      // events and signals
constexpr int kDescriptorsOfANode = 4;  // both ends of the pipes of standard output and standard error
constexpr int kForwardedSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

bool EndsTheJob(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

absl::Status SystemError(const char* what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(error)));
}

absl::StatusOr<uint16_t> FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return SystemError("cannot find a free port", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool found = bind(fd, generic, size) == 0 && getsockname(fd, generic, &size) == 0;
  const int error = errno;
  close(fd);
  if (!found) return SystemError("cannot find a free port on 127.0.0.1", error);
  return ntohs(address.sin_port);
}

host::Streams Terminals() { return host::StreamsOf(isatty(STDOUT_FILENO) == 1, isatty(STDERR_FILENO) == 1); }

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipes {
  std::array<int, 2> out = {-1, -1};
  std::array<int, 2> err = {-1, -1};
};

struct Node {
  const LocalNode* plan = nullptr;
  Pipes pipes;     // the ends to write to stay open for as long as the node may be started again
  pid_t pid = -1;  // -1: ended and reaped
  int exit_code = 0;
  BootTime respawn_at = absl::InfiniteFuture();
  bool came_too_late = false;  // and was told to end: its exit code is not the job's

  bool IsOver() const { return pid < 0 && respawn_at == absl::InfiniteFuture(); }
};

// Starts `muster local-node NUMBER PID ...`, so that `ps` shows which node it is, in a process group of its own,
// so that only we receive the terminal's Ctrl-C.
absl::StatusOr<pid_t> SpawnNode(int number, const LocalNode& node, const std::string& called_as,
                                const Pipes& pipes) {
  std::vector<std::string> argv = {called_as, kLocalNodeCommand, absl::StrCat(number), absl::StrCat(getpid())};
  argv.insert(argv.end(), node.arguments.begin(), node.arguments.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : node.environment) variables.push_back(absl::StrCat(name, "=", value));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes.out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipes.err[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, pipe_signal;
  sigemptyset(&none);
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);  // ignored only by this process
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, Pointers(argv).data(),
                                Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::InternalError(
        absl::StrCat("cannot start a node: ", WhyRefused(std::error_code(error, std::generic_category()))));
  }
  return pid;
}

class LocalJob {
 public:
  // plans: must outlive it.
  LocalJob(std::string called_as, const std::vector<LocalNode>& plans, bool respawns)
      : called_as_(std::move(called_as)),
        plans_(plans),
        respawns_nodes_(respawns),
        respawns_(static_cast<int>(plans.size()), respawns) {}

  // Before Run. first: the plan of a node.
  void GroupLines(const RunPlan& first) {
    const auto choice = ValueOr(first.settings.output.group_lines, cli::GroupLines::kAuto);
    const Given<DebugChoice>& debug = first.settings.workers.debug;
    if (choice == cli::GroupLines::kOff || (debug && !debug->value.port)) return;  // pdb's lines do not wait
    const int of_a_node =
        host::RanksWithPrefix(first.launch.output, first.host.config.slots(), host::Streams::kOut);
    console_.GroupLines(of_a_node * first.host.config.max_nodes(), choice == cli::GroupLines::kOn);
  }

  int Run() {
    WatchSignals();
    absl::Status started;
    for (size_t i = 0; i < plans_.size() && started.ok(); ++i) started = Open(plans_[i]);
    if (!started.ok()) EndAll(SIGTERM);
    if (const absl::Status reads = console_.Start(); !reads.ok()) {
      EndAll(SIGKILL);  // nothing would read their output; their agents end their workers
      return Complain(reads);
    }
    while (AnyAlive() || !console_.finished()) {
      if (!WaitAndHandle() || ReaderIsTooSlow()) {  // only output is left, after a signal that asked for the end
        console_.Abandon();
        terminal_.Restore();
        std::_Exit(ExitCode());
      }
    }
    if (const std::string lost = console_.Lost(); !lost.empty()) {
      std::fprintf(stderr, "muster local: %s\n", lost.c_str());
    }
    if (!started.ok()) return Complain(started);
    return ExitCode();
  }

 private:
  void WatchSignals() {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (int signal : kForwardedSignals) {
      struct sigaction before {};
      sigaction(signal, nullptr, &before);
      if (before.sa_handler != SIG_IGN) sigaddset(&watched, signal);  // keeps nohup's effect
    }
    signal_fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  absl::Status Open(const LocalNode& plan) {
    Pipes pipes;
    if (pipe2(pipes.out.data(), O_CLOEXEC) != 0 || pipe2(pipes.err.data(), O_CLOEXEC) != 0) {
      return SystemError("cannot create a pipe", errno);
    }
    const int number = static_cast<int>(nodes_.size());
    console_.Add(pipes.out[0], STDOUT_FILENO, number);
    console_.Add(pipes.err[0], STDERR_FILENO, number);
    nodes_.push_back({&plan, pipes});
    absl::Status started = Spawn(number);
    if (!started.ok()) CloseIfOver(&nodes_.back());
    return started;
  }

  absl::Status Spawn(int number) {
    Node& node = nodes_[static_cast<size_t>(number)];
    node.respawn_at = absl::InfiniteFuture();
    ASSIGN_OR_RETURN(node.pid, SpawnNode(number, *node.plan, called_as_, node.pipes));
    respawns_.OnStart(EventLoop::Now(), number);
    return absl::OkStatus();
  }

  void Respawn() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (EventLoop::Now() < nodes_[i].respawn_at) continue;
      if (const absl::Status started = Spawn(static_cast<int>(i)); !started.ok()) Complain(started);
      CloseIfOver(&nodes_[i]);
    }
  }

  static void CloseIfOver(Node* node) {
    if (!node->IsOver()) return;
    for (int* end : {&node->pipes.out[1], &node->pipes.err[1]}) {
      if (*end >= 0) close(std::exchange(*end, -1));
    }
  }

  // False: after a signal that asked for the end, only output that nothing reads is left.
  bool WaitAndHandle() {
    std::array<pollfd, 2> polled = {pollfd{signal_fd_, POLLIN, 0}, pollfd{console_.event_fd(), POLLIN, 0}};
    int timeout_ms = -1;
    BootTime due = std::min({kill_at_, abandon_at_, late_from_});
    for (const Node& node : nodes_) due = std::min(due, node.respawn_at);
    if (due < absl::InfiniteFuture()) {
      const absl::Duration left = std::max(due - EventLoop::Now(), absl::ZeroDuration());
      timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
    }
    poll(polled.data(), polled.size(), timeout_ms);
    uint64_t woken = 0;
    if (read(console_.event_fd(), &woken, sizeof(woken)) > 0 && console_.broken() && asked_ == 0) {
      ++asked_;
      std::fputs("muster local: the output was closed by its reader: ending the job\n", stderr);
      EndAll(SIGTERM);
    }
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD && !Forward(signal)) return false;
    }
    Reap();
    Respawn();
    EndThoseWhoCameTooLate();
    if (EventLoop::Now() >= kill_at_) {
      kill_at_ = absl::InfiniteFuture();
      SendAll(SIGKILL);
    }
    return true;
  }

  // Whether the time for output of ended nodes is over, after a signal that asked for the end.
  bool ReaderIsTooSlow() {
    if (asked_ == 0 || AnyAlive()) return false;
    if (abandon_at_ == absl::InfiniteFuture()) abandon_at_ = EventLoop::Now() + kOutputAfterSignal;
    return EventLoop::Now() >= abandon_at_;
  }

  bool Forward(int signal) {
    if (EndsTheJob(signal)) {
      if (!AnyAlive()) return false;
      const BootTime now = EventLoop::Now();
      if (now < asked_at_ + kOneSignal) return true;  // sent twice, as timeout(1) does
      asked_at_ = now;
      if (asked_ == 0) cancelled_ = signal == SIGINT;
      if (++asked_ == kSecondSignal) kill_at_ = now + kKillAfterSecondSignal;
    }
    if (signal == SIGTSTP && !ShellCanContinue()) return true;  // the kernel does the same for orphaned groups
    if (EndsTheJob(signal)) {
      EndAll(signal);
    } else {
      SendAll(signal);
    }
    if (signal == SIGTSTP) raise(SIGSTOP);  // SIGCONT is forwarded to the nodes
    return true;
  }

  void SendAll(int signal) {
    for (const Node& node : nodes_) {
      if (node.pid > 0) kill(node.pid, signal);
    }
  }

  // No node is started again. One that was about to be ends as if it had got the signal.
  void EndAll(int signal) {
    respawns_.End();
    SendAll(signal);
    GiveUpRespawns(signal == SIGINT ? kExitCancelled : kExitLeft);
  }

  // exit_code: of the nodes that were about to be started again.
  void GiveUpRespawns(int exit_code) {
    for (Node& node : nodes_) {
      if (node.respawn_at == absl::InfiniteFuture()) continue;
      node.respawn_at = absl::InfiniteFuture();
      node.exit_code = exit_code;
      CloseIfOver(&node);
    }
  }

  void EndThoseWhoCameTooLate() {
    late_from_ = respawns_.LateFrom();
    if (EventLoop::Now() < late_from_) return;
    late_from_ = absl::InfiniteFuture();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (node.pid <= 0 || node.came_too_late || !respawns_.IsLate(static_cast<int>(i))) continue;
      node.came_too_late = true;
      std::fprintf(stderr,
                   "muster local: the job has ended without node %zu, which was started again: ending it\n", i);
      kill(node.pid, SIGTERM);
    }
  }

  void Reap() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      int status = 0;
      if (node.pid <= 0 || waitpid(node.pid, &status, WNOHANG) != node.pid) continue;
      node.pid = -1;
      node.exit_code = WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
      if (node.came_too_late) node.exit_code = respawns_.result();
      const BootTime now = EventLoop::Now();
      const auto delay = respawns_.OnEnd(now, static_cast<int>(i), status);
      if (delay) node.respawn_at = now + *delay;
      SayWhatFollows(i, status, delay);
      CloseIfOver(&node);
    }
    if (respawns_.over()) GiveUpRespawns(respawns_.result());
  }

  // respawn: after which time the node is started again; nullopt: it is not.
  void SayWhatFollows(size_t node, int status, std::optional<absl::Duration> respawn) const {
    const bool stays_away = !respawns_nodes_ && asked_ == 0 && WIFSIGNALED(status) && WTERMSIG(status) != SIGINT;
    if (!respawn && !stays_away) return;
    const std::string next =
        respawn ? absl::StrCat("starting it again in ", muster::FormatDuration(*respawn), " (--no-respawn: never)")
                : "it stays away (--no-respawn)";
    std::fprintf(stderr, "muster local: node %zu was ended by %s, which muster local did not send: %s\n", node,
                 DescribeSignal(WTERMSIG(status)).c_str(), next.c_str());
  }

  bool AnyAlive() const {
    for (const Node& node : nodes_) {
      if (!node.IsOver()) return true;
    }
    return false;
  }

  // Does not return if Ctrl-C ended the job, that is if the first failed node ended by SIGINT or exited 130: then
  // this process ends by SIGINT, too.
  int ExitCode() const {
    if (cancelled_ && FirstFailure() == kExitCancelled) {
      terminal_.Restore();
      std::fflush(nullptr);
      EndBySignal(SIGINT);
    }
    return FirstFailure();
  }

  int FirstFailure() const {
    for (const Node& node : nodes_) {
      if (node.exit_code != 0) return node.exit_code;
    }
    return 0;
  }

  const std::string called_as_;
  const std::vector<LocalNode>& plans_;
  const bool respawns_nodes_;
  Respawns respawns_;
  const TerminalModes terminal_;
  std::vector<Node> nodes_;
  LocalConsole console_;
  int signal_fd_ = -1;
  int asked_ = 0;
  bool cancelled_ = false;  // the first signal that asked for the end was SIGINT
  BootTime asked_at_ = absl::InfinitePast();
  BootTime kill_at_ = absl::InfiniteFuture();
  BootTime abandon_at_ = absl::InfiniteFuture();
  BootTime late_from_ = absl::InfiniteFuture();
};

}  // namespace

const std::vector<OptionSpec>& LocalOptions() {
  // kPet: so --node is as near to --nodes as to torchrun's --node-rank, and is refused as ambiguous.
  static const auto* const table = WithRunOptions(
      {{"nodes", "N", Group::kOther, kPet | kNoVariable, "Number of nodes to start on this machine. Required.",
        ValueReader{{}, {}, FromTo(kLocalNodeCounts)}},
       {kNoRespawn, "", Group::kOther, kOwn,
        "Do not start a node again that was ended by a signal which muster local did not send, for "
        "example when the machine was suspended for longer than --lease."}});
  return *table;
}

std::string LocalHelp() {
  std::string out = R"(Usage: muster local --nodes N [options] SCRIPT [ARGS]

Runs N nodes on this machine, each with a loopback address of its own and a
CLUSTER_SPEC, as on a platform. Each line of output begins with the node and the
rank of the worker that wrote it. The accelerators are divided among the nodes.
Ctrl-C stops all nodes; a second one stops them at once. The exit code is that
of the first node whose exit code is not 0. A node that is killed is started
again, as by a platform.

  muster local --nodes 3 --nproc-per-node 2 train.py --epochs 2

All options of muster run (see muster run --help) are accepted, except those of
its group Membership, which muster local sets itself; of these only --nnodes,
--rdzv-id, --token-file and --tls-* are accepted (without a token or
certificates it makes a token). With --nnodes MIN:MAX, nodes above MAX are
spares: they wait to replace a lost node. As on a platform, --max-restarts
defaults to 3.
)";
  AppendGroup(LocalOptions(), Group::kOther, "In addition to the options of muster run", &out);
  return out;
}

int LocalCommand(const Invocation& invocation) {
  if (getpid() == 1) return host::RunInit(invocation.argv);
  const auto command_line = ParseCommandLine(LocalOptions(), invocation.arguments, "muster local");
  if (!command_line.ok()) return Complain(command_line.status());
  if (command_line->help) return Print(LocalHelp());
  if (const auto socket = command_line->given.find("host-socket"); socket != command_line->given.end()) {
    return Complain(
        Fault(Origin::kFlag, "--host-socket", socket->second, "muster local runs whole nodes; leave it out"));
  }
  if (const absl::Status single = CheckNoLauncherIn(*command_line); !single.ok()) return Complain(single);
  const absl::StatusOr<int> nodes = LocalNodeCount(*command_line);
  if (!nodes.ok()) return Complain(nodes.status());

  const Inherited inherited = PrepareProcess();
  StartupSignals startup_signals(inherited);
  Environment environment = TakeEnvironment();
  std::string& token = environment[kTokenVariable];
  const bool has_files = environment.contains(kTokenFileVariable) || environment.contains(kTlsCertVariable) ||
                         command_line->given.contains(kTokenFileOption) ||
                         command_line->given.contains("tls-cert");
  if (token.empty() && !has_files) token = NewToken();
  KeepMemoryPrivate();
  const Machine machine = ReadMachine(environment);
  const absl::StatusOr<uint16_t> port = FreePort();
  if (!port.ok()) return Complain(port.status());
  const LocalFacts facts{*port,
                         absl::StrCat("local-", machine.random_run_id),
                         machine.accelerators(),
                         Terminals(),
                         HasKeyboard(),
                         host::OwnStreams(),
                         machine.first_process};
  const std::vector<LocalNode> plans = PlanLocal(*nodes, *command_line, environment, facts);

  // Reports errors once, which otherwise every node would report.
  const auto node_line = ParseCommandLine(RunOptions(), plans[0].arguments);
  if (!node_line.ok()) return Complain(node_line.status());
  absl::StatusOr<RunPlan> first = Plan(*node_line, plans[0].environment, ReadMachine(plans[0].environment));
  if (!first.ok()) return Complain(first.status());
  if (const absl::Status other = CheckNoLauncherInside(*command_line, *first, kLocalCommand); !other.ok())
    return Complain(other);
  if (const absl::Status usable = CheckDebugKeyboard(first->settings, HasDialogue()); !usable.ok())
    return Complain(usable);
  PlanProgram(ReadProcess(plans[0].environment, invocation.called_as), &*first);
  TakeDebugpy(&*first);
  if (first->check.exit_code != 0) {
    Complain(absl::NotFoundError(first->check.problem));
    return first->check.exit_code;
  }

  setrlimit(RLIMIT_NOFILE, &inherited.nofile);  // the nodes raise the limit themselves
  const int needed = kOwnDescriptors + kDescriptorsOfANode * static_cast<int>(plans.size());
  if (const absl::Status enough = CheckDescriptors(needed); !enough.ok()) return Complain(enough);
  LocalJob job(invocation.called_as, plans, !command_line->given.contains(kNoRespawn));
  job.GroupLines(*first);
  startup_signals.Stop();
  return job.Run();
}

int LocalNodeCommand(const Invocation& invocation) {
  constexpr int kOwnArguments = 2;  // the node's number, for people; the parent's pid
  int parent = 0;
  if (invocation.arguments.size() < kOwnArguments || !absl::SimpleAtoi(invocation.arguments[1], &parent)) {
    return Complain(absl::InvalidArgumentError("local-node is an internal command; see muster --help"));
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) return kExitSignalBase + SIGTERM;  // the parent ended before prctl
  Invocation run = invocation;
  run.arguments.erase(run.arguments.begin(), run.arguments.begin() + kOwnArguments);
  run.command = kLocalCommand;
  return RunCommand(run);
}

}  // namespace muster::cli
