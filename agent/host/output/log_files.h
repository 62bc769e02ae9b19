// The folders of the workers' files: <log dir>/<run id>_<random>/attempt_<restart count>/<local rank>/, as
// torchrun lays them out. A host makes a folder of its own, and each start of its workers one in it: nothing is
// ever overwritten.
//
// Thread-compatible. Everything but the accessors blocks as the file system does.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "agent/host/core/output_plan.h"

namespace muster::host {

inline constexpr std::string_view kNoFiles = "/dev/null";  // as --log-dir: no folders, no files
inline constexpr size_t kMaxRunIdInPath = 200;             // bytes of a run id in a file's name

// A run id as a part of a path: no slashes, no control characters, no dot in front, at most kMaxRunIdInPath bytes;
// never empty. Pure.
std::string PathSafe(std::string_view run_id);

class LogFiles {
 public:
  // log_dir empty: a folder of the temporary ones.
  LogFiles(std::string log_dir, std::string run_id);

  // The folder for a start of `slots` workers, made with one for each of them. Errors name the path and the
  // reason; then the folder there was before, if any, is no longer given out.
  absl::Status MakeAttempt(uint32_t restart_count, int slots);

  const std::string& run_folder() const { return run_folder_; }  // empty: none was made yet
  const std::string& attempt() const { return attempt_; }        // .../attempt_N; empty: there is none

 private:
  absl::Status MakeRunFolder();

  const std::string log_dir_;
  const std::string run_id_;
  std::string run_folder_;
  std::string attempt_;
};

}  // namespace muster::host
