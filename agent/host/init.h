// muster as process 1 of a container. A stopped process 1 cannot be killed from inside its namespace, so the host
// runs as its child, and process 1 only reaps, forwards signals and passes on the exit code. When the host ends,
// process 1 ends, and the kernel kills everything else in the namespace. If the host was killed, process 1 first
// waits for up to 2 s, because the host's agent belongs to the same namespace and has to report the loss.
#pragma once

namespace muster::host {

// Call it first in main(), single-threaded, if getpid() is 1. Starts the same program again with the same
// arguments and returns the exit code (128 + signal if the host was killed; 70 if it could not be started).
int RunInit(char** argv);

}  // namespace muster::host
