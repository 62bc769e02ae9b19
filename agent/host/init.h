// muster as process 1 of a container: a stopped process 1 could not be killed from inside, so the host is its
// child, and process 1 does nothing but reap, forward signals and pass on the exit code. When the host has ended,
// process 1 ends, and the kernel ends everything else in the namespace. If the host was killed, process 1 waits
// for up to two seconds first, because the host's agent is a process of the namespace, too, and has to report the
// loss.
#pragma once

namespace muster::host {

// Call first thing in main, with one thread, if getpid() is 1: starts this very program again with the same
// arguments, and returns the exit code (128 + signal if the host was killed; 70 if it could not be started).
int RunInit(char** argv);

}  // namespace muster::host
