// Whether a shell can continue this process after it was stopped. Any thread.
#pragma once

namespace muster {

// False: the process group is orphaned (credentials(7)), since it was started by `docker run -it`, by `ssh -t HOST
// COMMAND`, or as the command of a tmux window, and no shell waits for it. A process in it that stops itself stays
// stopped, and the kernel ignores Ctrl-Z for it.
bool ShellCanContinue();

}  // namespace muster
