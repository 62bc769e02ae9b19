// Reads a variable of the environments that other processes were started with, without waiting for any of them for
// long. The kernel takes the lock of the target's memory for it; a process that is stuck in mmap, on a file server
// or in a driver that does not answer, may hold that lock for ever.
//
// Thread-safe; a call blocks for kEnvironLimit for each process that does not answer, kMaxHeldReads times at most.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/proc/proc_scan.h"

namespace muster {

inline constexpr absl::Duration kEnvironLimit = absl::Milliseconds(200);  // of one process
inline constexpr int kMaxHeldReads = 4;  // threads that the kernel holds; then no process is read any more

class EnvironReader {
 public:
  using Read = std::function<absl::StatusOr<std::string>(pid_t)>;
  using Answers = std::map<pid_t, absl::StatusOr<std::string>>;

  explicit EnvironReader(Read read, absl::Duration limit = kEnvironLimit)
      : read_(std::move(read)), limit_(limit) {}
  ~EnvironReader();  // leaves threads that the kernel holds behind

  // An answer for each: as StartEnvironment has it; Unavailable too: it sleeps where no signal reaches it, or does
  // not answer within the limit. One that did not answer is asked again only once the kernel has let go of the
  // thread.
  Answers ReadAll(const std::vector<ProcessInfo>& processes);

 private:
  struct Batch;
  using Key = std::pair<pid_t, uint64_t>;  // pid and start

  // Reads on one thread until all is read or one does not answer. The answer: how many of `todo` were dealt with.
  size_t ReadSome(const std::vector<ProcessInfo>& todo, Answers* answers);
  size_t Await(Batch* batch, const std::vector<pid_t>& pids, Answers* answers) const;
  bool IsHeld(const Key& key, Answers* answers);
  void DropAnswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Read read_;
  const absl::Duration limit_;
  Mutex mutex_;
  std::map<Key, std::shared_ptr<Batch>> held_ ABSL_GUARDED_BY(mutex_);  // by the process that does not answer
};

// Whether an answer is that the environment could not be read now, so that nothing is known.
inline bool IsUnknown(const absl::StatusOr<std::string>& answer) {
  return absl::IsResourceExhausted(answer.status()) || absl::IsUnavailable(answer.status());
}

// Markers of this machine's processes, for the whole program.
EnvironReader& MarkerReader();

}  // namespace muster
