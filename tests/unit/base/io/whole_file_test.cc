// Files that are written and read whole, beside what other users may have put there.
#include "base/io/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "tests/unit/test_folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uid_t kOther = 104'243;  // another user

class WholeFileTest : public ::testing::Test {
 protected:
  // As in /tmp, others may write here, but not remove what is ours.
  void MakeSticky() { ASSERT_EQ(chmod((folder / "").c_str(), 01777), 0); }
  // Makes it another user's; false: this process may not do that.
  static bool GiveAway(const std::string& path) { return lchown(path.c_str(), kOther, kOther) == 0; }

  const TestFolder folder;
};

TEST_F(WholeFileTest, CreatesOrReplacesTheFileWithoutLeftovers) {
  EXPECT_TRUE(ReplaceFile(folder / "r", "one, which is longer").ok());
  EXPECT_TRUE(ReplaceFile(folder / "r", "two").ok());
  EXPECT_EQ(Content(folder / "r"), "two");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(WholeFileTest, AnotherNodeWithTheSamePidIsNotInTheWay) {
  std::ofstream(folder / ("r." + std::to_string(getpid()) + ".tmp")) << "half of another node's";
  EXPECT_TRUE(ReplaceFile(folder / "r", "ours").ok());
  EXPECT_EQ(Content(folder / "r"), "ours");
}

TEST_F(WholeFileTest, TheFirstWriterWins) {
  { const std::ofstream empty(folder / "empty"); }
  for (const char* name : {"absent", "empty"}) {
    EXPECT_TRUE(FillFile(folder / name, "first").ok());
    EXPECT_TRUE(FillFile(folder / name, "second").ok());
    EXPECT_EQ(Content(folder / name), "first");
  }
  EXPECT_FALSE(FillFile(folder / "no/where", "x").ok());
}

TEST_F(WholeFileTest, ALinksTargetIsReplaced) {
  std::ofstream(folder / "file") << "old";
  ASSERT_EQ(symlink("file", (folder / "link").c_str()), 0);
  EXPECT_TRUE(ReplaceFile(folder / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(Content(folder / "file"), "new");
}

TEST_F(WholeFileTest, APipeIsWrittenTo) {
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(ReplaceFile(folder / "pipe", "text").ok());
  char buffer[16] = {};
  EXPECT_EQ(read(reader, buffer, sizeof(buffer)), 4);
  close(reader);
  EXPECT_FALSE(ReplaceFile(folder / "pipe", "text").ok()) << "without a reader it must not wait";
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST_F(WholeFileTest, AnErrorNamesThePath) {
  const absl::Status status = ReplaceFile(folder / "no/where", "x");
  EXPECT_NE(std::string(status.message()).find(folder / "no/where"), std::string::npos) << status;
}

TEST_F(WholeFileTest, OverwritesInPlaceAndCreatesNoFile) {
  std::ofstream(folder / "f") << "a longer one";
  struct stat before = {}, after = {};
  ASSERT_EQ(stat((folder / "f").c_str(), &before), 0);
  EXPECT_TRUE(OverwriteFile(folder / "f", "new").ok());
  ASSERT_EQ(stat((folder / "f").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(Content(folder / "f"), "new");
  EXPECT_FALSE(OverwriteFile(folder / "g", "new").ok());
}

TEST_F(WholeFileTest, NothingLeadsThroughALinkOfAnotherUser) {
  std::ofstream(folder / "precious") << "ours";
  ASSERT_EQ(symlink("precious", (folder / "link").c_str()), 0);
  ASSERT_EQ(symlink("absent", (folder / "dangling").c_str()), 0);
  ASSERT_EQ(symlink("link", (folder / "ours").c_str()), 0);
  if (!GiveAway(folder / "link") || !GiveAway(folder / "dangling")) GTEST_SKIP() << "only root";
  for (const char* name : {"link", "dangling", "ours"}) {
    const std::string path = folder / name;
    for (const absl::Status& status : {ReplaceFile(path, "x"), OverwriteFile(path, "x"), FillFile(path, "x"),
                                       ReadWholeFile(path, 9).status(), CheckLink(path), CheckLink(path + "/")}) {
      EXPECT_TRUE(absl::IsPermissionDenied(status)) << name << ": " << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(path + " is a link that another user (uid 104243) owns"));
    }
  }
  EXPECT_EQ(Content(folder / "precious"), "ours");
  EXPECT_FALSE(fs::exists(folder / "absent"));
}

TEST_F(WholeFileTest, OurLinkMayLeadNowhereYet) {
  ASSERT_EQ(symlink("new", (folder / "link").c_str()), 0);
  EXPECT_TRUE(ReplaceFile(folder / "link", "x").ok());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(Content(folder / "new"), "x");
}

TEST_F(WholeFileTest, LinksThatLeadInACircleAreAnError) {
  ASSERT_EQ(symlink("b", (folder / "a").c_str()), 0);
  ASSERT_EQ(symlink("a", (folder / "b").c_str()), 0);
  EXPECT_THAT(std::string(ReplaceFile(folder / "a", "x").message()), HasSubstr("Too many levels"));
}

TEST_F(WholeFileTest, InAStickyFolderAnothersFileIsLeftAlone) {
  MakeSticky();
  std::ofstream(folder / "theirs") << "theirs";
  { const std::ofstream empty(folder / "empty"); }
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"theirs", "empty", "pipe"}) {
    if (!GiveAway(folder / name)) GTEST_SKIP() << "only root";
    ASSERT_EQ(chmod((folder / name).c_str(), 0666), 0);
  }
  const int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  for (const char* name : {"theirs", "empty", "pipe"}) {
    const std::string path = folder / name;
    EXPECT_TRUE(absl::IsPermissionDenied(ReplaceFile(path, "x"))) << name;
    EXPECT_TRUE(absl::IsPermissionDenied(FillFile(path, "x"))) << name;
    EXPECT_TRUE(absl::IsPermissionDenied(ReadWholeFile(path, 9).status())) << name;
    EXPECT_FALSE(OverwriteFile(path, "x").ok()) << name;
  }
  char byte = 0;
  EXPECT_EQ(read(reader, &byte, 1), 0);
  close(reader);
  EXPECT_EQ(Content(folder / "theirs"), "theirs");
  EXPECT_EQ(Content(folder / "empty"), "");
  EXPECT_EQ(folder.entries(), 3u);
}

TEST_F(WholeFileTest, InAStickyFolderNothingIsWrittenThroughAHardLink) {
  std::ofstream(folder / "precious") << "ours";
  ASSERT_EQ(link((folder / "precious").c_str(), (folder / "planted").c_str()), 0);
  EXPECT_TRUE(OverwriteFile(folder / "planted", "ours").ok()) << "where only its owner can have made it";
  MakeSticky();
  EXPECT_TRUE(absl::IsPermissionDenied(OverwriteFile(folder / "planted", "x")));
  EXPECT_EQ(ReadWholeFile(folder / "planted", 9).value_or(""), "ours");
  EXPECT_TRUE(ReplaceFile(folder / "planted", "x").ok()) << "it takes the name alone";
  EXPECT_EQ(Content(folder / "precious"), "ours");
}

TEST_F(WholeFileTest, OnlyARegularFileIsOverwritten) {
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((folder / "folder").c_str(), 0700), 0);
  const int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  for (const char* name : {"pipe", "folder"}) {
    EXPECT_THAT(std::string(OverwriteFile(folder / name, "x").message()), HasSubstr("is not a regular file"));
  }
  close(reader);
  EXPECT_FALSE(OverwriteFile("/dev/null", "x").ok());
}

TEST_F(WholeFileTest, AFileIsReadWholeOrNotAtAll) {
  std::ofstream(folder / "file") << "123456789";
  EXPECT_EQ(ReadWholeFile(folder / "file", 9).value_or(""), "123456789");
  EXPECT_TRUE(absl::IsResourceExhausted(ReadWholeFile(folder / "file", 8).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadWholeFile(folder / "absent", 8).status()));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ReadWholeFile(folder / "pipe", 8).ok()) << "and nobody waits for its writer";
}

TEST_F(WholeFileTest, AnOpenFileIsWrittenTo) {
  const int fd = open((folder / "file").c_str(), O_RDWR | O_CREAT, 0600);
  EXPECT_TRUE(ReplaceFile("/proc/self/fd/" + std::to_string(fd), "text").ok());
  close(fd);
  EXPECT_EQ(Content(folder / "file"), "text");
}

}  // namespace
}  // namespace muster
