// Handles the signals that end muster until the host's loop does. Counting devices and resolving names may take a
// minute, and of several pending signals the kernel delivers the lowest number first, not the first that arrived.
#pragma once

#include <signal.h>

#include <atomic>
#include <thread>

#include "base/proc/process_setup.h"

namespace muster::cli {

// The first SIGTERM, SIGHUP, SIGQUIT or SIGINT ends this process while an object of this class listens: nothing of
// the job has been started yet that would have to be stopped.
class StartupSignals {
 public:
  // Call after PrepareProcess(), which blocks the signals. Without a thread (none can be started) they wait for
  // the host's loop.
  explicit StartupSignals(const Inherited& inherited);
  ~StartupSignals() { Stop(); }
  StartupSignals(const StartupSignals&) = delete;
  StartupSignals& operator=(const StartupSignals&) = delete;

  // Sets the exit code that replaces 75 on this platform. 0: 75 stays.
  void SetRetryableExitCode(int code);

  // Leaves signals to the host's loop. Call it before the first process of the job is started.
  void Stop();

 private:
  void Listen();

  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::atomic<int> exit_code_;
  std::thread thread_;
};

}  // namespace muster::cli
