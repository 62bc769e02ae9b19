// Where a worker says why it failed: the file named by TORCHELASTIC_ERROR_FILE, as torch's @record writes it.
// Loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/io/temporary_folder.h"

namespace muster::host {

inline constexpr size_t kMaxErrorFileBytes = 256 * 1024;  // of a worker's file; a longer one is not read

// UTF-8, and as much of it as travels (kMaxErrorText each).
struct WorkerError {
  std::string message;    // "ValueError: x", or what is wrong with the file and its first line
  std::string callstack;  // as Python prints it; of a long one the first line and its end. Empty: none
  std::optional<int64_t> failed_at_s;    // since the epoch, by this machine's clock, cut to a whole second
  std::optional<absl::Time> written_at;  // the file, as its file system says; at a whole second: not known
};

// The shapes that torch's own reader takes: {"message": "...", "timestamp": 1} and {"message": {"message": "...",
// "extraInfo": {"py_callstack": "...", "timestamp": "1"}}}, each member but the first optional. Anything else is
// reported as such. Pure.
WorkerError ParseErrorFile(const std::string& content);

// What the worker left at this path; nullopt: no file is there. Never waits, and never follows a link: the worker
// may have put anything there.
std::optional<WorkerError> ReadErrorFile(const std::string& path);

// A private folder with one file for each worker and round, where no log folder was named.
class ErrorFiles {
 public:
  ErrorFiles() = default;
  ~ErrorFiles();  // removes them
  ErrorFiles(const ErrorFiles&) = delete;
  ErrorFiles& operator=(const ErrorFiles&) = delete;

  // For the round about to start: what was there of an earlier round is removed. Errors, told once: there is no
  // folder, or no answer within the limit; it is not asked for again, and workers go without.
  absl::Status BeginRound(int slots, absl::Duration limit);
  // Empty: they go without.
  std::string PathOf(int local_rank) const;

 private:
  bool gave_up_ = false;
  std::shared_ptr<ScratchFolder>
      folder_;     // shared with a thread that may be stuck in the file system; nullptr: none
  int files_ = 0;  // local ranks below this may have one
};

}  // namespace muster::host
