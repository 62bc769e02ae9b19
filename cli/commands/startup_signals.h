// Hears the signals that end muster before the host's loop does: counting devices and resolving names may take a
// minute, and of signals that wait for so long the kernel hands over the lowest number first, not the first one.
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
  // Call after PrepareProcess(), which has blocked the signals. Where the machine gives no thread, they wait for
  // the host's loop.
  explicit StartupSignals(const Inherited& inherited);
  ~StartupSignals() { Stop(); }
  StartupSignals(const StartupSignals&) = delete;
  StartupSignals& operator=(const StartupSignals&) = delete;

  // The exit code where the platform expects another one than 75. 0: none.
  void SetRetryableExitCode(int code);

  // From here on signals wait for the host's loop. To be called before the first process of the job is started.
  void Stop();

 private:
  void Listen();

  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::atomic<int> exit_code_;
  std::thread thread_;
};

}  // namespace muster::cli
