// Where the workers of this host write: our own descriptors, a pipe for prefixes, or files in the attempt's folder
// that may be followed to the console.
//
// Nothing here fails a job: what cannot be had is said in a warning, and the workers write to the console instead.
// Loop thread.
#pragma once

#include <memory>
#include <string>

#include "agent/host/core/output_plan.h"
#include "agent/host/log_files.h"
#include "agent/host/writer.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

// The deciding thread waits for a file system so long; one that takes longer gets no files for the rest of the
// job.
inline constexpr absl::Duration kOpenLimit = absl::Seconds(1);

class WorkerOutput {
 public:
  WorkerOutput(OutputPlan plan, int slots);
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  // Before the first worker of a round is spawned.
  void BeginRound(const v1::Round& round);

  // The worker's folder in this round's attempt, where its error.json belongs too; empty: it has none.
  std::string AttemptFolder(int local_rank) const;
  // --log-dir /dev/null: no files, error files included.
  bool forbids_files() const { return plan_.log_dir == kNoFiles; }

 private:
  const OutputPlan plan_;
  const int slots_;
  std::shared_ptr<LogFiles> files_;  // shared with a thread that may be stuck in the file system
  std::string attempt_;
};

}  // namespace muster::host
