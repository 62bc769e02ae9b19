// The first steps of every muster process, while it has one thread: it stores the inherited settings, which
// workers get back unchanged, and blocks signals, which it reads from a signalfd later.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "absl/status/status.h"

namespace muster {

// Settings that workers inherit in place of our own.
struct Inherited {
  sigset_t ignored;  // signals ignored when muster started (nohup, a background job), without SIGCHLD
  rlimit nofile;
};

// All signals but those that a fault of the program itself raises.
sigset_t AllButFaults();

// Call once, before the first thread. Opens /dev/null where 0, 1 or 2 is closed, blocks every signal except those
// raised by faults of the program itself, ignores SIGPIPE, resets SIGCHLD, and raises the limit of descriptors to
// the hard limit.
Inherited PrepareProcess();

// From now on the kernel kills this process (SIGKILL) when the thread that started it ends; at once if `parent` is
// not its parent any more.
void EndWithParent(pid_t parent);

// Ends this process by the default action of `signal`, so that its parent sees the signal: a shell ends its loop
// when a program ends by SIGINT, but continues when it exits with 130. From any thread; runs no destructors.
// Returns if the signal does not end the process, as for process 1 of a PID namespace.
void EndBySignal(int signal);

// Checks that `count` more descriptors can be opened now, so that a start fails early and with one line.
// ResourceExhausted: they cannot.
absl::Status CheckDescriptors(int count);

// From now on other processes of the same user cannot read this one's memory, environment or descriptors, as
// workers otherwise can (PR_SET_DUMPABLE, prctl(2); proc(5) of /proc/PID/mem and others). It dumps no core, and a
// debugger needs root. Programs that it executes are as usual (execve(2)).
void KeepMemoryPrivate();
void OpenMemoryAgain();  // for a process that has learned that it has no secret

// Overwrites the value of a variable in this process's environment block, which /proc shows to every process of
// the same user, and removes the variable. Call while the process has one thread.
void EraseVariable(const char* name);

}  // namespace muster
