// The test binary, and the processes that it starts of itself:
//   exec-stage ...        the real exec stage
//   act tree              a worker with a child, a child in its own session, a double fork and a grandchild of a
//                         shell; prints their pids, one a line, and waits
//   agent --fd 3          an agent that its host has started; its answers follow the text of each status
//   act sidecar PATH WORD ID  the same, after it has come to the socket with this command line and id
//   act wait              says that it is there, and waits
//   act lead              the same, in a session of its own
//   act headless          a second thread waits, the first one ends
//   act host              a host with one waiting worker; prints the worker's pid and waits
//   act timer MS stop     arms the kernel timer and stops itself
//   act timer MS disarm   arms and disarms it, waits twice as long, exits 3
//   act abandon MARKER    starts a tree that bears the marker, and a process of its session that lost it; exits
//   act debug PID         holds a process as a debugger does; says so, and waits
//   act threadless        a call with a limit where no thread can be started; says how it went
//   act heir HOST_ID RUN  ends orphans as a host of that run would; prints how many; waits
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "agent/host/kernel_timer.h"
#include "agent/host/process/exec_stage.h"
#include "base/io/bounded_call.h"
#include "base/io/frame_exchange.h"
#include "base/io/unix_socket.h"
#include "base/proc/dead_hosts.h"
#include "base/wire/sidecar.h"
#include "muster/v1/host.pb.h"
#include "tests/unit/agent/host/host_shell_support.h"

namespace muster::host {
namespace {

constexpr uid_t kNobody = 65534;

[[noreturn]] void WaitForTheEnd() {
  while (true) pause();
}

void Say(const std::string& line) {
  const std::string text = line + "\n";
  (void)!write(STDOUT_FILENO, text.data(), text.size());
}

// The child prints its pid itself, so that the line proves that it lives.
void ForkTwice() {
  const pid_t first = fork();
  if (first == 0) {
    if (fork() == 0) {
      setsid();
      Say(std::to_string(getpid()));
      WaitForTheEnd();
    }
    _exit(0);
  }
  waitpid(first, nullptr, 0);
}

int ActTree() {
  Say(std::to_string(getpid()));
  if (fork() == 0) {
    Say(std::to_string(getpid()));
    WaitForTheEnd();
  }
  if (fork() == 0) {
    setsid();
    Say(std::to_string(getpid()));
    if (fork() == 0) {  // and its own child, which becomes ours only after both died
      Say(std::to_string(getpid()));
      WaitForTheEnd();
    }
    WaitForTheEnd();
  }
  ForkTwice();
  if (fork() == 0) {
    execl("/bin/sh", "sh", "-c", "sleep 1000 & echo $!; sleep 1001", nullptr);
    _exit(127);
  }
  WaitForTheEnd();
}

int ActHost() {
  Hostlet hostlet;
  WorkerCommand command;
  command.argv = {"/bin/sleep", "1000"};
  command.environment = CurrentEnvironment();
  bool executing = false;
  Spawner::WorkerEvents events;
  events.executing = [&] { executing = true; };
  const auto pid = hostlet.spawner.SpawnWorker(command, events);
  hostlet.RunUntil([&] { return executing; });
  Say(std::to_string(*pid));
  WaitForTheEnd();
}

int ActTimer(int ms, bool stop) {
  KernelTimer timer;
  if (!timer.Arm(EventLoop::Now() + absl::Milliseconds(ms)).ok()) return 2;
  if (stop) {
    raise(SIGSTOP);
    WaitForTheEnd();
  }
  timer.Disarm();
  poll(nullptr, 0, 2 * ms);
  return 3;
}

int ActDebug(pid_t pid) {
  Say(ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0 ? "holds it" : std::strerror(errno));
  WaitForTheEnd();
}

// No thread can be started; the limit does not bind root, so the user changes.
[[noreturn]] void ActThreadless() {
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setuid(kNobody) != 0)) _exit(2);
  const bool threads = StartThread([] {}).ok();
  const std::optional<int> got = CallWithin(absl::Seconds(1), [] { return 7; });
  Say(threads ? "threads" : got == 7 ? "called" : "not called");
  _exit(0);  // a sanitizer's own end needs a thread
}

int ActHeir(const std::string& host_id, const std::string& run_id) {
  Say(std::to_string(EndOrphans(OwnMarker(host_id, run_id, "boot", "pid:[1]")).ended.size()));
  WaitForTheEnd();
}

int ActAbandon(const std::string& marker) {
  if (fork() != 0) return 0;
  setsid();
  setenv(kMarkerVariable, marker.c_str(), 1);
  if (fork() == 0) {
    Say(std::to_string(getpid()));
    execl("/usr/bin/env", "env", "-i", "/bin/sleep", "1000", nullptr);
    _exit(127);
  }
  const std::vector<std::string> argv = ActorArgv({"tree"});
  execl(argv[0].c_str(), argv[0].c_str(), argv[1].c_str(), argv[2].c_str(), nullptr);
  _exit(127);
}

// Answers each status: "exit" by its end, "garbage" by what is no message, others by a directive with their
// numbers.
int ActAgent(int fd) {
  while (true) {
    IncomingFrame frame;
    v1::HostStatus status;
    if (!AwaitFrame(fd, kPatience, &frame).ok()) return 0;
    if (!status.ParseFromString(std::string(frame.payload())) || status.trouble() == "exit") return 0;
    if (status.trouble() == "garbage") {
      (void)!write(fd, "\x01\x00\x00\x00\xff", 5);
      continue;
    }
    v1::HostDirective directive;
    directive.set_agent_number(status.agent_number());
    directive.set_seq(status.seq());
    if (!SendFrame(fd, directive).ok()) return 0;
  }
}

// Says how it was received.
int ActSidecar(const std::string& path, const std::string& word, const std::string& id) {
  const absl::StatusOr<OwnedFd> connection = ConnectToUnixSocket(path);
  v1::AgentHello hello;
  hello.set_protocol(kSplitProtocol);
  hello.add_arguments(word);
  hello.set_sidecar_id(id);
  IncomingFrame frame;
  v1::HostHello answer;
  if (!connection.ok() || !SendFrame(connection->get(), hello).ok()) return 2;
  if (!AwaitFrame(connection->get(), kPatience, &frame).ok()) return 3;
  if (!answer.ParseFromString(std::string(frame.payload()))) return 4;
  Say(answer.refused().empty() ? answer.host_id() : answer.refused());
  return answer.refused().empty() ? ActAgent(connection->get()) : 1;
}

}  // namespace

int Act(const std::vector<std::string>& arguments) {
  const std::string& role = arguments.at(0);
  if (role == "tree") return ActTree();
  if (role == "wait" || role == "lead") {
    if (role == "lead") setsid();
    Say("here");
    WaitForTheEnd();
  }
  if (role == "headless") {
    std::thread(WaitForTheEnd).detach();
    pthread_exit(nullptr);
  }
  if (role == "host") return ActHost();
  if (role == "sidecar") return ActSidecar(arguments.at(1), arguments.at(2), arguments.at(3));
  if (role == "timer") return ActTimer(std::atoi(arguments.at(1).c_str()), arguments.at(2) == "stop");
  if (role == "debug") return ActDebug(std::atoi(arguments.at(1).c_str()));
  if (role == "threadless") ActThreadless();
  if (role == "heir") return ActHeir(arguments.at(1), arguments.at(2));
  if (role == "abandon") return ActAbandon(arguments.at(1));
  return 64;
}

}  // namespace muster::host

int main(int argc, char** argv) {
  using namespace muster::host;
  using muster::PrepareProcess;
  if (argc > 1 && std::string(argv[1]) == kExecStageCommand) return ExecStageMain(argc, argv);
  if (argc > 3 && std::string(argv[1]) == "agent") return ActAgent(std::atoi(argv[3]));
  g_inherited = PrepareProcess();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (argc > 2 && std::string(argv[1]) == kActCommand) return Act(std::vector<std::string>(argv + 2, argv + argc));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
