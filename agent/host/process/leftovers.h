// What a worker leaves running when it ends: the processes of its session. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/proc/environ_reader.h"
#include "base/proc/proc_scan.h"

namespace muster::host {

// For a shell's forked copy to execute a program, or to open the pipe that it reads from.
inline constexpr absl::Duration kForksSettle = absl::Milliseconds(20);

// The reader of command lines, one for the whole program.
EnvironReader& CommandLineReader();

// Whether its standard input is a pipe without a name, and not the one that muster itself has. Such a process, a
// "reader", may still have to pass on what others wrote, as tee has behind `exec > >(tee log)`; most end by
// themselves once nobody can write to the pipe any more.
bool ReadsFromPipe(pid_t pid);

// The next two are called while the leader has ended and is not reaped.

// Names the processes of this session that do work of their own: "python3 (pid 11), sleep (pid 12)". Empty: none.
// Left out are readers, the helpers of Python's multiprocessing, which end by themselves, and copies
// of the leader, such as DataLoader workers. Blocks as EnvironReader does, and for at most kForksSettle.
std::string LeftBehind(pid_t leader, EnvironReader* command_lines = &CommandLineReader());

// One pass over the children of this process, a subreaper: kills those of the session, but for readers. Returns
// what another pass is for: readers, whose own children are left alone; what it has killed together with children,
// which become children of this process in their turn (a shell must not see its child's end and go on); and unless
// `settled` a shell's copy without children: forked a moment ago, it may be about to become a reader.
std::vector<ProcessInfo> KillAllButReaders(pid_t leader, bool settled);

}  // namespace muster::host
