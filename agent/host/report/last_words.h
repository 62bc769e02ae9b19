// What each worker of the present round left to say why it failed: its error file, and the end of its standard
// error where that goes through our hands. Loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/host/core/host_core.h"
#include "agent/host/report/error_file.h"
#include "base/console/stderr_tail.h"

namespace muster::host {

// Waited for file systems, in a whole round. Of a lease an eighth at the most: the agent takes a host that says
// nothing for half of one for dead.
inline constexpr absl::Duration kDetailsLimit = absl::Seconds(1);
inline constexpr int kDetailsLeaseFraction = 8;

class FailureDetails {
 public:
  using Read = std::function<std::optional<WorkerError>(const std::string& path)>;
  explicit FailureDetails(Read read = ReadErrorFile) : read_(std::move(read)) {}

  struct Sources {
    std::string error_file;            // TORCHELASTIC_ERROR_FILE; empty: none
    bool kept = false;                 // it outlives the run, so its path may be shown
    std::string stderr_file;           // may be absent; empty: none
    std::shared_ptr<StderrTail> tail;  // of its pipe; null: there is none
  };

  // limit: what a round's file systems are waited for in all; then nothing more of it is read.
  void BeginRound(absl::Duration limit);
  void Expect(int local_rank, Sources sources);
  // Why the worker ends as it will, if something of ours made it: stands before its own words.
  void AddReason(int local_rank, std::string reason);

  // Fills in what the worker said, of one that failed.
  void Explain(int local_rank, Ending* ending);

  // Whether a pipe's end was read. Soon after all that held it has ended.
  bool Complete(int local_rank) const;
  std::string LastOutput(int local_rank);

 private:
  template <typename Call>
  auto InTime(Call call) -> std::optional<decltype(call())>;

  const Read read_;
  absl::Duration left_ = kDetailsLimit;
  std::map<int, Sources> sources_;
  std::map<int, std::string> reasons_;
};

}  // namespace muster::host
