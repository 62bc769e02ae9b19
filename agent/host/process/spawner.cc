#include "agent/host/process/spawner.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "agent/host/process/exec_stage.h"
#include "agent/host/process/leftovers.h"
#include "base/console/log.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/pipe.h"
#include "base/io/thread.h"
#include "base/text/duration.h"

namespace muster::host {
namespace {

// In the child of posix_spawn this link still leads to the parent's program file, even if an upgrade has replaced
// it on disk.
constexpr char kOurselves[] = "/proc/self/exe";
constexpr int kLinkFd = 3;

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Flatten(const EnvironmentMap& environment) {
  std::vector<std::string> flat;
  flat.reserve(environment.size());
  for (const auto& [name, value] : environment) flat.push_back(name + "=" + value);
  return flat;
}

// A zombie is not.
bool IsReaped(int pidfd) { return syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) != 0 && errno == ESRCH; }

Ending ToEnding(const siginfo_t& info) {
  Ending ending;
  ending.by_signal = info.si_code != CLD_EXITED;
  ending.number = info.si_status;
  ending.core_dumped = info.si_code == CLD_DUMPED;
  return ending;
}

}  // namespace

// Arguments of posix_spawn: descriptors 0 to 3 are set, all others are closed; a new session; no signal is
// blocked, and only those are ignored that were ignored when muster started.
struct Spawner::Launch {
  explicit Launch(const sigset_t& ignored) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigfillset(&defaults);
    for (int signal = 1; signal < NSIG; ++signal) {
      if (sigismember(&ignored, signal) == 1) sigdelset(&defaults, signal);
    }
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Launch() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  absl::StatusOr<pid_t> Start(const std::vector<std::string>& argv, const EnvironmentMap& environment,
                              const std::vector<int>& more_fds = {}) {
    static_assert(kFirstMoreFd == kExecStageStatusFd + 1);
    int next = kFirstMoreFd;
    for (const int fd : more_fds) posix_spawn_file_actions_adddup2(&actions, fd, next++);
    posix_spawn_file_actions_addclosefrom_np(&actions, next);
    const std::vector<std::string> flat = Flatten(environment);
    pid_t pid = 0;
    const int error =
        posix_spawn(&pid, kOurselves, &actions, &attributes, Pointers(argv).data(), Pointers(flat).data());
    if (error == ENOENT) return absl::NotFoundError("starting a process: /proc is not mounted");
    if (error != 0) {
      return absl::Status(absl::ErrnoToStatusCode(error),
                          "starting a process: " + WhyRefused(std::error_code(error, std::generic_category())));
    }
    return pid;
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

WorkerCommand ShellCommand(const std::string& line, const EnvironmentMap& environment) {
  return {.argv = {"sh", "-c", line}, .file = "/bin/sh", .environment = environment};
}

Spawner::Spawner(EventLoop* loop, const Inherited& inherited, absl::Duration readers_limit)
    : loop_(loop), inherited_(inherited), readers_limit_(readers_limit), drain_(loop) {}

Spawner::~Spawner() {
  for (auto& [pid, process] : processes_) {
    if (process->timer != 0) loop_->Cancel(process->timer);
    for (int fd : {process->pidfd, process->status_fd}) {
      if (fd < 0) continue;
      loop_->Unwatch(fd);
      close(fd);
    }
  }
}

absl::StatusOr<pid_t> Spawner::SpawnWorker(const WorkerCommand& command, WorkerEvents events) {
  MUSTER_CHECK(!command.argv.empty(), "a worker without a program");
  ASSIGN_OR_RETURN(Pipe status, MakePipe(O_NONBLOCK));
  const std::string& file = command.file.empty() ? command.argv[0] : command.file;
  Launch launch(inherited_.ignored);
  posix_spawn_file_actions_adddup2(&launch.actions, command.stdin_fd, 0);
  posix_spawn_file_actions_adddup2(&launch.actions, command.stdout_fd, 1);
  posix_spawn_file_actions_adddup2(&launch.actions, command.stderr_fd, 2);
  posix_spawn_file_actions_adddup2(&launch.actions, status.in.get(), kExecStageStatusFd);
  absl::StatusOr<pid_t> pid =
      launch.Start(ExecStageArguments(getpid(), inherited_.nofile, file, command.argv, command.cpus),
                   command.environment, command.more_fds);
  RETURN_IF_ERROR(pid.status());
  status.in.Reset();  // or its end would never be seen
  RETURN_IF_ERROR(Adopt(Record(*pid, !command.helper, status.out.Release(), file, std::move(events))));
  return pid;
}

absl::Status Spawner::AdoptWorker(pid_t pid, int status_fd, const std::string& program, WorkerEvents events) {
  return Adopt(Record(pid, /*worker=*/true, status_fd, program, std::move(events)));
}

std::unique_ptr<Spawner::Process> Spawner::Record(pid_t pid, bool worker, int status_fd,
                                                  const std::string& program, WorkerEvents events) {
  auto process = std::make_unique<Process>();
  process->pid = pid;
  process->worker = worker;
  process->status_fd = status_fd;
  process->program = program;
  process->events = std::move(events);
  return process;
}

absl::StatusOr<pid_t> Spawner::SpawnAgent(const std::vector<std::string>& arguments,
                                          const EnvironmentMap& environment, int link_fd,
                                          const std::vector<int>& more_fds, AgentExited exited) {
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null_fd < 0) return absl::ErrnoToStatus(errno, "opening /dev/null");
  sigset_t none;
  sigemptyset(&none);
  Launch launch(none);
  posix_spawn_file_actions_adddup2(&launch.actions, null_fd, 0);
  posix_spawn_file_actions_adddup2(&launch.actions, link_fd, kLinkFd);
  std::vector<std::string> argv = {"muster"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  absl::StatusOr<pid_t> pid = launch.Start(argv, environment, more_fds);
  close(null_fd);
  if (!pid.ok()) return pid.status();
  auto process = std::make_unique<Process>();
  process->pid = *pid;
  process->agent = true;
  process->program = "agent";
  process->agent_exited = std::move(exited);
  RETURN_IF_ERROR(Adopt(std::move(process)));
  return pid;
}

absl::Status Spawner::Adopt(std::unique_ptr<Process> process) {
  Process* const p = process.get();
  p->pidfd = static_cast<int>(syscall(SYS_pidfd_open, p->pid, 0));
  if (p->pidfd < 0) {
    // A process that cannot be watched is killed. It was not reaped, so the pid is still its own.
    absl::Status status = absl::ErrnoToStatus(
        errno, errno == ENOSYS ? "this kernel lacks what Linux has from 5.3 on: pidfd_open" : "pidfd_open");
    kill(p->pid, SIGKILL);
    waitpid(p->pid, nullptr, 0);
    if (p->status_fd >= 0) close(p->status_fd);
    return status;
  }
  const pid_t pid = p->pid;
  processes_[pid] = std::move(process);
  // Edge-triggered, because the pidfd of a process under a debugger is readable long before this process may reap
  // it, and becomes readable once more when the debugger detaches.
  loop_->Watch(p->pidfd, EPOLLIN | EPOLLET, [this, pid](uint32_t) { Collect(pid); });
  if (p->status_fd >= 0) {
    loop_->Watch(p->status_fd, EPOLLIN, [this, pid](uint32_t) {
      if (const auto it = processes_.find(pid); it != processes_.end()) ReadStatus(it->second.get());
    });
  }
  return absl::OkStatus();
}

// End of file: the program executes (or was killed before, as its exit status will show). A record: exec failed.
void Spawner::ReadStatus(Process* process) {
  if (process->status_fd < 0) return;
  ExecStageError error;
  const ssize_t got = read(process->status_fd, &error, sizeof(error));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  loop_->Unwatch(process->status_fd);
  close(process->status_fd);
  process->status_fd = -1;
  if (got == sizeof(error)) {
    process->failure.emplace(SpawnExitCode(error.error), Describe(error, process->program));
  } else if (process->events.executing) {
    process->events.executing();
  }
}

void Spawner::Collect(pid_t pid) {
  auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  if (it->second->ended) return AwaitReaders(pid);
  siginfo_t info{};
  // By pid, which cannot be reused before it is reaped; Linux 5.3 and some sandboxes do not support P_PIDFD.
  const auto id = static_cast<id_t>(pid);
  if (waitid(P_PID, id, &info, WEXITED | WNOWAIT | WNOHANG) != 0) {
    if (errno == ECHILD && IsReaped(it->second->pidfd)) LoseAdopted(pid);
    return;
  }
  if (info.si_pid == 0) return;
  ReadStatus(it->second.get());
  it = processes_.find(pid);  // the callback may have led back here
  if (it == processes_.end()) return;
  Ending ending = ToEnding(info);
  ending.at = EventLoop::Now();
  const WorkerEvents& events = it->second->events;
  if (events.ends) events.ends(pid, ending);
  ending.rest_lives =
      it->second->worker && events.spares_rest && events.spares_rest() && drain_.Await(pid, events.rest_ended);
  if (it->second->agent || it->second->failure || ending.rest_lives) return Report(pid, ending);
  it->second->ended = ending;
  AwaitReaders(pid);
}

void Spawner::AwaitReaders(pid_t pid) {
  Process* const process = processes_.at(pid).get();
  const absl::Duration since = EventLoop::Now() - *process->ended->at;
  const std::vector<ProcessInfo> left = KillAllButReaders(pid, since >= kForksSettle);
  if (!left.empty() && since < readers_limit_) {
    if (process->timer != 0) return;
    process->timer = loop_->After(kReadersPoll, [this, pid, process] {
      process->timer = 0;
      AwaitReaders(pid);
    });
    return;
  }
  for (const ProcessInfo& reader : left) {
    Log(Severity::kWarning, "host",
        "worker (pid " + std::to_string(pid) + ") ended " + muster::FormatDuration(readers_limit_) + " ago, but " +
            Describe(reader) + ", which it had started, still waits at a pipe: killed");
    (void)SignalProcess(reader.pid, reader.start, SIGKILL);
  }
  Report(pid, Ending(*process->ended));
}

void Spawner::Report(pid_t pid, const Ending& ending) {
  // Before the leader is reaped, its process group's number cannot be reused.
  if (!processes_.at(pid)->agent && !ending.rest_lives) kill(-pid, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG);
  const std::unique_ptr<Process> ended = Forget(pid);
  if (ended->agent) {
    if (ended->agent_exited) ended->agent_exited(ending);
  } else if (ended->failure) {
    if (ended->events.failed) ended->events.failed(ended->failure->first, ended->failure->second);
  } else if (ended->events.exited) {
    ended->events.exited(ending);
  }
}

// A worker that was forked for this process ended before it became its child, and another process has reaped it.
void Spawner::LoseAdopted(pid_t pid) {
  const std::unique_ptr<Process> lost = Forget(pid);
  if (lost->events.failed)
    lost->events.failed(kExitFault, "another process has reaped it before it was our child");
}

std::unique_ptr<Spawner::Process> Spawner::Forget(pid_t pid) {
  const auto it = processes_.find(pid);
  std::unique_ptr<Process> ended = std::move(it->second);
  processes_.erase(it);
  if (ended->timer != 0) loop_->Cancel(ended->timer);
  for (const int fd : {ended->pidfd, ended->status_fd}) {  // ReadStatus closes the latter unless the read failed
    if (fd < 0) continue;
    loop_->Unwatch(fd);
    close(fd);
  }
  return ended;
}

void Spawner::CollectWorkers() {
  for (const pid_t pid : LiveWorkers()) Collect(pid);
}

void Spawner::SignalWorkers(int signal) {
  drain_.Signal(signal);
  for (const auto& [pid, process] : processes_) {
    if (process->worker) kill(-pid, signal);
  }
}

void Spawner::StopWorkers(int signal) {
  drain_.Stop(Sessions(), signal);
  SignalWorkers(SIGCONT);  // a stopped process cannot handle the signal
}

int Spawner::ForwardSignal(int signal) { return SignalHandlers(Sessions(), signal); }

int Spawner::ForwardSignal(int signal, const std::set<pid_t>& workers) {
  return SignalHandlers(LiveOf(workers), signal);
}

int Spawner::SignalGroups(int signal, const std::set<pid_t>& workers) {
  int groups = 0;
  for (const pid_t leader : LiveOf(workers)) groups += kill(-leader, signal) == 0 ? 1 : 0;
  return groups;
}

std::set<pid_t> Spawner::LiveOf(const std::set<pid_t>& workers) const {
  const std::set<pid_t> sessions = Sessions();
  std::set<pid_t> live;
  std::set_intersection(workers.begin(), workers.end(), sessions.begin(), sessions.end(),
                        std::inserter(live, live.end()));
  return live;
}

void Spawner::KillWorkers() {
  SignalWorkers(SIGKILL);
  drain_.Forget();
}

// Each worker leads a session, which keeps the worker's pid as its number after the leader has ended. A signal
// would cut short what the readers of an ended one still pass on.
std::set<pid_t> Spawner::Sessions() const {
  std::set<pid_t> sessions = drain_.sessions();
  for (const auto& [pid, process] : processes_) {
    if (process->worker && !process->ended) sessions.insert(pid);
  }
  return sessions;
}

void Spawner::Kill(pid_t pid, int signal) {
  if (Knows(pid)) kill(pid, signal);
}

void Spawner::KillGroup(pid_t leader) {
  if (Knows(leader)) kill(-leader, SIGKILL);
}

std::vector<pid_t> Spawner::LiveWorkers() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, process] : processes_) {
    if (process->worker) pids.push_back(pid);
  }
  return pids;
}

}  // namespace muster::host
