// Why the workers of the current round failed: their error files, and the end of their output as far as muster
// handles it (a pipe or a file): of standard error, or where that is empty (2>&1) of standard output. Lives on the
// loop thread.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/host/core/host_core.h"
#include "agent/host/report/error_file.h"
#include "base/console/output_tail.h"

namespace muster::host {

// Total time that a round waits for file systems as workers end: kDetailsLimit, and at most one eighth of the
// lease, because the agent takes a host for dead that is silent for half a lease.
inline constexpr absl::Duration kDetailsLimit = absl::Seconds(1);
inline constexpr int kDetailsLeaseFraction = 8;

class FailureDetails {
 public:
  using Read = std::function<std::optional<WorkerError>(const std::string& path)>;
  using ReadLines = std::function<std::string(const std::string& path)>;
  using Exists = std::function<bool(const std::string& path)>;
  explicit FailureDetails(Read read = ReadErrorFile, ReadLines read_lines = LastLinesOfFile,
                          Exists exists = FileExists)
      : read_(std::move(read)), read_lines_(std::move(read_lines)), exists_(std::move(exists)) {}

  struct Stream {
    std::string file = {};                  // may be absent; empty: none
    std::shared_ptr<OutputTail> tail = {};  // of its pipe; null: no pipe
  };
  struct Sources {
    std::string error_file;      // TORCHELASTIC_ERROR_FILE; empty: none
    std::string done_file = {};  // MUSTER_DONE_FILE; empty: none
    bool kept = false;           // the error file outlives the run, so reports may name its path
    Stream err = {};
    Stream out = {};
  };

  // limit: total time to wait for file systems in this round; after that nothing more is read.
  void BeginRound(absl::Duration limit);
  void Expect(int local_rank, Sources sources);
  // Records why muster is about to end this worker; the reason is put before the worker's own message.
  void AddReason(int local_rank, std::string reason);

  // Adds the error file's contents, the recorded reason, and whether the worker was done, to the ending of a
  // failed worker.
  void Explain(int local_rank, Ending* ending);

  // Whether all that an ended worker wrote to its pipes was read, as far as it matters; true without one.
  bool HasHeardOut(int local_rank) const;
  // Adds the last lines of its output, as far as they were read, and when it wrote them; to an abort the exception
  // that caused it.
  void AddLastWords(int local_rank, Ending* ending);

  // Reads the last lines of whatever the worker has written last; to be called on a thread of its own, since a
  // file may keep its reader waiting.
  std::function<std::string()> OutputNow(int local_rank) const;

  // Begins to read the files that have this worker's output, where there is no pipe. Never waits: a thread of its
  // own reads them. Call it when nothing of the worker is alive.
  void BeginLastOutput(int local_rank);
  // Whether all that matters was read: the pipes to their ends, which come soon after the last process that holds
  // one has ended, and the files of BeginLastOutput.
  bool Complete(int local_rank) const;
  // The last lines of the worker's output; empty: none, or not read so far.
  std::string LastOutput(int local_rank);

 private:
  void ReadFiles(const Sources& sources, Ending* ending);
  template <typename Call>
  auto InTime(Call call) -> std::optional<decltype(call())>;

  const Read read_;
  const ReadLines read_lines_;
  const Exists exists_;
  absl::Duration left_ = kDetailsLimit;
  std::map<int, Sources> sources_;
  std::map<int, std::string> reasons_;
  std::future<std::string> last_lines_;  // of the files of BeginLastOutput; invalid: none is read
};

}  // namespace muster::host
