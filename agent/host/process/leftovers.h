// What a worker leaves running when it ends: the processes of its session. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/proc/environ_reader.h"
#include "base/proc/proc_scan.h"

namespace muster::host {

// The reader of command lines, one for the whole program.
EnvironReader& CommandLineReader();

// Both are called while the leader has ended and is not reaped.

// Names the processes of this session that do work of their own: "python3 (pid 11), sleep (pid 12)". Empty: none.
// Left out are readers (see below), the helpers of Python's multiprocessing, which end by themselves, and copies
// of the leader, such as DataLoader workers. Blocks as EnvironReader does.
std::string LeftBehind(pid_t leader, EnvironReader* command_lines = &CommandLineReader());

// Kills the processes of this session but for those whose standard input is a pipe, and returns these. They may
// still have to pass on what the worker wrote last, as tee has behind `exec > >(tee log)`; most end by themselves
// once nobody can write to the pipe any more. A shell's copy that was forked a moment ago may be about to become
// one; it is returned, too, unless `settled`.
std::vector<ProcessInfo> KillAllButReaders(pid_t leader, bool settled);

}  // namespace muster::host
