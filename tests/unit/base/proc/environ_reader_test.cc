// Reads of environments do not wait for a process whose memory is locked.
#include "base/proc/environ_reader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <future>

#include "tests/unit/agent/host/host_shell_support.h"

namespace muster::host {
namespace {

constexpr pid_t kStuck = 7;

std::vector<ProcessInfo> Processes(const std::vector<pid_t>& pids) {
  std::vector<ProcessInfo> processes;
  for (const pid_t pid : pids) {
    processes.emplace_back();
    processes.back().pid = pid;
    processes.back().start = 1;
    processes.back().state = 'S';
  }
  return processes;
}

// Stands for the kernel, which blocks every reader of the environment of kStuck.
class EnvironReaderTest : public testing::Test {
 protected:
  ~EnvironReaderTest() override { LetGo(); }
  void LetGo() {
    if (!let_go_) release_.set_value();
    let_go_ = true;
  }

  std::promise<void> release_;
  bool let_go_ = false;
  std::shared_ptr<std::atomic<int>> reads_ = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::atomic<int>> let_go_reads_ = std::make_shared<std::atomic<int>>(0);
  EnvironReader reader_{[released = release_.get_future().share(), reads = reads_,
                         let_go_reads = let_go_reads_](pid_t pid) -> absl::StatusOr<std::string> {
                          if (pid % 10 == kStuck) {
                            ++*reads;
                            released.wait();
                            ++*let_go_reads;
                          }
                          return "of " + std::to_string(pid);
                        },
                        absl::Milliseconds(300)};  // enough for those that answer, on a busy machine too
};

TEST_F(EnvironReaderTest, AHungProcessBlocksNoOtherRead) {
  const auto answers = reader_.ReadAll(Processes({1, kStuck, 2}));
  EXPECT_EQ(answers.at(1).value_or(""), "of 1");
  EXPECT_EQ(answers.at(2).value_or(""), "of 2");
  EXPECT_TRUE(absl::IsUnavailable(answers.at(kStuck).status()));
}

TEST_F(EnvironReaderTest, AHungProcessIsNotReadAgainUntilItAnswers) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(reader_.ReadAll(Processes({kStuck})).at(kStuck).status()));
  }
  EXPECT_EQ(*reads_, 1);
  LetGo();
  EXPECT_TRUE(Eventually([&] { return reader_.ReadAll(Processes({kStuck})).at(kStuck).ok(); }));
}

TEST_F(EnvironReaderTest, TheNumberOfHeldThreadsIsLimited) {
  const std::vector<pid_t> stuck = {17, 27, 37, 47, 57, 67};
  reader_.ReadAll(Processes(stuck));
  EXPECT_TRUE(absl::IsUnavailable(reader_.ReadAll(Processes({1})).at(1).status()));
  EXPECT_TRUE(Eventually([&] { return *reads_ == kMaxHeldReads; }));
}

TEST_F(EnvironReaderTest, AReleasedThreadIsNoLongerCounted) {
  reader_.ReadAll(Processes({17, 27, 37, 47}));
  ASSERT_TRUE(absl::IsUnavailable(reader_.ReadAll(Processes({1})).at(1).status()));
  LetGo();
  EXPECT_TRUE(Eventually([&] { return reader_.ReadAll(Processes({1})).at(1).ok(); }));
}

TEST_F(EnvironReaderTest, ALateAnswerIsKept) {
  reader_.ReadAll(Processes({kStuck}));
  LetGo();
  ASSERT_TRUE(Eventually([&] { return *let_go_reads_ == 1; }));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(reader_.ReadAll(Processes({1})).at(1).ok());
  EXPECT_TRUE(Eventually([&] { return reader_.ReadAll(Processes({kStuck})).at(kStuck).ok(); }));
  EXPECT_EQ(*reads_, 1);
}

TEST_F(EnvironReaderTest, AProcessInUninterruptibleSleepIsNotRead) {
  auto processes = Processes({kStuck});
  processes[0].state = 'D';
  EXPECT_TRUE(absl::IsUnavailable(reader_.ReadAll(processes).at(kStuck).status()));
  EXPECT_EQ(*reads_, 0);
}

TEST(MarkerReaderTest, AMarkerIsReadAndItsAbsenceIsNoError) {
  EnvironmentMap environment = CurrentEnvironment();
  environment["MUSTER_HOST_ID"] = "h";
  LinePipe pipe;
  const pid_t bearer = SpawnActor({"wait"}, pipe.in(), environment);
  ASSERT_EQ(pipe.Line(), "here");
  environment.erase("MUSTER_HOST_ID");
  const pid_t other = SpawnActor({"wait"}, pipe.in(), environment);
  ASSERT_EQ(pipe.Line(), "here");
  const auto answers = MarkerReader().ReadAll({ReadProcess(bearer).value(), ReadProcess(other).value()});
  EXPECT_EQ(answers.at(bearer).value_or(""), "h");
  EXPECT_TRUE(absl::IsNotFound(answers.at(other).status()));
  for (const pid_t pid : {bearer, other}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace muster::host
