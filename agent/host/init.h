// muster as process 1 of a container: a stopped process 1 could not be killed from inside, so the host is its
// child, and process 1 does nothing but reap, forward signals and pass on the exit code. When the host dies it
// ends, and the kernel ends everything else in the namespace.
#pragma once

namespace muster::host {

// Call first thing in main, with one thread, if getpid() is 1: starts this very program again with the same
// arguments, and returns the exit code (128 + signal if the host was killed; 70 if it could not be started).
int RunInit(char** argv);

}  // namespace muster::host
