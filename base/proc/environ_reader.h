// Reads a text from the memory of other processes (a variable of their environment, their command line), within a
// time limit for each.
// The kernel locks the target's memory for this; a process that is stuck in mmap, on a file server or in a driver
// that does not respond, may hold that lock for ever.
//
// Thread-safe. A call blocks for kEnvironLimit for each process that cannot be read, at most kMaxHeldReads times.
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
#include "base/io/mutex.h"
#include "base/proc/proc_scan.h"

namespace muster {

inline constexpr absl::Duration kEnvironLimit = absl::Milliseconds(200);  // for one process
inline constexpr int kMaxHeldReads = 4;  // threads that the kernel may hold; beyond it no process is read

class EnvironReader {
 public:
  using Read = std::function<absl::StatusOr<std::string>(pid_t)>;
  using Answers = std::map<pid_t, absl::StatusOr<std::string>>;

  explicit EnvironReader(Read read, absl::Duration limit = kEnvironLimit)
      : read_(std::move(read)), limit_(limit) {}
  ~EnvironReader();  // does not wait for threads that the kernel holds

  // One answer for each process, as from StartEnvironment(). Also Unavailable: the process is in uninterruptible
  // sleep, or could not be read within the limit. Such a process is read again only after the kernel has released
  // the thread.
  Answers ReadAll(const std::vector<ProcessInfo>& processes);

 private:
  struct Batch;
  using Key = std::pair<pid_t, uint64_t>;  // pid and start

  // Reads on one thread until all processes are read or one takes too long. Returns how many of `todo` are done.
  size_t ReadSome(const std::vector<ProcessInfo>& todo, Answers* answers);
  size_t Await(Batch* batch, const std::vector<pid_t>& pids, Answers* answers) const;
  bool IsHeld(const Key& key, Answers* answers);
  void DropAnswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Read read_;
  const absl::Duration limit_;
  Mutex mutex_;
  std::map<Key, std::shared_ptr<Batch>> held_ ABSL_GUARDED_BY(mutex_);  // by the process that cannot be read
};

// Whether an answer means that the environment could not be read now, so that nothing is known about it.
inline bool IsUnknown(const absl::StatusOr<std::string>& answer) {
  return absl::IsResourceExhausted(answer.status()) || absl::IsUnavailable(answer.status());
}

// The reader of markers (marker.h), one for the whole program.
EnvironReader& MarkerReader();

}  // namespace muster
