// Has a worker of --preload write the Python stack of its main thread: preload/bootstrap.py has given faulthandler
// a signal, and a file in memory that the worker shares with this process.
//
// For where py-spy cannot be had. Unlike py-spy it disturbs the worker: a system call that is not restarted after
// a signal ends with EINTR, which Python and libraries of repute expect. The stacks of other threads are not asked
// for: faulthandler reads them while these threads run, and that can end the process (github.com/python/cpython,
// issue 116008). Lives on the loop thread; nothing here blocks.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/owned_fd.h"
#include "base/picture/rank_picture.h"
#include "base/time.h"

namespace muster::host {

// As in bootstrap.py.
inline constexpr int kStacksFd = 1000;  // of the worker: too high for one that it opens itself to get it by chance
int StacksSignal();

inline constexpr absl::Duration kStackDumpLimit = absl::Seconds(2);         // until it is complete
inline constexpr absl::Duration kStackDumpQuiet = absl::Milliseconds(100);  // nothing more is written after that

// A file for a worker, which appends to it. Errors: no memory, no descriptor.
absl::StatusOr<OwnedFd> MakeStacksFile();

class StackDump {
 public:
  using Answer = absl::StatusOr<std::vector<PythonThread>>;

  // Asks the worker. file: the worker's, from MakeStacksFile().
  StackDump(std::shared_ptr<const OwnedFd> file, pid_t worker, BootTime now);

  // The answer, at most kStackDumpLimit after the question; nullopt: not yet. Errors say why there is none, as a
  // clause: "it does not take the signal for its stack".
  std::optional<Answer> Poll(BootTime now);

 private:
  absl::Status Ask(pid_t worker) const;

  const std::shared_ptr<const OwnedFd> file_;
  const BootTime asked_at_;
  absl::Status asked_;
  off_t size_ = 0;  // when it was looked at last
  BootTime grew_at_;
};

}  // namespace muster::host
