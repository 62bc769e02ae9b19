// Where the workers of this host write: the host's own descriptors, a pipe for prefixes, or files in the attempt's
// folder whose lines may also be shown on the console.
//
// No error here fails a job: if files cannot be opened, a warning is logged and the workers write to the console
// instead. Lives on the loop thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/output_plan.h"
#include "agent/host/output/follower.h"
#include "agent/host/output/log_files.h"
#include "base/console/output_tail.h"
#include "base/console/writer.h"
#include "base/io/owned_fd.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

// While a round starts, the loop thread waits for file systems: for kOpenLimit at most, and for no more than a
// quarter of the lease, because after half a lease of silence the agent takes the host for dead. The limit covers
// the log folder and the error files together, since both may be on file systems that hang. A file system that
// exceeds it gets no files for the rest of the job.
inline constexpr absl::Duration kOpenLimit = absl::Seconds(1);
inline constexpr int kOpenLeaseFraction = 4;
inline constexpr int kErrorFilesFraction = 8;  // one eighth of the limit is kept for the error files

class WorkerOutput {
 public:
  // writer: must outlive this object. role_name: for prefixes.
  WorkerOutput(OutputPlan plan, int slots, std::string role_name, Writer* writer);
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  // Call it before the first worker of a round is spawned: opens all files of the round.
  void BeginRound(const v1::Round& round, absl::Duration limit = kOpenLimit);

  struct Descriptors {  // borrowed until Spawned()
    int out = STDOUT_FILENO;
    int err = STDERR_FILENO;
  };
  // The descriptors for the worker's standard output and error. Errors: no pipe could be made.
  absl::StatusOr<Descriptors> Open(int local_rank);
  // Call it once the worker holds its own copies of the descriptors, or could not be started.
  void Spawned(int local_rank, bool started);

  // Call it when no process of the round is alive any more: its output is shown to the end.
  void EndRound();
  // After EndRound; as Follower's methods. Without files there is nothing to wait for.
  bool AwaitDrained(absl::Duration limit);
  uint64_t Moved() const;
  void GiveUp();

  // The worker's folder in this round's attempt, also for its error.json; empty: none.
  std::string AttemptFolder(int local_rank) const;
  std::string Folder() const { return attempt_; }  // of this attempt; empty: there is none
  std::string SnapshotPath() const;  // where snapshots of this attempt's workers are kept; empty: nowhere
  // What shows what the worker writes to one of its streams.
  struct Signs {
    std::string file = {};                   // empty: none. It may be absent
    ByteCount bytes = {};                    // that have passed through muster; nullptr: none do
    std::shared_ptr<OutputTail> lines = {};  // the last ones of these; nullptr: none do
    bool on_terminal = false;                // it leads to one, where muster does not see it
  };
  std::array<Signs, 2> SignsOf(int local_rank) const;  // of standard output and error; after Spawned
  // Whether --log-dir is /dev/null: no files, error files included.
  bool forbids_files() const { return plan_.log_dir == kNoFiles; }

 private:
  // One stream of one worker, between the start of the round and the start of the worker.
  struct Stream {
    Sink sink = Sink::kInherit;
    OwnedFd worker;                     // the worker's end
    OwnedFd pipe;                       // the host's end of a pipe
    std::unique_ptr<BoundedFile> file;  // the host's descriptor of a file
  };
  using WorkerStreams = std::array<Stream, 2>;  // standard output, standard error
  struct Opened;

  static absl::Status ReserveAll(const std::vector<WorkerStreams>& workers);
  static Opened OpenAttempt(LogFiles* files, const OutputPlan& plan, uint32_t restart_count, int slots);
  Opened OpenInTime(uint32_t restart_count, absl::Duration limit);
  std::string FileOf(int local_rank, size_t stream) const;  // of standard output (0) or error (1); empty: none
  void HandOver(int local_rank, int out_fd, Stream* stream);

  OutputPlan plan_;
  const int slots_;
  const std::string role_name_;
  const std::string hostname_;
  Writer* const writer_;
  std::unique_ptr<Follower> follower_;  // nullptr: no output goes to files
  std::shared_ptr<LogFiles> files_;     // shared with a thread that a file system may block; nullptr: none
  OwnedFd null_;

  // State of the current round.
  std::string attempt_;
  int first_rank_ = 0;
  int node_rank_ = 0;
  std::vector<WorkerStreams> streams_;
  std::array<std::shared_ptr<FilteredLines>, 2> filtered_;
  std::vector<std::array<ByteCount, 2>> bytes_;                       // by local rank; for pipes only
  std::vector<std::array<std::shared_ptr<OutputTail>, 2>> tails_;     // by local rank; for pipes only
  std::vector<std::array<std::shared_ptr<RedrawLimit>, 2>> redraws_;  // by local rank: for pipes, for files
};

}  // namespace muster::host
