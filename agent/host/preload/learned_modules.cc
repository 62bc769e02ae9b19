#include "agent/host/preload/learned_modules.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/io/bounded_call.h"
#include "base/io/whole_file.h"

namespace muster::host {
namespace {

constexpr absl::Duration kFileLimit = absl::Milliseconds(200);  // on the loop, within any lease

bool IsOlder(const std::string& file, absl::Duration age) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  return !error && std::filesystem::file_time_type::clock::now() - written > absl::ToChronoSeconds(age);
}

std::vector<std::string> Lines(const std::string& file, absl::Duration oldest = absl::InfiniteDuration()) {
  if (file.empty()) return {};
  const auto read = CallWithin(kFileLimit, [file, oldest]() -> absl::StatusOr<std::string> {
    if (oldest != absl::InfiniteDuration() && IsOlder(file, oldest)) return absl::NotFoundError("too old");
    return ReadWholeFile(file, kMaxLearnedBytes);
  });
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
  std::vector<std::string> lines = Lines(learned.file, kLearnedFor);
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
