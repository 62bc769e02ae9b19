#include "agent/host/init.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "proto/base/exit_codes.h"

namespace muster::host {
namespace {

// What a terminal's key sends, it sends to the whole foreground group: the host has it already, and a second one
// would mean "now".
bool FromTerminalKey(const siginfo_t& info) {
  const bool key = info.si_signo == SIGINT || info.si_signo == SIGQUIT || info.si_signo == SIGTSTP;
  return key && info.si_code == SI_KERNEL;
}

// Reaps everything that has ended. True: the host was among it.
bool Reap(pid_t host, int* status) {
  bool ended = false;
  while (true) {
    int one = 0;
    const pid_t pid = waitpid(-1, &one, WNOHANG | __WALL);
    if (pid <= 0) return ended;
    if (pid != host) continue;
    *status = one;
    ended = true;
  }
}

int ExitCode(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

int RunInit(char** argv) {
  // Inherited by nobody: the host starts with the mask that we were started with.
  sigset_t all, before;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, fault);
  sigprocmask(SIG_SETMASK, &all, &before);
  signal(SIGCHLD, SIG_DFL);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t host = 0;
  const int error = posix_spawn(&host, "/proc/self/exe", nullptr, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    std::fprintf(stderr, "muster: cannot start the host: %s\n", std::strerror(error));
    return kExitFault;
  }
  int status = 0;
  while (true) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&all, &info);
    if (signal < 0) continue;  // EINTR
    if (signal == SIGCHLD) {
      if (Reap(host, &status)) return ExitCode(status);
    } else if (signal != SIGTTIN && signal != SIGTTOU && signal != SIGPIPE && !FromTerminalKey(info)) {
      kill(host, signal);
    }
  }
}

}  // namespace muster::host
