// What each worker of the present round left to say why it failed: its error file, and the end of its standard
// error where that goes through our hands. Loop thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agent/host/core/host_core.h"
#include "agent/host/stderr_tail.h"

namespace muster::host {

inline constexpr absl::Duration kWordsLimit = absl::Seconds(1);  // waited for a file system, each time

class LastWords {
 public:
  struct Sources {
    std::string error_file;            // TORCHELASTIC_ERROR_FILE; empty: none
    bool kept = false;                 // it outlives the run, so its path may be shown
    std::string stderr_file;           // may be absent; empty: none
    std::shared_ptr<StderrTail> tail;  // of its pipe; null: there is none
  };

  void BeginRound();
  void Expect(int local_rank, Sources sources);
  // Why the worker ends as it will, if something of ours made it: stands before its own words.
  void Blame(int local_rank, std::string reason);

  // Fills in what the worker said, of one that failed.
  void Explain(int local_rank, Ending* ending) const;

  // Whether a pipe's end was read. Soon after all that held it has ended.
  bool Complete(int local_rank) const;
  std::string LastOutput(int local_rank) const;

 private:
  std::map<int, Sources> sources_;
  std::map<int, std::string> reasons_;
};

}  // namespace muster::host
