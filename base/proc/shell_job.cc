#include "base/proc/shell_job.h"

#include <unistd.h>

#include "base/proc/proc_scan.h"

namespace muster {
namespace {

// The kernel's rule: a process group is not orphaned while one of its processes has a parent in another group of
// the same session, which is the shell.
bool HasShellAsParent(pid_t pid) {
  const auto process = ReadProcess(pid);
  if (!process || process->ended()) return false;
  // A parent outside of this PID namespace cannot be inspected. It is mostly a container runtime, which continues
  // no stopped process; and an ignored Ctrl-Z does less harm than a process that stays stopped.
  if (process->parent == 0) return false;
  return getpgid(process->parent) != getpgrp() && getsid(process->parent) == getsid(0);
}

}  // namespace

bool ShellCanContinue() {
  bool found = false;
  (void)ForEachProcess([&](pid_t pid) { found = found || (getpgid(pid) == getpgrp() && HasShellAsParent(pid)); });
  return found;
}

}  // namespace muster
