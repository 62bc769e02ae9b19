// The last lines that a worker wrote to a stream: for the report of its failure, and to see its steps.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/io/mutex.h"

namespace muster {

inline constexpr int kTailLines = 20;
inline constexpr size_t kTailBytes = 4096;      // of the shown text
inline constexpr size_t kTailKept = 16 * 1024;  // of the raw output: redraws of one line take much of it

// The last lines of an output: at most kTailLines and kTailBytes, as UTF-8. Of a line that redrew itself only the
// final text; of a line that is too long its end. Pure.
std::string LastLines(std::string_view bytes);

// The last line that contains this, as UTF-8 and cut to kTailBytes; empty: none does. Pure.
std::string LastLineWith(std::string_view mark, std::string_view bytes);

// The last kTailKept bytes of a file; empty: it cannot be read. Never waits for a writer.
std::string EndOfFile(const std::string& path);
std::string LastLinesOfFile(const std::string& path);

// Thread-safe: the thread that reads the worker's pipe feeds it, other ones query it.
class OutputTail {
 public:
  void Feed(std::string_view bytes);
  void End();  // the pipe has ended: Last() is complete
  bool ended() const;
  std::string Last() const;
  std::string LastWith(std::string_view mark) const;
  absl::Time fed_at() const;  // when the last bytes came; infinite past: none came

 private:
  mutable Mutex mutex_;
  std::string kept_ ABSL_GUARDED_BY(mutex_);  // at most twice kTailKept
  absl::Time fed_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
