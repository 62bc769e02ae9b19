#include "agent/host/preload/learned_modules.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/io/bounded_call.h"
#include "base/io/whole_file.h"

namespace muster::host {
namespace {

constexpr absl::Duration kFileLimit = absl::Milliseconds(200);  // on the loop, within any lease

std::vector<std::string> Lines(const std::string& file) {
  if (file.empty()) return {};
  const auto read = CallWithin(kFileLimit, [file] { return ReadWholeFile(file, kMaxLearnedBytes); });
  if (!read || !read->ok()) return {};
  return absl::StrSplit(**read, '\n', absl::SkipEmpty());
}

}  // namespace

std::vector<std::string> ReadImports(const std::string& file) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::string& name : Lines(file)) {
    if (names.size() < kMaxLearnedModules && seen.insert(name).second) names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> ReadModules(const LearnedModules& learned) {
  std::vector<std::string> lines = Lines(learned.file);
  if (lines.empty() || lines.front() != learned.script) return {};
  lines.erase(lines.begin());
  return lines;
}

void KeepModules(const LearnedModules& learned, const std::vector<std::string>& modules) {
  if (learned.file.empty()) return;
  (void)CallWithin(
      kFileLimit, [learned, content = absl::StrCat(learned.script, "\n", absl::StrJoin(modules, "\n"), "\n")] {
        std::error_code ignored;
        std::filesystem::create_directories(std::filesystem::path(learned.file).parent_path(), ignored);
        return ReplaceFile(learned.file, content);
      });
}

}  // namespace muster::host
