// The progress file: what counts as a touch, and in which round.
#include "agent/host/watch/progress_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "base/io/temporary_folder.h"

namespace muster::host {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(1);
constexpr absl::Duration kLimit = absl::Seconds(20);  // only a hang reaches it

class ProgressWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto folder = MakeFolderIn(TemporaryFolder(), "muster-test-");
    ASSERT_TRUE(folder.ok());
    folder_ = *folder;
    ASSERT_TRUE(watch().Start().ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ProgressWatch& watch() {
    if (!watch_) watch_.emplace(&loop_, FolderFile(), [this] { ++touches_; });
    return *watch_;
  }

  std::string FolderFile() const { return folder_ + "/progress"; }
  void Touch() { std::ofstream(FolderFile(), std::ios::app) << "x"; }

  void BeginRound() {
    watch().BeginRound();
    RunUntilLooked();
  }
  // The touches reported once the file has been checked once more.
  int Look() {
    watch().Look();
    RunUntilLooked();
    return touches_;
  }
  // The result of the check waits in the loop.
  void AwaitLookOutsideTheLoop() {
    while (!watch().looked()) std::this_thread::yield();
  }

 private:
  void RunUntilLooked() {
    until_ = EventLoop::Now() + kLimit;
    Poll();
    loop_.Run();
    ASSERT_TRUE(watch().looked());
  }
  void Poll() {
    if (watch().looked() || EventLoop::Now() > until_) {
      loop_.Post([this] { loop_.Stop(); });  // after the result of the check
    } else {
      loop_.After(kPoll, [this] { Poll(); });
    }
  }

  std::string folder_;
  EventLoop loop_;
  int touches_ = 0;
  BootTime until_;
  std::optional<ProgressWatch> watch_;
};

TEST_F(ProgressWatchTest, EachTouchIsReported) {
  Touch();
  BeginRound();
  EXPECT_EQ(Look(), 0) << "the state before the round is no progress";
  Touch();
  EXPECT_EQ(Look(), 1);
  EXPECT_EQ(Look(), 1) << "nothing has happened since";
  Touch();
  EXPECT_EQ(Look(), 2);
  BeginRound();
  EXPECT_EQ(Look(), 2);
  Touch();
  EXPECT_EQ(Look(), 3);
}

TEST_F(ProgressWatchTest, ALateTouchDoesNotCountForTheNextRound) {
  BeginRound();
  Touch();
  watch().Look();
  AwaitLookOutsideTheLoop();
  watch().BeginRound();
  EXPECT_EQ(Look(), 0);
}

TEST_F(ProgressWatchTest, AppearingIsATouchVanishingIsNot) {
  BeginRound();
  EXPECT_EQ(Look(), 0);
  Touch();
  EXPECT_EQ(Look(), 1);
  BeginRound();
  std::filesystem::remove(FolderFile());
  EXPECT_EQ(Look(), 1);
}

}  // namespace
}  // namespace muster::host
