// The workers' files: their paths, their bounds, following and filtering.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/time/clock.h"
#include "agent/host/core/output_plan.h"
#include "agent/host/output/bounded_file.h"
#include "agent/host/output/follower.h"
#include "agent/host/output/log_files.h"
#include "base/console/writer.h"
#include "base/io/event_loop.h"

namespace muster::host {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  explicit Folder(const std::string& parent = fs::temp_directory_path()) {
    std::string pattern = parent + "/muster-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string Content(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return all.str();
}

bool Waited(const std::function<bool()>& condition) {
  const BootTime limit = EventLoop::Now() + absl::Seconds(60);
  while (!condition()) {
    if (EventLoop::Now() > limit) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// True if the kernel has an inotify watch of this process.
bool AFileIsWatched() {
  for (const auto& entry : fs::directory_iterator("/proc/self/fdinfo")) {
    if (Content(entry.path()).find("inotify wd:") != std::string::npos) return true;
  }
  return false;
}

TEST(PathSafeTest, ARunIdIsOneShortNameAndNeverHiddenOrEmpty) {
  EXPECT_EQ(PathSafe("llama-7b"), "llama-7b");
  EXPECT_EQ(PathSafe("../../etc"), "_._.._etc");
  EXPECT_EQ(PathSafe("a\nb"), "a_b");
  EXPECT_EQ(PathSafe(""), "none");
  EXPECT_EQ(PathSafe(std::string(300, 'x')).size(), kMaxRunIdInPath);
}

TEST(LogFilesTest, AnAttemptHasItsOwnFolderForEachWorker) {
  const Folder folder;
  LogFiles files(folder / "new/logs", "job");
  ASSERT_TRUE(files.MakeAttempt(0, 2).ok());
  const std::string first = files.attempt();
  const std::string run_folder = fs::path(first).parent_path().string();
  EXPECT_TRUE(fs::is_directory(first + "/0") && fs::is_directory(first + "/1"));
  ASSERT_TRUE(files.MakeAttempt(1, 2).ok());
  EXPECT_EQ(files.attempt(), run_folder + "/attempt_1");
  ASSERT_TRUE(files.MakeAttempt(1, 2).ok());
  EXPECT_EQ(files.attempt(), run_folder + "/attempt_1_2");
}

TEST(LogFilesTest, AFolderThatCannotBeMadeIsNamed) {
  const Folder folder;
  std::ofstream(folder / "file") << "";
  LogFiles files(folder / "file", "job");
  const absl::Status status = files.MakeAttempt(0, 1);
  EXPECT_NE(status.message().find((folder / "file").c_str()), absl::string_view::npos) << status;
  EXPECT_EQ(files.attempt(), "");
}

// In a folder without a sticky bit others may do that.
TEST(LogFilesTest, ARunFolderThatWasExchangedIsNotUsedAgain) {
  const Folder folder;
  fs::create_directory(folder / "target");
  LogFiles files(folder / "logs", "job");
  ASSERT_TRUE(files.MakeAttempt(0, 1).ok());
  const fs::path run_folder = fs::path(files.attempt()).parent_path();
  fs::rename(run_folder, folder / "away");
  fs::create_directory_symlink(folder / "target", run_folder);
  EXPECT_TRUE(files.Open("0/stdout.log", O_WRONLY).ok());
  EXPECT_TRUE(fs::exists(folder / "away/attempt_0/0/stdout.log")) << "what is held stays ours";
  ASSERT_TRUE(files.MakeAttempt(1, 1).ok());
  EXPECT_NE(fs::path(files.attempt()).parent_path(), run_folder);
  EXPECT_TRUE(files.Open("0/stdout.log", O_WRONLY).ok());
  EXPECT_TRUE(fs::exists(files.attempt() + "/0/stdout.log"));
  EXPECT_TRUE(fs::is_empty(folder / "target"));
}

TEST(LogFilesTest, ALogFileIsNoLink) {
  const Folder folder;
  LogFiles files(folder / "logs", "job");
  ASSERT_TRUE(files.MakeAttempt(0, 1).ok());
  fs::create_symlink(folder / "elsewhere", files.attempt() + "/0/stdout.log");
  EXPECT_FALSE(files.Open("0/stdout.log", O_WRONLY).ok());
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
}

TEST(SinkTest, EachStreamGoesWhereTheFlagsSay) {
  OutputPlan plan;
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, true), Sink::kInherit);
  plan.redirects = {Streams::kOut, Streams::kOut};
  plan.tees = {Streams::kNone, Streams::kBoth};
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, true), Sink::kFile);
  EXPECT_EQ(SinkOf(plan, 0, Streams::kErr, true), Sink::kInherit);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, true), Sink::kShownFile);
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, false), Sink::kInherit);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, false), Sink::kPipe);
  plan.shown = {false, false};
  EXPECT_EQ(SinkOf(plan, 0, Streams::kErr, true), Sink::kNull);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, true), Sink::kFile);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, false), Sink::kNull);
  plan = OutputPlan();
  plan.prefix_all = true;
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, true), Sink::kPipe);
}

bool g_statfs_answers_zero = false;  // as a FUSE file system may

// A file that a worker appends to, and our descriptor of it.
struct Appended {
  Appended(const std::string& path, int64_t max_bytes, int64_t max_unread = kMaxUnread)
      : worker(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)),
        file(std::make_unique<BoundedFile>(OwnedFd(open(path.c_str(), O_RDWR | O_CLOEXEC)), path, max_bytes,
                                           max_unread)) {}
  void Write(std::string_view bytes) {
    ASSERT_EQ(write(worker.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  // For a follower, which owns the file from then on.
  FollowedFile FollowedTo(int out_fd) {
    FollowedFile followed;
    followed.file = std::move(file);
    followed.out_fd = out_fd;
    return followed;
  }
  OwnedFd worker;
  std::unique_ptr<BoundedFile> file;
};

// Numbered lines of 16 bytes.
std::string Numbered(int begin, int end) {
  std::string all;
  for (int i = begin; i < end; ++i) {
    char line[17];
    std::snprintf(line, sizeof(line), "%015d\n", i);
    all += line;
  }
  return all;
}

// Covers file systems that can shorten a file and those that can only punch a hole.
class BoundedFileTest : public testing::TestWithParam<const char*> {};

TEST_P(BoundedFileTest, TheOldestBytesGoAndTheDescriptorStays) {
  if (!fs::is_directory(GetParam())) GTEST_SKIP() << "there is no " << GetParam();
  const Folder folder(GetParam());
  constexpr int64_t kMax = 256 * 1024;
  Appended appended(folder / "log", kMax);
  ASSERT_TRUE(appended.file->Reserve().ok());
  BoundedFile::Change change;
  for (int i = 0; i < 100; ++i) {
    appended.Write(Numbered(i * 1000, (i + 1) * 1000));
    absl::Status trouble;
    change = appended.file->Keep(EventLoop::Now(), kAllRead, &trouble);
    EXPECT_TRUE(trouble.ok()) << trouble;
    EXPECT_LE(change.size - change.readable, kMax);
  }
  appended.file->Release();
  struct stat about {};
  ASSERT_EQ(stat((folder / "log").c_str(), &about), 0);
  EXPECT_LE(about.st_blocks * 512, kMax + 4096);
  EXPECT_EQ(about.st_size, change.size);
  const std::string kept = Content(folder / "log").substr(static_cast<size_t>(change.readable));
  EXPECT_GE(kept.size(), static_cast<size_t>(kMax / 2));
  EXPECT_TRUE(Numbered(0, 100'000).ends_with(kept));
}

TEST_P(BoundedFileTest, UnreadBytesStayUntilTheyAreTooMany) {
  if (!fs::is_directory(GetParam())) GTEST_SKIP() << "there is no " << GetParam();
  const Folder folder(GetParam());
  constexpr int64_t kMax = 64 * 1024, kUnread = 1024 * 1024;
  Appended appended(folder / "log", kMax, kUnread);
  appended.Write(Numbered(0, 50'000));  // 800 kB
  absl::Status trouble;
  BoundedFile::Change change = appended.file->Keep(EventLoop::Now(), 0, &trouble);
  EXPECT_EQ(change.removed + change.readable, 0);
  EXPECT_TRUE(appended.file->exceeds_limit());
  constexpr int64_t kRead = 600'000;
  change = appended.file->Keep(EventLoop::Now(), kRead, &trouble);
  const int64_t gone = change.removed + change.readable;
  EXPECT_GT(gone, kRead - 64 * 1024) << "in whole blocks";
  EXPECT_LE(gone, kRead);
  appended.Write(Numbered(50'000, 150'000));
  change = appended.file->Keep(EventLoop::Now(), kRead - change.removed, &trouble);
  EXPECT_LE(change.size - change.readable, kUnread);
  EXPECT_GT(change.size - change.readable, kMax) << "as much as the larger bound allows";
  change = appended.file->Keep(EventLoop::Now(), change.size, &trouble);
  EXPECT_LE(change.size - change.readable, kMax);
  EXPECT_FALSE(appended.file->exceeds_limit());
  EXPECT_TRUE(trouble.ok()) << trouble;
}

INSTANTIATE_TEST_SUITE_P(FileSystems, BoundedFileTest, testing::Values("/var/tmp", "/dev/shm"));

TEST(BoundedFileTest, ReadersFollowRemovedBytes) {
  const Folder folder;
  Appended appended(folder / "log", 64 * 1024);
  appended.Write(Numbered(0, 10'000));
  absl::Status trouble;
  const BoundedFile::Change change = appended.file->Keep(EventLoop::Now(), kAllRead, &trouble);
  const int64_t gone = change.removed + change.readable;
  EXPECT_GT(gone, 0);
  const std::string now = Content(folder / "log").substr(static_cast<size_t>(change.readable));
  EXPECT_EQ(now, Numbered(0, 10'000).substr(static_cast<size_t>(gone)));
}

TEST(BoundedFileTest, TheReserveIsNotPartOfTheFile) {
  const Folder folder;
  Appended appended(folder / "log", 0);
  ASSERT_TRUE(appended.file->Reserve().ok());
  appended.Write("line\n");
  EXPECT_EQ(Content(folder / "log"), "line\n");
  appended.file->Release();
  struct stat about {};
  ASSERT_EQ(stat((folder / "log").c_str(), &about), 0);
  EXPECT_LT(about.st_blocks * 512, kLeastReserve);
}

TEST(BoundedFileTest, TheReserveEndsWithTheObject) {
  const Folder folder;
  {
    Appended appended(folder / "log", 0);
    ASSERT_TRUE(appended.file->Reserve().ok());
  }
  struct stat about {};
  ASSERT_EQ(stat((folder / "log").c_str(), &about), 0);
  EXPECT_EQ(about.st_blocks, 0);
}

TEST(BoundedFileTest, ASmallReserveIsRenewedAtItsSize) {
  const Folder folder;
  Appended appended(folder / "log", 0);
  ASSERT_TRUE(appended.file->Reserve(kLeastReserve).ok());
  appended.Write(Numbered(0, 4'000));
  absl::Status trouble;
  (void)appended.file->Keep(EventLoop::Now(), kAllRead, &trouble);
  struct stat about {};
  ASSERT_EQ(stat((folder / "log").c_str(), &about), 0);
  EXPECT_GT(about.st_blocks * 512, 64'000);
  EXPECT_LE(about.st_blocks * 512, 64'000 + 2 * kLeastReserve);
}

TEST(BoundedFileTest, AnUnknownFileSystemSizeCountsAsSmall) {
  const Folder folder;
  Appended appended(folder / "log", 64 * 1024);
  g_statfs_answers_zero = true;
  ASSERT_TRUE(appended.file->Reserve().ok());
  appended.Write(Numbered(0, 100'000));
  absl::Status trouble;
  const BoundedFile::Change change = appended.file->Keep(EventLoop::Now(), kAllRead, &trouble);
  g_statfs_answers_zero = false;
  EXPECT_TRUE(trouble.ok()) << trouble;
  EXPECT_LE(change.size - change.readable, 64 * 1024);
}

TEST(FollowerTest, AFileIsShownAsItGrowsAndToItsEnd) {
  const Folder folder;
  const OwnedFd console(open((folder / "console").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  Writer writer;
  Follower follower(writer.feed());
  Appended appended(folder / "log", 0);
  FollowedFile followed = appended.FollowedTo(console.get());
  followed.prefix = "0|";
  follower.Follow(std::move(followed));
  appended.Write("one\n");
  EXPECT_TRUE(Waited([&] { return Content(folder / "console") == "0|one\n"; }));
  EXPECT_TRUE(Waited(AFileIsWatched));  // a quiet file is watched, no longer polled
  appended.Write("two\nthr");
  EXPECT_TRUE(Waited([&] { return Content(folder / "console") == "0|one\n0|two\n"; }));
  appended.Write("ee\nend");
  follower.EndRound();
  EXPECT_TRUE(follower.AwaitDrained(absl::Seconds(60)));
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  EXPECT_EQ(Content(folder / "console"), "0|one\n0|two\n0|three\n0|end\n");
}

TEST(FollowerTest, ALimitedFileIsShownWhole) {
  const Folder folder;
  const OwnedFd console(open((folder / "console").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  constexpr int64_t kMax = 64 * 1024;
  Writer writer;
  Follower follower(writer.feed());
  Appended appended(folder / "log", kMax);
  appended.Write(Numbered(0, 500'000));  // faster than it is read
  follower.Follow(appended.FollowedTo(console.get()));
  follower.EndRound();
  EXPECT_TRUE(follower.AwaitDrained(absl::Seconds(60)));
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  EXPECT_TRUE(Content(folder / "console") == Numbered(0, 500'000));
  struct stat about {};
  ASSERT_EQ(stat((folder / "log").c_str(), &about), 0);
  EXPECT_LE(about.st_blocks * 512, kMax + 4096);
}

// Lines of 100 bytes, which do not end at the file's blocks.
std::string LongLines(int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    char line[101];
    std::snprintf(line, sizeof(line), "begin %06d %s end %06d\n", i, std::string(75, 'x').c_str(), i);
    all += line;
  }
  return all;
}

TEST(FollowerTest, OfTooMuchUnreadTheNewestWholeLinesAreShown) {
  const Folder folder;
  const OwnedFd console(open((folder / "console").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  constexpr int64_t kUnread = 512 * 1024;
  Writer writer;
  Follower follower(writer.feed());
  Appended appended(folder / "log", 64 * 1024, kUnread);
  const std::string all = LongLines(100'000);
  appended.Write(all);
  follower.Follow(appended.FollowedTo(console.get()));
  follower.EndRound();
  EXPECT_TRUE(follower.AwaitDrained(absl::Seconds(60)));
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  const std::string shown = Content(folder / "console");
  EXPECT_TRUE(shown.starts_with("begin ")) << shown.substr(0, 100);
  EXPECT_TRUE(all.ends_with(shown));
  EXPECT_GE(shown.size(), static_cast<size_t>(kUnread / 2 - 200));
  EXPECT_LE(shown.size(), static_cast<size_t>(kUnread));
}

TEST(FollowerTest, AStoppedReaderBlocksItsOwnDescriptorOnly) {
  signal(SIGPIPE, SIG_IGN);  // as muster itself
  const Folder folder;
  int stuck[2];
  ASSERT_EQ(pipe2(stuck, O_CLOEXEC), 0);
  const OwnedFd console(open((folder / "console").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  {
    Writer writer;
    Follower follower(writer.feed());
    Appended first(folder / "first", 0), second(folder / "second", 0);
    first.Write(Numbered(0, 100'000));
    follower.Follow(first.FollowedTo(stuck[1]));
    second.Write("heard\n");
    follower.Follow(second.FollowedTo(console.get()));
    EXPECT_TRUE(Waited([&] { return Content(folder / "console") == "heard\n"; }));
    close(stuck[0]);  // the reader is gone for good: no flush waits for it
    follower.EndRound();
    EXPECT_TRUE(follower.AwaitDrained(absl::Seconds(60)));
  }
  close(stuck[1]);
}

TEST(FollowerTest, ALaterRoundIsShownAfterTheEarlierOne) {
  const Folder folder;
  const OwnedFd console(open((folder / "console").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  Writer writer;
  Follower follower(writer.feed());
  for (int round = 0; round < 3; ++round) {
    Appended appended(folder / std::to_string(round), 0);
    appended.Write(Numbered(round * 50'000, (round + 1) * 50'000));
    follower.Follow(appended.FollowedTo(console.get()));
    follower.EndRound();
  }
  EXPECT_TRUE(follower.AwaitDrained(absl::Seconds(60)));
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  EXPECT_TRUE(Content(folder / "console") == Numbered(0, 150'000));
}

TEST(FilteredLinesTest, MatchingLinesAreCopiedWhole) {
  const Folder folder;
  FilteredLines filtered(OwnedFd(open((folder / "f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)), folder / "f",
                         {"loss", "x", "[0]"});
  filtered.Take("[0]:loss 1\n[0]:nothing\n", 4);
  filtered.Take("[0]:x\n", 4);
  EXPECT_EQ(Content(folder / "f"), "[0]:loss 1\n[0]:x\n");
}

}  // namespace
}  // namespace muster::host

// Replaces the C library's function.
extern "C" int fstatfs(int fd, struct statfs* about) noexcept {
  if (muster::host::g_statfs_answers_zero) {
    *about = {};
    return 0;
  }
  return static_cast<int>(syscall(SYS_fstatfs, fd, about));
}
