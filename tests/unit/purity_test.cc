// The cores decide and do nothing else: shown by what they include. A core that includes a clock, a thread, a
// socket or a logger is no core any more. And locks are those that clang checks.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

namespace {

namespace fs = std::filesystem;

// What a pure core may not see.
const std::regex kImpure(
    R"re(#include\s*[<"](grpc|thread|mutex|atomic|chrono|random|unistd|fcntl|sys/|spdlog|fstream|iostream|filesystem|absl/synchronization|absl/random|base/io/(?!secret_file)))re");
const std::regex kImpureCall(
    R"re(\b(getenv|getpid|geteuid|isatty|access|absl::Now|ReadSecret\w+|clock_gettime|system_clock|steady_clock|std::rand)\s*\()re");

struct Core {
  const char* folder;
  int least_files;
  std::string only = ".*";  // the names of its pure files, without their ends
};

class PurityOf : public ::testing::TestWithParam<Core> {};

TEST_P(PurityOf, NoFileDoesIoOrReadsClockOrRandomness) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(MUSTER_SOURCE_DIR) / GetParam().folder)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".cc" && path.extension() != ".h") continue;
    if (!std::regex_match(path.stem().string(), std::regex(GetParam().only))) continue;
    ++files;
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      EXPECT_FALSE(std::regex_search(line, kImpure)) << path << ":" << number << ": " << line;
      EXPECT_FALSE(std::regex_search(line, kImpureCall)) << path << ":" << number << ": " << line;
    }
  }
  EXPECT_GE(files, GetParam().least_files) << "no sources found: have the folders moved?";
}

INSTANTIATE_TEST_SUITE_P(AllCores, PurityOf,
                         ::testing::Values(Core{"rendezvous/core", 8}, Core{"agent/process/core", 3},
                                           Core{"agent/host/core", 3}, Core{"base/proc", 4, "marker|orphans"},
                                           Core{"agent/platform/notice", 2, "notice"}, Core{"cli/options", 10},
                                           Core{"cli/plan", 25, "(?!machine|version).*"},
                                           Core{"cli/commands", 4, "help|completion"},
                                           Core{"agent/platform/discovery", 10}, Core{"base/core", 8},
                                           Core{"base/text", 10}, Core{"base/wire", 8}),
                         [](const auto& info) {
                           std::string name = info.param.folder;
                           for (char& c : name) c = c == '/' ? '_' : c;
                           return name;
                         });

TEST(LocksTest, EveryLockIsCheckedByClang) {
  const fs::path root = MUSTER_SOURCE_DIR;
  const std::regex unchecked(R"re(#include\s*[<"](mutex|shared_mutex|condition_variable|absl/synchronization))re");
  int files = 0;
  for (const char* folder : {"base", "rendezvous", "agent", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& path = entry.path();
      if ((path.extension() != ".cc" && path.extension() != ".h") || path == root / "base/io/mutex.h") continue;
      ++files;
      std::ifstream file(path);
      std::string line;
      while (std::getline(file, line)) EXPECT_FALSE(std::regex_search(line, unchecked)) << path << ": " << line;
    }
  }
  EXPECT_GE(files, 100) << "no sources found: have the folders moved?";
}

}  // namespace
