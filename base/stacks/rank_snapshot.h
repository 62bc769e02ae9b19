// Where the workers of a job stand, as seen from outside: the state of a rank's process and its Python stacks.
// Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster {

inline constexpr size_t kMaxFrames = 64;         // of one thread, from the innermost
inline constexpr size_t kMaxPythonThreads = 64;  // of one process; the main thread first
inline constexpr size_t kMaxFrameText = 512;     // bytes of a function's name, or of a file's

struct Frame {
  std::string function;  // "DataLoader.__next__"
  std::string file;      // as the interpreter names it, mostly an absolute path
  int line = 0;
};

// Whether a frame of this file belongs to the machinery of `import`, which says nothing of where a rank stands.
inline bool IsOfImport(const std::string& file) { return file.starts_with("<frozen importlib"); }

struct PythonThread {
  std::string name;  // "MainThread"
  bool is_main = false;
  std::vector<Frame> frames;  // innermost first; functions of C are not among them
};

struct RankSnapshot {
  int rank = 0;
  int64_t pid = 0;      // of the process that is shown: the rank's first Python process, or else its first process
  bool ended = false;   // nothing of it lives any more
  std::string program;  // "python3.11"
  char state = '?';     // as in /proc/PID/stat; '?': not known
  std::string waits_in;  // a function of the kernel; empty: none, or the kernel does not say
  int threads = 0;       // 0: not known
  std::vector<PythonThread> python;
  absl::Duration idle = absl::ZeroDuration();  // since its last sign of life, as far as it is watched
  bool silent_so_far = false;                  // it is watched, and has shown none in this round
  // The share of one processor that all of its processes used, or waited for, while the snapshot was taken.
  std::optional<int> busy_percent;
  std::string recorder;     // the file with its last collectives of NCCL, on its node; empty: none
  std::string last_output;  // its newest lines, where these were asked for; empty: none are known
  std::string missing;      // why there are no Python stacks, as a clause: "py-spy is not installed"
};

// The rank's main thread, if that has frames; else nullptr.
inline const PythonThread* MainThread(const RankSnapshot& rank) {
  const auto main = std::find_if(rank.python.begin(), rank.python.end(),
                                 [](const PythonThread& thread) { return thread.is_main; });
  return main == rank.python.end() || main->frames.empty() ? nullptr : &*main;
}

}  // namespace muster
