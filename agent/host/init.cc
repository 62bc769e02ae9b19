#include "agent/host/init.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <system_error>

#include "absl/time/time.h"
#include "base/core/time.h"
#include "base/environment.h"
#include "base/exit_codes.h"
#include "base/io/event_loop.h"
#include "base/io/thread.h"
#include "base/proc/process_setup.h"

namespace muster::host {
namespace {

// Whether a key of the terminal sent the signal. Such a signal goes to the whole foreground group, so the host has
// it already; a forwarded copy would be a second request, which means "stop immediately".
bool FromTerminalKey(const siginfo_t& info) {
  const bool key = info.si_signo == SIGINT || info.si_signo == SIGQUIT || info.si_signo == SIGTSTP;
  return key && info.si_code == SI_KERNEL;
}

// Time limit for the children of a host that was killed. Its agent needs it to kill what the host had started and
// to report to the coordinator; otherwise the group waits for the end of the lease and does not learn the cause.
constexpr absl::Duration kAgentCleanupLimit = absl::Seconds(2);

struct Reaped {
  bool host = false;       // the host was among the children that had ended
  bool childless = false;  // there is no child left
};

// Reaps every child that has ended. host_status is written if the host was among them.
Reaped Reap(pid_t host, int* host_status) {
  Reaped reaped;
  while (true) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
    if (pid <= 0) {
      reaped.childless = pid < 0 && errno == ECHILD;
      return reaped;
    }
    if (pid != host) continue;
    *host_status = status;
    reaped.host = true;
  }
}

void AwaitChildren(absl::Duration limit) {
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  const BootTime until = EventLoop::Now() + limit;
  int unused = 0;
  while (!Reap(0, &unused).childless) {
    const absl::Duration left = until - EventLoop::Now();
    if (left <= absl::ZeroDuration()) return;
    const timespec wait = absl::ToTimespec(left);
    sigtimedwait(&child_signal, nullptr, &wait);
  }
}

int ExitCode(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

int RunInit(char** argv) {
  // The host does not inherit this mask; it starts with the mask that this process was started with.
  const sigset_t all = AllButFaults();
  sigset_t before;
  sigprocmask(SIG_SETMASK, &all, &before);
  signal(SIGCHLD, SIG_DFL);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t host = 0;
  const int error = posix_spawn(&host, "/proc/self/exe", nullptr, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  if (getenv(kTokenVariable) != nullptr) KeepMemoryPrivate();  // there may be further copies
  EraseVariable(kTokenVariable);
  if (error != 0) {
    const std::string why = WhyRefused(std::error_code(error, std::generic_category()));
    std::fprintf(stderr, "muster: cannot start the host: %s\n", why.c_str());
    return kExitFault;
  }
  int status = 0;
  while (true) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&all, &info);
    if (signal < 0) continue;  // EINTR
    if (signal == SIGCHLD) {
      const Reaped reaped = Reap(host, &status);
      if (!reaped.host) continue;
      // The host ends itself by SIGINT after it has reported everything, so that counts as an orderly end.
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) != SIGINT;
      if (killed && !reaped.childless) AwaitChildren(kAgentCleanupLimit);
      return ExitCode(status);
    } else if (signal != SIGTTIN && signal != SIGTTOU && signal != SIGPIPE && !FromTerminalKey(info)) {
      kill(host, signal);
    }
  }
}

}  // namespace muster::host
