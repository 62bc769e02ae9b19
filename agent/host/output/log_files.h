// The folders of the workers' files: <log dir>/<run id>_<random>/attempt_<restart count>/<local rank>/, which is
// torchrun's layout. Each host makes its own folder, with one subfolder for each start of its workers, so nothing
// is ever overwritten.
//
// Thread-compatible. Everything but the accessors blocks as long as the file system does.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/host/core/output_plan.h"
#include "base/io/owned_fd.h"

namespace muster::host {

inline constexpr size_t kMaxRunIdInPath = 200;  // bytes of a run id in a file's name

// Turns a run id into one part of a path: no slashes, no control characters, no leading dot, at most
// kMaxRunIdInPath bytes, never empty. Pure.
std::string PathSafe(std::string_view run_id);

class LogFiles {
 public:
  // log_dir: empty: the folder for temporary files.
  LogFiles(std::string log_dir, std::string run_id);

  // Makes the folder for one start of `slots` workers, with a subfolder for each. Errors name the path and the
  // reason; attempt() is empty after an error.
  absl::Status MakeAttempt(uint32_t restart_count, int slots);

  const std::string& attempt() const { return attempt_; }  // .../attempt_N; empty: none

  // Opens a file of that folder, "0/stdout.log", and creates it if it is not there.
  absl::StatusOr<OwnedFd> Open(const std::string& name, int flags) const;

 private:
  absl::Status MakeRunFolder();
  absl::Status MakingFailed(const std::string& name) const;  // as errno says

  const std::string log_dir_;
  const std::string run_id_;
  std::string run_folder_;  // empty before the first attempt
  OwnedFd run_;             // the same: in a folder without a sticky bit others may exchange what has its name
  std::string attempt_name_, attempt_;
};

}  // namespace muster::host
