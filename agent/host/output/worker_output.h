// Where the workers of this host write: our own descriptors, a pipe for prefixes, or files in the attempt's folder
// that may be followed to the console.
//
// Nothing here fails a job: what cannot be had is said in a warning, and the workers write to the console instead.
// Loop thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/output_plan.h"
#include "agent/host/output/follower.h"
#include "agent/host/output/log_files.h"
#include "base/console/stderr_tail.h"
#include "base/console/writer.h"
#include "base/io/owned_fd.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

// While a round starts, the deciding thread waits this long for file systems, and for no more than a quarter of a
// lease: after half a lease of silence the agent takes the host for dead. That is for the log folder and the error
// files together, since both may be on file systems that hang. One that takes longer gets no files for the rest of
// the job.
inline constexpr absl::Duration kOpenLimit = absl::Seconds(1);
inline constexpr int kOpenLeaseFraction = 4;
inline constexpr int kErrorFilesFraction = 8;  // this part of it is kept for the error files

class WorkerOutput {
 public:
  // writer: outlives it. role_name: for prefixes.
  WorkerOutput(OutputPlan plan, int slots, std::string role_name, Writer* writer);
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  // Before the first worker of a round is spawned: opens all its files.
  void BeginRound(const v1::Round& round, absl::Duration limit = kOpenLimit);

  struct Descriptors {  // borrowed until Spawned()
    int out = STDOUT_FILENO;
    int err = STDERR_FILENO;
  };
  // What the worker gets as its standard output and error. Errors: no pipe could be made.
  absl::StatusOr<Descriptors> Open(int local_rank);
  // The worker holds its own copies now, or none could be started.
  void Spawned(int local_rank, bool started);

  // Nobody of the round lives any more: what it wrote is shown to its end.
  void EndRound();
  // After EndRound: as a Follower's; without one there is nothing to wait for.
  bool AwaitDrained(absl::Duration limit);
  uint64_t Moved() const;
  void GiveUp();

  // The worker's folder in this round's attempt, where its error.json belongs too; empty: it has none.
  std::string AttemptFolder(int local_rank) const;
  // The file that the worker's standard error goes to; empty: it goes to none.
  std::string ErrorOutput(int local_rank) const;
  // After Spawned: what the worker's standard error says last, if it goes through a pipe; else nullptr.
  std::shared_ptr<StderrTail> ErrorTail(int local_rank) const;
  // --log-dir /dev/null: no files, error files included.
  bool forbids_files() const { return plan_.log_dir == kNoFiles; }

 private:
  // One stream of one worker, between the start of the round and that of the worker.
  struct Stream {
    Sink sink = Sink::kInherit;
    OwnedFd worker;                     // its end
    OwnedFd pipe;                       // ours, of a pipe
    std::unique_ptr<BoundedFile> file;  // ours, of a file
  };
  using WorkerStreams = std::array<Stream, 2>;  // standard output, standard error
  struct Opened;

  static Opened OpenAttempt(LogFiles* files, const OutputPlan& plan, uint32_t restart_count, int slots);
  Opened OpenInTime(uint32_t restart_count, absl::Duration limit);
  void HandOver(int local_rank, int out_fd, Stream* stream);

  OutputPlan plan_;
  const int slots_;
  const std::string role_name_;
  const std::string hostname_;
  Writer* const writer_;
  std::unique_ptr<Follower> follower_;  // nullptr: no files are asked for
  std::shared_ptr<LogFiles> files_;     // shared with a thread that may be stuck in the file system; nullptr: none
  OwnedFd null_;

  // Of the present round.
  std::string attempt_;
  int first_rank_ = 0;
  int node_rank_ = 0;
  std::vector<WorkerStreams> streams_;
  std::array<std::shared_ptr<FilteredLines>, 2> filtered_;
  std::vector<std::shared_ptr<StderrTail>> tails_;                    // by local rank, of pipes
  std::vector<std::array<std::shared_ptr<RedrawLimit>, 2>> redraws_;  // by local rank: of pipes, of files
};

}  // namespace muster::host
