// The last lines that a worker wrote to its standard error, for the report of its failure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace muster {

inline constexpr int kTailLines = 20;
inline constexpr size_t kTailBytes = 4096;      // of what is shown
inline constexpr size_t kTailKept = 16 * 1024;  // of what was written: redraws of one line take much of it

// The last lines of some output: at most kTailLines and kTailBytes, UTF-8. Of a line that redrew itself only what
// stood at its end; of one too long its end. Pure.
std::string LastLines(std::string_view bytes);

// The same of a file's end; empty: it cannot be read. Never waits for a writer.
std::string LastLinesOfFile(const std::string& path);

// Thread-safe: fed by the thread that reads the worker's pipe, asked by the loop's.
class StderrTail {
 public:
  void Feed(std::string_view bytes);
  void End();  // the pipe has ended: Last() is the whole truth
  bool ended() const;
  std::string Last() const;

 private:
  mutable Mutex mutex_;
  std::string kept_ ABSL_GUARDED_BY(mutex_);  // at most twice kTailKept
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
