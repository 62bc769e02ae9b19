// --preload auto: the modules that the workers of a script import, kept from one job to the next. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster::host {

inline constexpr size_t kMaxLearnedBytes = 1024 * 1024;  // of a list of names; torch and transformers: 100 KiB
inline constexpr size_t kMaxLearnedModules = 10'000;
// A list's age: what a script imports by way of other files may have changed without a change of the script.
inline constexpr absl::Duration kLearnedFor = absl::Hours(7 * 24);

// Where a list is kept, and what it is valid for.
struct LearnedModules {
  std::string file;    // empty: it is not kept
  std::string script;  // its first line: script, time of its last change, interpreter
};

// What a worker has written down, each name once, in its order. Empty: nothing, or it cannot be read now.
std::vector<std::string> ReadImports(const std::string& file);

// The list of an earlier job; empty: there is none, the script has changed since, or it is older than
// kLearnedFor.
std::vector<std::string> ReadModules(const LearnedModules& learned);

// Waits for a moment at most. Where nothing can be kept the next job learns again.
void KeepModules(const LearnedModules& learned, const std::vector<std::string>& modules);

}  // namespace muster::host
