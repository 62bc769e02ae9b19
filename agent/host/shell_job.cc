#include "agent/host/shell_job.h"

#include <unistd.h>

#include "agent/host/proc_scan.h"

namespace muster::host {
namespace {

// The kernel's rule: a group is not orphaned while one of its processes has a parent in the same session, but in
// another group: the shell.
bool HasShellAsParent(pid_t pid) {
  const auto process = ReadProcess(pid);
  if (!process || process->ended()) return false;
  // The parent is outside of this PID namespace. The leader of a session has no parent in it; of any other process
  // the whole session is outside.
  if (process->parent == 0) return process->session != pid;
  return getpgid(process->parent) != getpgrp() && getsid(process->parent) == getsid(0);
}

}  // namespace

bool ShellCanContinue() {
  bool found = false;
  (void)ForEachProcess([&](pid_t pid) { found = found || (getpgid(pid) == getpgrp() && HasShellAsParent(pid)); });
  return found;
}

}  // namespace muster::host
