#include "tests/unit/agent/host/host_shell_support.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/proc/proc_scan.h"

namespace muster::host {

Inherited g_inherited;

std::vector<std::string> ActorArgv(const std::vector<std::string>& arguments) {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  std::vector<std::string> argv = {std::string(path, static_cast<size_t>(size)), kActCommand};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

EnvironmentMap CurrentEnvironment() {
  EnvironmentMap environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr) environment[std::string(*entry, static_cast<size_t>(equals - *entry))] = equals + 1;
  }
  return environment;
}

pid_t SpawnActor(const std::vector<std::string>& arguments, int stdout_fd, const EnvironmentMap& environment) {
  std::vector<std::string> argv = ActorArgv(arguments);
  std::vector<char*> pointers;
  for (std::string& s : argv) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  std::vector<std::string> flat;
  for (const auto& [name, value] : environment.empty() ? CurrentEnvironment() : environment) {
    flat.push_back(name + "=" + value);
  }
  std::vector<char*> env_pointers;
  for (std::string& s : flat) env_pointers.push_back(s.data());
  env_pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, stdout_fd, 1);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, pointers.data(), env_pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

bool IsDead(pid_t pid) {
  const auto info = ReadProcess(pid);
  return !info || info->ended();
}

LinePipe::LinePipe() {
  if (pipe2(fds_, O_CLOEXEC) != 0) std::abort();
}

LinePipe::~LinePipe() {
  close(fds_[0]);
  CloseIn();
}

void LinePipe::CloseIn() {
  if (fds_[1] >= 0) close(fds_[1]);
  fds_[1] = -1;
}

std::string LinePipe::Line() {
  while (buffer_.find('\n') == std::string::npos) {
    pollfd ready{fds_[0], POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) <= 0) return "";
    char bytes[512];
    const ssize_t got = read(fds_[0], bytes, sizeof(bytes));
    if (got <= 0) return "";
    buffer_.append(bytes, static_cast<size_t>(got));
  }
  const size_t end = buffer_.find('\n');
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

bool Eventually(const std::function<bool()>& condition) {
  const BootTime deadline = EventLoop::Now() + kPatience;
  while (!condition()) {
    if (EventLoop::Now() > deadline) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

Hostlet::Hostlet(absl::Duration readers_limit)
    : spawner(&loop, g_inherited, readers_limit), sweeper(&loop, &spawner, [this](const std::string& left) {
        reports.push_back(left);
        if (left.empty()) swept = true;
      }) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  signal_fd_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  loop.Watch(signal_fd_, EPOLLIN, [this](uint32_t) {
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof(info)) > 0) {
    }
    sweeper.OnChildSignal();
  });
}

Hostlet::~Hostlet() {
  swept = false;
  sweeper.Sweep();
  RunUntil([this] { return swept; });
  close(signal_fd_);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

bool Hostlet::RunUntil(const std::function<bool()>& condition) {
  const BootTime deadline = EventLoop::Now() + kPatience;
  std::function<void()> look = [&] {
    if (condition() || EventLoop::Now() > deadline) {
      loop.Stop();
    } else {
      loop.After(absl::Milliseconds(2), look);
    }
  };
  loop.Post(look);
  loop.Run();
  return condition();
}

}  // namespace muster::host
