// What every muster process does first, while it has one thread: remembers what it was started with, so that
// workers get it back unchanged, and makes itself deaf to signals but through a signalfd.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include "absl/status/status.h"

namespace muster {

// What a worker gets back, whatever we did to ourselves.
struct Inherited {
  sigset_t ignored;  // was SIG_IGN when muster started (nohup, a background job) and stays so. Never SIGCHLD.
  rlimit nofile;
};

// Call once, before the first thread: opens /dev/null where 0, 1 or 2 is closed, blocks every signal but those
// that our own faults raise, ignores SIGPIPE, resets SIGCHLD, and takes as many descriptors as the hard limit
// allows.
Inherited PrepareProcess();

// Ends this process by `signal` with its default action, so that whoever waits for it sees the signal: a shell
// ends its loop when a program ends by SIGINT, and goes on when it exits with 130. From any thread; nothing is
// destroyed. Returns where the signal does not end the process, which process 1 of a PID namespace can rely on.
void EndBySignal(int signal);

// Whether `count` more descriptors can be opened now, so that a start fails with one line and not half-way.
// ResourceExhausted: they cannot.
absl::Status CheckDescriptors(int count);

}  // namespace muster
