#include "base/proc/process_setup.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/proc/standard_descriptors.h"

namespace muster {
namespace {

sigset_t IgnoredSignals() {
  sigset_t ignored;
  sigemptyset(&ignored);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) sigaddset(&ignored, signal);
  }
  // A process that waits for children must not ignore SIGCHLD.
  sigdelset(&ignored, SIGCHLD);
  return ignored;
}

}  // namespace

sigset_t AllButFaults() {
  sigset_t signals;
  sigfillset(&signals);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&signals, fault);
  return signals;
}

Inherited PrepareProcess() {
  OpenStandardDescriptors();
  Inherited inherited{};
  inherited.ignored = IgnoredSignals();
  getrlimit(RLIMIT_NOFILE, &inherited.nofile);

  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  const sigset_t blocked = AllButFaults();
  sigprocmask(SIG_SETMASK, &blocked, nullptr);

  rlimit raised = inherited.nofile;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);  // if refused, the old limit stays
  return inherited;
}

void EndWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);
}

void EndBySignal(int signal) {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(signal, &usual, nullptr);
  raise(signal);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

absl::Status CheckDescriptors(int count) {
  std::vector<int> taken;
  int error = 0;
  while (error == 0 && static_cast<int>(taken.size()) < count) {
    const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
    } else {
      taken.push_back(fd);
    }
  }
  const size_t free = taken.size();
  for (int fd : taken) close(fd);
  if (error == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(std::to_string(count) + " more descriptors are needed and only " +
                                      std::to_string(free) +
                                      " can be opened (ulimit -n): " + std::strerror(error));
}

void KeepMemoryPrivate() { prctl(PR_SET_DUMPABLE, 0); }

void OpenMemoryAgain() { prctl(PR_SET_DUMPABLE, 1); }

void EraseVariable(const char* name) {
  if (char* const value = getenv(name)) explicit_bzero(value, std::strlen(value));
  unsetenv(name);
}

}  // namespace muster
