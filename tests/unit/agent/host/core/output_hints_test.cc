// Which failures of a worker without standard input get the hint about the keyboard.
#include "agent/host/core/output_hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::host {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kQuit[] = "    if self.quitting: raise BdbQuit\nbdb.BdbQuit\n";

v1::Failure Exited(int code) {
  v1::Failure failure;
  failure.set_rank(5);
  failure.set_pid(71);
  failure.set_exit_code(code);
  return failure;
}

TEST(KeyboardHintTest, ADebuggerWithoutAKeyboardIsToldOfStdin) {
  const std::string hint = KeyboardHint(Exited(1), kQuit, false);
  EXPECT_THAT(hint, StartsWith("breakpoint() or input() found no keyboard"));
  EXPECT_THAT(hint, HasSubstr("--stdin 5"));
  EXPECT_THAT(hint, HasSubstr("--debug 5:PORT"));
  EXPECT_EQ(KeyboardHint(Exited(1), "EOFError: EOF when reading a line", false), hint);
}

TEST(KeyboardHintTest, ARecordedTracebackCountsAsOutput) {
  v1::Failure failure = Exited(1);
  failure.set_callstack(kQuit);
  EXPECT_THAT(KeyboardHint(failure, "", false), StartsWith("breakpoint()"));
  EXPECT_THAT(KeyboardHint(failure, "", true), StartsWith("breakpoint()"));
}

TEST(KeyboardHintTest, OtherFailuresGetNone) {
  EXPECT_EQ(KeyboardHint(Exited(1), "ValueError: 5", false), "");
  EXPECT_EQ(KeyboardHint(Exited(1), "", false), "");
  EXPECT_EQ(KeyboardHint(Exited(7), kQuit, true), "");
  v1::Failure killed = Exited(0);
  killed.set_signal(9);
  EXPECT_EQ(KeyboardHint(killed, kQuit, true), "");
}

TEST(KeyboardHintTest, OutputThatNobodySawMayBeADebuggers) {
  EXPECT_THAT(KeyboardHint(Exited(1), "", true), StartsWith("if its output ends with bdb.BdbQuit"));
  v1::Failure told = Exited(1);
  told.set_error_text("ValueError: 5");
  EXPECT_EQ(KeyboardHint(told, "", true), "") << "it has said why";
  v1::Failure unstarted = Exited(1);
  unstarted.set_pid(0);
  EXPECT_EQ(KeyboardHint(unstarted, "", true), "");
}

TEST(UnknownOptionHintTest, NamesTheOptionThatEachWorkerGets) {
  constexpr char kRejected[] = "usage: t.py [-h]\nt.py: error: unrecognized arguments: --local_rank=0";
  EXPECT_THAT(UnknownOptionHint(Exited(2), kRejected, "local_rank"),
              StartsWith("the script does not know --local_rank, which each worker gets: by deepspeed's line"));
  EXPECT_EQ(UnknownOptionHint(Exited(2), kRejected, ""), "");
  EXPECT_EQ(UnknownOptionHint(Exited(2), kRejected, "rank"), "") << "another one is unknown";
  EXPECT_EQ(UnknownOptionHint(Exited(1), kRejected, "local_rank"), "");
}

TEST(LocalRankHintTest, IsForOutputAboutArguments) {
  for (const char* lines : {"", "error: unrecognized arguments: --x", "no --local-rank", "no local_rank"})
    EXPECT_TRUE(MayMeanLocalRank(lines)) << lines;
  EXPECT_FALSE(MayMeanLocalRank("error: the following arguments are required: --data"));
}

TEST(MissingModuleHintTest, IsForPythonsOwnExceptionAlone) {
  constexpr char kMissing[] = "ModuleNotFoundError: No module named 'torch'";
  EXPECT_THAT(MissingModuleHint(Exited(1), kMissing, "/p"), StartsWith("the workers' Python is /p;"));
  EXPECT_EQ(MissingModuleHint(Exited(2), kMissing, "/p"), "");
  EXPECT_EQ(MissingModuleHint(Exited(1), kMissing, ""), "") << "the program is no Python script";
  EXPECT_EQ(MissingModuleHint(Exited(1), "ValueError: 5", "/p"), "");
}

}  // namespace
}  // namespace muster::host
