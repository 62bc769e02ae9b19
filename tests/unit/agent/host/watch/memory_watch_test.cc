// The memory of a container, as the files of both kinds of cgroups tell it.
#include "agent/host/watch/memory_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace muster::host {
namespace {

class MemoryWatchTest : public ::testing::Test {
 protected:
  MemoryWatchTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~MemoryWatchTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content << "\n";
  }
  std::optional<MemoryUse> Use(bool v2) { return MemoryWatch({{folder_.string(), v2}}).Read(); }

  std::filesystem::path folder_;
};

TEST_F(MemoryWatchTest, PagesOfFilesDoNotCount) {
  Write("memory.max", "1000");
  Write("memory.current", "900");
  Write("memory.stat", "anon 500\ninactive_file 200\nactive_file 100");
  const auto use = Use(true);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->used, 600u);
  EXPECT_EQ(use->limit, 1000u);
}

TEST_F(MemoryWatchTest, TheOlderKindHasOtherNames) {
  Write("memory.limit_in_bytes", "1000");
  Write("memory.usage_in_bytes", "900");
  Write("memory.stat", "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100");
  ASSERT_TRUE(Use(false));
  EXPECT_EQ(Use(false)->used, 600u);
}

TEST_F(MemoryWatchTest, WithoutALimitNothingIsTold) {
  Write("memory.max", "max");
  Write("memory.current", "900");
  Write("memory.limit_in_bytes", "9223372036854771712");
  Write("memory.usage_in_bytes", "900");
  EXPECT_FALSE(Use(true));
  EXPECT_FALSE(Use(false));
  EXPECT_FALSE(MemoryWatch(std::vector<MemoryCgroup>()).Read());
}

TEST_F(MemoryWatchTest, TheFirstFolderWithALimitCounts) {
  Write("memory.max", "1000");
  Write("memory.current", "900");
  const auto use = MemoryWatch({{"/missing", true}, {folder_.string(), true}}).Read();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->used, 900u) << "nothing is known to be spare";
}

}  // namespace
}  // namespace muster::host
