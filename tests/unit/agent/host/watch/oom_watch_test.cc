// Kills by the out-of-memory killer, as the counters of a cgroup show them.
#include "agent/host/watch/oom_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace muster::host {
namespace {

TEST(OomWatchTest, BothKindsOfCounterFilesAreRead) {
  EXPECT_EQ(OomWatch::ParseCount("low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\noom_group_kill 0\n"), 1u);
  EXPECT_EQ(OomWatch::ParseCount("oom_kill_disable 0\nunder_oom 0\noom_kill 12\n"), 12u);
  EXPECT_EQ(OomWatch::ParseCount(""), std::nullopt);
  EXPECT_EQ(OomWatch::ParseCount("garbage"), std::nullopt);
}

class CountedOomTest : public ::testing::Test {
 protected:
  CountedOomTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    Count(3);
    watch_.emplace(Path());
  }
  ~CountedOomTest() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ / "memory.events"; }
  void Count(int kills) const { std::ofstream(Path()) << "oom " << kills << "\noom_kill " << kills << "\n"; }

  std::filesystem::path folder_;
  std::optional<OomWatch> watch_;
};

TEST_F(CountedOomTest, ACountedKillExplainsOneWorker) {
  EXPECT_FALSE(watch_->WasOomKilled(0));
  Count(4);
  EXPECT_TRUE(watch_->WasOomKilled(0));
  EXPECT_FALSE(watch_->WasOomKilled(1));
}

TEST_F(CountedOomTest, EarlierRoundsKillsExplainNoFailure) {
  Count(4);  // for example a DataLoader: its worker ended for another reason
  watch_->BeginRound();
  EXPECT_FALSE(watch_->WasOomKilled(0));
  Count(5);
  EXPECT_TRUE(watch_->WasOomKilled(0));
}

TEST_F(CountedOomTest, OurOwnKillIsNoOutOfMemoryKill) {
  Count(4);
  watch_->WeKill(0);
  EXPECT_FALSE(watch_->WasOomKilled(0));
  EXPECT_TRUE(watch_->WasOomKilled(1));
  Count(5);
  watch_->WeKillAll();
  EXPECT_FALSE(watch_->WasOomKilled(2));
  watch_->BeginRound();
  Count(6);
  EXPECT_TRUE(watch_->WasOomKilled(0));
}

}  // namespace
}  // namespace muster::host
