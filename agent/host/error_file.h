// Where a worker says why it failed: the file named by TORCHELASTIC_ERROR_FILE, as torch's @record writes it.
// Loop thread.
#pragma once

#include <cstdint>
#include <string>

namespace muster::host {

inline constexpr size_t kMaxErrorFileBytes = 256 * 1024;  // of a worker's file; a longer one is not read

// The sentence in such a file: {"message": "..."} or {"message": {"message": "..."}}; empty: there is none. Pure.
std::string ParseErrorFile(const std::string& content);

// A private folder with one file for each worker and round.
class ErrorFiles {
 public:
  ErrorFiles() = default;
  ~ErrorFiles();  // removes them
  ErrorFiles(const ErrorFiles&) = delete;
  ErrorFiles& operator=(const ErrorFiles&) = delete;

  // The path for the round about to start; what was there of an earlier round is removed. Empty: no folder could
  // be made, and workers go without.
  std::string Prepare(int local_rank);
  // What the worker wrote; empty: nothing.
  std::string Read(int local_rank) const;

 private:
  std::string PathOf(int local_rank) const;

  bool tried_ = false;
  std::string folder_;
  int files_ = 0;  // local ranks below this have a path
};

}  // namespace muster::host
