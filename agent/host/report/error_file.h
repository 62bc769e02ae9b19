// The error file of a worker, named by TORCHELASTIC_ERROR_FILE and written by torch's @record: why the worker
// failed. Lives on the loop thread.
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

// Contents of an error file. Texts are UTF-8, each cut to kMaxErrorText bytes, the limit for sending.
struct WorkerError {
  std::string message;    // "ValueError: x", or what is wrong with the file, and its first line
  std::string callstack;  // as Python prints it; a long one is cut to its first line and its end. Empty: none
  std::optional<int64_t> failed_at_s;    // since the epoch, by this machine's clock, truncated to a second
  std::optional<absl::Time> written_at;  // modification time; nullopt if its file system keeps whole seconds
};

// Parses the two forms that torch's own reader accepts: {"message": "...", "timestamp": 1} and {"message":
// {"message": "...", "extraInfo": {"py_callstack": "...", "timestamp": "1"}}}; only the first member is required.
// For any other content the message says what is wrong. Pure.
WorkerError ParseErrorFile(const std::string& content);

// Reads the worker's error file; nullopt: there is none. Never waits and never follows a link, because the worker
// may have put anything there.
std::optional<WorkerError> ReadErrorFile(const std::string& path);

// Whether there is such a file. Never follows a link.
std::optional<absl::Time> ModifiedAt(const std::string& path);  // nullopt: there is no such file
bool FileExists(const std::string& path);

// A private folder with an error file, a done file and a heartbeat file for each worker and round; used without a
// log folder.
class ErrorFiles {
 public:
  ErrorFiles() = default;
  ~ErrorFiles();  // removes folder and files
  ErrorFiles(const ErrorFiles&) = delete;
  ErrorFiles& operator=(const ErrorFiles&) = delete;

  // Prepares the round that is about to start: removes the files of an earlier round. Errors: the folder could not
  // be made, or the file system did not answer within the limit. After an error, which is returned once, it is not
  // tried again, and workers run without error files.
  absl::Status BeginRound(int slots, absl::Duration limit);
  // Empty: workers run without these files.
  std::string PathOf(int local_rank) const;
  std::string DonePathOf(int local_rank) const;       // where the worker creates a file once it is done
  std::string HeartbeatPathOf(int local_rank) const;  // which the worker may touch, as a sign of life

 private:
  bool gave_up_ = false;
  std::shared_ptr<ScratchFolder> folder_;  // shared with a thread that a file system may block; nullptr: none
  int files_ = 0;                          // local ranks below this may have a file
};

}  // namespace muster::host
