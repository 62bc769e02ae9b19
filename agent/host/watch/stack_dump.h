// Has a worker of --preload write the Python stack of its main thread: preload/python/muster_preload/worker.py has
// given faulthandler a signal, and a file in memory that the worker shares with this process.
//
// For where py-spy cannot be had. Unlike py-spy it disturbs the worker: a system call that is not restarted after
// a signal ends with EINTR, which Python and libraries of repute expect. And faulthandler reads frames as they
// are, which ends the process (SIGSEGV) if they are just being made or left: those of other threads (cpython issue
// 116008), and from 3.11 on also its own, once in 35 to 800 signals in a loop of generators. So only a main thread
// that has been waiting for a while is asked, and only for its own stack.
//
// Lives on the loop thread; nothing here blocks.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/core/time.h"
#include "base/io/owned_fd.h"
#include "base/stacks/rank_snapshot.h"

namespace muster::host {

// As in worker.py there.
inline constexpr int kStacksFd = 1000;  // of the worker: too high for one that it opens itself to get it by chance
int StacksSignal();

inline constexpr absl::Duration kMustWait = absl::Milliseconds(200);        // the main thread, before it is asked
inline constexpr absl::Duration kStackDumpLimit = absl::Seconds(2);         // until it is complete
inline constexpr absl::Duration kStackDumpQuiet = absl::Milliseconds(100);  // nothing more is written after that

// A file for a worker, which appends to it. Errors: no memory, no descriptor.
absl::StatusOr<OwnedFd> MakeStacksFile();

class StackDump {
 public:
  using Answer = absl::StatusOr<std::vector<PythonThread>>;

  // Looks at the worker, and asks it kMustWait later. file: the worker's, from MakeStacksFile().
  StackDump(std::shared_ptr<const OwnedFd> file, pid_t worker, BootTime now);

  // The answer, at most kStackDumpLimit after the question; nullopt: not yet. Errors say why there is none, as a
  // clause: "it does not take the signal for its stack".
  std::optional<Answer> Poll(BootTime now);

 private:
  absl::Status Ask() const;

  const std::shared_ptr<const OwnedFd> file_;
  const pid_t worker_;
  const std::optional<absl::Duration> time_before_;  // of processor, by its main thread while it slept
  const BootTime begun_at_;
  bool asked_ = false;
  off_t size_ = 0;  // when it was looked at last
  BootTime grew_at_;
};

}  // namespace muster::host
