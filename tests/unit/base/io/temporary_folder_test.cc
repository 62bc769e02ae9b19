// Scratch folders: who may see them, and what the next process removes.
#include "base/io/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

namespace fs = std::filesystem;

class ScratchFolderTest : public ::testing::Test {
 protected:
  ScratchFolderTest() {
    std::string pattern = "/tmp/muster-test-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~ScratchFolderTest() override {
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }

  // A folder whose process has ended: nobody holds its lock.
  std::string Abandoned() {
    const absl::StatusOr<ScratchFolder> made = ScratchFolder::Make();
    EXPECT_TRUE(made.ok()) << made.status();
    std::ofstream(made->path() + "/file") << "a worker's";
    fs::create_directories(made->path() + "/deep/deeper");
    return made->path();
  }

  std::string folder_;
};

TEST_F(ScratchFolderTest, OnlyThisUserMayLookIntoIt) {
  const absl::StatusOr<ScratchFolder> folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  struct stat info {};
  ASSERT_EQ(stat(folder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0700u);
  folder->Remove();
  EXPECT_FALSE(fs::exists(folder->path()));
}

TEST_F(ScratchFolderTest, AMissingParentIsMade) {
  setenv("TMPDIR", (folder_ + "/a/b").c_str(), 1);
  const absl::StatusOr<ScratchFolder> folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(fs::path(folder->path()).parent_path(), folder_ + "/a/b");
  folder->Remove();
}

// Each makes the parent while the others do; the one that comes too late uses it, too.
TEST_F(ScratchFolderTest, AParentThatAnotherHasJustMadeIsUsed) {
  for (int round = 0; round < 50; ++round) {
    const std::string parent = folder_ + "/" + std::to_string(round) + "/a/b/c";
    setenv("TMPDIR", parent.c_str(), 1);
    std::vector<std::future<std::string>> made;
    std::latch start(4);
    for (int i = 0; i < 4; ++i) {
      made.push_back(std::async(std::launch::async, [&start] {
        start.arrive_and_wait();
        const absl::StatusOr<ScratchFolder> folder = ScratchFolder::Make();
        if (!folder.ok()) return folder.status().ToString();
        folder->Remove();
        return fs::path(folder->path()).parent_path().string();
      }));
    }
    for (std::future<std::string>& one : made) ASSERT_EQ(one.get(), parent);
  }
}

TEST_F(ScratchFolderTest, TmpServesIfTheParentCannotBeMade) {
  std::ofstream(folder_ + "/file") << "no folder";
  setenv("TMPDIR", (folder_ + "/file/a").c_str(), 1);
  const absl::StatusOr<ScratchFolder> folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(fs::path(folder->path()).parent_path(), "/tmp");
  folder->Remove();
}

TEST_F(ScratchFolderTest, AnAbandonedFolderIsRemovedAndOneInUseIsNot) {
  const std::string abandoned = Abandoned();
  const absl::StatusOr<ScratchFolder> used = ScratchFolder::Make();
  ASSERT_TRUE(used.ok()) << used.status();
  RemoveAbandonedFolders();
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(used->path()));
}

TEST_F(ScratchFolderTest, AnAbandonedFolderInTmpIsRemovedToo) {
  std::ofstream(folder_ + "/file") << "no folder";
  setenv("TMPDIR", (folder_ + "/file/a").c_str(), 1);
  const std::string abandoned = Abandoned();
  EXPECT_EQ(fs::path(abandoned).parent_path(), "/tmp");
  RemoveAbandonedFolders();
  EXPECT_FALSE(fs::exists(abandoned));
}

TEST_F(ScratchFolderTest, LinksInItAreNotFollowed) {
  const std::string outside = folder_ + "/outside", abandoned = Abandoned();
  fs::create_directory(outside);
  std::ofstream(outside + "/precious") << "ours";
  fs::create_directory_symlink(outside, abandoned + "/link");
  RemoveAbandonedFolders();
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(outside + "/precious"));
}

TEST_F(ScratchFolderTest, ALinkOfAFoldersNameIsLeftAlone) {
  const std::string outside = folder_ + "/outside", abandoned = Abandoned();
  fs::rename(abandoned, outside);
  fs::create_directory_symlink(outside, abandoned);
  RemoveAbandonedFolders();
  EXPECT_TRUE(fs::exists(outside + "/file"));
  EXPECT_TRUE(fs::is_symlink(abandoned));
}

TEST_F(ScratchFolderTest, AnotherUsersFolderIsLeftAlone) {
  const std::string abandoned = Abandoned();
  if (chown(abandoned.c_str(), 104'243, 104'243) != 0) GTEST_SKIP() << "only root";
  RemoveAbandonedFolders();
  EXPECT_TRUE(fs::exists(abandoned + "/file"));
}

// Its process removes what it has made, and not what has come to its path.
TEST_F(ScratchFolderTest, WhatWasPutInItsPlaceKeepsItsContent) {
  const absl::StatusOr<ScratchFolder> folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  fs::rename(folder->path(), folder_ + "/away");
  fs::create_directory(folder->path());
  std::ofstream(folder->path() + "/precious") << "ours";
  folder->Remove();
  EXPECT_TRUE(fs::exists(folder->path() + "/precious"));
}

}  // namespace
}  // namespace muster
