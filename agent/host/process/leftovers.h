// What a worker leaves running when it ends: the processes of its session, which end with it. Any thread; blocks
// as EnvironReader does.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/proc/environ_reader.h"

namespace muster::host {

// The reader of command lines, one for the whole program.
EnvironReader& CommandLineReader();

// Names the processes of this session that do work of their own: "python3 (pid 11), sleep (pid 12)". Empty: none.
// Left out are those that end by themselves once the leader has ended: filters that read from its pipe, and the
// helpers of Python's multiprocessing; and copies of the leader, such as DataLoader workers. Call it while the
// leader has ended and is not reaped.
std::string LeftBehind(pid_t leader, EnvironReader* command_lines = &CommandLineReader());

}  // namespace muster::host
