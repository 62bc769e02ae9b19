// Timers that workers set for themselves, and their expiry.
#include "agent/host/core/file_timer.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster::host {
namespace {

const absl::Time kWall = absl::FromUnixSeconds(1'700'000'000);
const BootTime kNow = absl::UnixEpoch() + absl::Hours(1);

TimerMessage Message(int64_t pid, const std::string& scope, double after_s, int signal = SIGKILL) {
  TimerMessage message;
  message.pid = pid;
  message.scope = scope;
  message.expires = kWall + absl::Seconds(after_s);
  message.signal = signal;
  return message;
}

TimerMessage Release(int64_t pid, const std::string& scope) {
  TimerMessage message = Message(pid, scope, 0);
  message.release = true;
  return message;
}

TEST(TimerMessages, AreReadAsTorchWritesThem) {
  const auto message = ParseTimerMessage(
      R"({"version": 1, "pid": 71, "scope_id": "a#b", "expiration_time": 1700000000.5, "signal": 15})");
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->pid, 71);
  EXPECT_EQ(message->scope, "a#b");
  EXPECT_EQ(message->expires, kWall + absl::Milliseconds(500));
  EXPECT_EQ(message->signal, 15);
  EXPECT_FALSE(message->release);
  EXPECT_TRUE(ParseTimerMessage(R"({"pid": 7, "scope_id": "", "expiration_time": -1, "signal": 0})")->release);
  EXPECT_EQ(ParseTimerMessage(R"({"pid": 7, "scope_id": "", "expiration_time": 1})")->signal, SIGKILL);
}

TEST(TimerMessages, AnythingElseIsRefused) {
  for (const char* line :
       {"", "x", "[]", "{}", R"({"pid": 0, "scope_id": "", "expiration_time": 1})",
        R"({"pid": -1, "scope_id": "", "expiration_time": 1})",
        R"({"pid": 1e300, "scope_id": "", "expiration_time": 1})",
        R"({"pid": 99999999999, "scope_id": "", "expiration_time": 1})",
        R"({"pid": "7", "scope_id": "", "expiration_time": 1})",
        R"({"pid": 7, "scope_id": 1, "expiration_time": 1})",
        R"({"pid": 7, "scope_id": "", "expiration_time": "1"})", R"({"pid": 7, "scope_id": ""})",
        R"({"pid": 7, "scope_id": "", "expiration_time": 1e300})",
        R"({"pid": 7, "scope_id": "", "expiration_time": 1, "signal": 65})",
        R"({"pid": 7, "scope_id": "", "expiration_time": 1, "signal": "SIGKILL"})"}) {
    EXPECT_FALSE(ParseTimerMessage(line).ok()) << line;
  }
}

TEST(TimerLinesTest, MessagesEndAtNewlinesInAnyPieces) {
  TimerLines lines;
  EXPECT_EQ(lines.Feed("ab"), std::vector<std::string>());
  EXPECT_EQ(lines.Feed("c\n\nd\nef"), (std::vector<std::string>{"abc", "d"}));
  EXPECT_EQ(lines.Feed("\n"), std::vector<std::string>{"ef"});
}

TEST(TimerLinesTest, AMessageTooLongIsSkipped) {
  TimerLines lines;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lines.Feed(std::string(kMaxTimerMessage, 'x')).empty());
  EXPECT_EQ(lines.Feed("yy\nnext\n"), std::vector<std::string>{"next"});
  EXPECT_EQ(lines.too_long(), 1);
  EXPECT_EQ(lines.Feed(std::string(kMaxTimerMessage, 'z') + "\n"),
            std::vector<std::string>{std::string(kMaxTimerMessage, 'z')});
}

class FileTimerTest : public ::testing::Test {
 protected:
  void Take(const TimerMessage& message, int local_rank = 0) {
    ASSERT_TRUE(timer_.Take(message, {local_rank, 5}).ok());
  }
  FileTimer::Due At(double after_s) {
    return timer_.Look(kWall + absl::Seconds(after_s), kNow + absl::Seconds(after_s));
  }

  FileTimer timer_;
};

TEST_F(FileTimerTest, OnExpiryTheProcessGetsItsSignalOnce) {
  Take(Message(71, "step", 10, SIGTERM), 3);
  EXPECT_TRUE(At(9.9).expired.empty());
  const FileTimer::Due due = At(10);
  ASSERT_EQ(due.expired.size(), 1u);
  EXPECT_EQ(due.expired[0].pid, 71);
  EXPECT_EQ(due.expired[0].signal, SIGTERM);
  EXPECT_EQ(due.expired[0].scope, "step");
  EXPECT_EQ(due.expired[0].owner.local_rank, 3);
  EXPECT_EQ(due.expired[0].owner.start, 5u);
  EXPECT_TRUE(At(10.1).expired.empty());
}

TEST_F(FileTimerTest, AReleasedTimerDoesNotExpire) {
  Take(Message(71, "a", 10));
  Take(Message(71, "b", 10));
  Take(Message(72, "a", 10));
  Take(Release(71, "a"));
  const FileTimer::Due due = At(11);
  ASSERT_EQ(due.expired.size(), 2u);
  EXPECT_EQ(due.expired[0].scope, "b");
  EXPECT_EQ(due.expired[1].pid, 72);
}

TEST_F(FileTimerTest, TheNewestMessageOfAScopeCounts) {
  Take(Message(71, "a", 10));
  Take(Message(71, "a", 20));
  EXPECT_TRUE(At(15).expired.empty());
  EXPECT_EQ(At(20).expired.size(), 1u);
}

TEST_F(FileTimerTest, TheFirstExpiredTimerWithASignalDecides) {
  Take(Message(71, "z", 1, 0));
  Take(Message(71, "a", 3, SIGKILL));
  Take(Message(71, "m", 2, SIGUSR1));
  const FileTimer::Due due = At(5);
  ASSERT_EQ(due.expired.size(), 1u);
  EXPECT_EQ(due.expired[0].signal, SIGUSR1);
  EXPECT_EQ(due.expired[0].scope, "m");
}

TEST_F(FileTimerTest, AnExpiredTimerWithoutASignalIsOnlyLogged) {
  Take(Message(71, "a", 1, 0));
  const FileTimer::Due due = At(2);
  ASSERT_EQ(due.expired.size(), 1u);
  EXPECT_LE(due.expired[0].signal, 0);
  EXPECT_TRUE(At(100).outlived.empty());
  EXPECT_TRUE(timer_.idle());
}

TEST_F(FileTimerTest, AWorkerThatOutlivesItsSignalIsReported) {
  Take(Message(71, "a", 0, SIGTERM), 2);
  EXPECT_TRUE(At(0).outlived.empty());
  EXPECT_TRUE(At(9.9).outlived.empty());
  EXPECT_FALSE(timer_.idle());
  EXPECT_EQ(At(10).outlived, std::vector<int>{2});
  EXPECT_TRUE(At(11).outlived.empty());
}

TEST_F(FileTimerTest, AWorkerThatEndsIsForgotten) {
  Take(Message(71, "a", 0, SIGTERM), 2);
  Take(Message(72, "of its child", 5), 2);
  Take(Message(73, "of another", 5), 1);
  At(0);
  timer_.WorkerEnded(2);
  EXPECT_TRUE(At(4).outlived.empty());
  const FileTimer::Due due = At(20);
  ASSERT_EQ(due.expired.size(), 1u);
  EXPECT_EQ(due.expired[0].pid, 73);
}

TEST_F(FileTimerTest, AProcessThatEndsIsForgotten) {
  Take(Message(71, "a", 5));
  Take(Message(71, "b", 5));
  EXPECT_EQ(timer_.pids(), std::vector<int64_t>{71});
  timer_.ProcessEnded(71);
  EXPECT_TRUE(timer_.idle());
}

TEST_F(FileTimerTest, TheNumberOfTimersIsLimited) {
  for (size_t i = 0; i < kMaxTimers; ++i) Take(Message(71, std::to_string(i), 5));
  EXPECT_FALSE(timer_.Take(Message(71, "more", 5), {}).ok());
  EXPECT_TRUE(timer_.Take(Message(71, "7", 6), {}).ok());
  EXPECT_TRUE(timer_.Take(Release(71, "more"), {}).ok());
}

TEST_F(FileTimerTest, AWorkerThatEndsAfterItsSignalHasNotOutlivedIt) {
  Take(Message(71, "a", 0, SIGTERM), 2);
  At(0);
  timer_.WorkerEnded(2);
  EXPECT_TRUE(At(100).outlived.empty());
}

TEST(TimerMessages, LimitsAreIncluded) {
  const auto parse = [](const std::string& pid, const std::string& time, const std::string& signal) {
    return ParseTimerMessage("{\"pid\": " + pid + ", \"scope_id\": \"\", \"expiration_time\": " + time +
                             ", \"signal\": " + signal + "}");
  };
  EXPECT_TRUE(parse("1", "1", "9").ok());
  EXPECT_TRUE(parse("2147483647", "1", "9").ok());
  EXPECT_FALSE(parse("2147483648", "1", "9").ok());
  EXPECT_TRUE(parse("7", "1e11", "9").ok());
  EXPECT_TRUE(parse("7", "-1e11", "9").ok());
  EXPECT_TRUE(parse("7", "1", "64").ok());
  EXPECT_FALSE(parse("7", "0", "9")->release);
}

}  // namespace
}  // namespace muster::host
