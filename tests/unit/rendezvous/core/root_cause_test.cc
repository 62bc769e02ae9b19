// Which failure of a worker is the root cause, and what the verdict tells of the others.
#include "rendezvous/core/root_cause.h"

#include <gtest/gtest.h>

#include "base/wire/other_failures.h"

namespace muster::rendezvous {
namespace {

BootTime At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

SeenFailure Code(int rank, int code, double at) {
  SeenFailure seen;
  seen.failure.set_rank(rank);
  seen.failure.set_exit_code(code);
  seen.at = At(at);
  return seen;
}

SeenFailure Signal(int rank, int signal, double at) {
  SeenFailure seen;
  seen.failure.set_rank(rank);
  seen.failure.set_signal(signal);
  seen.at = At(at);
  return seen;
}

TEST(DescribeFailure, SaysWhyWhereTheEndAloneDoesNot) {
  SeenFailure seen = Signal(3, 6, 0);
  seen.failure.set_host("b");
  seen.failure.set_error_text("no sign of life");
  EXPECT_EQ(DescribeFailure(seen.failure), "rank 3 on b was killed (SIGABRT)") << seen.failure.DebugString();
  seen.failure.set_hung(true);
  EXPECT_EQ(DescribeFailure(seen.failure), "rank 3 on b hangs, and was ended: no sign of life");
  seen.failure.set_hung_for_all(true);
  EXPECT_EQ(DescribeFailure(seen.failure), "rank 3 on b was ended, because the round hangs: no sign of life");
  v1::Failure wrong_option;
  wrong_option.set_host("b");
  wrong_option.set_exit_code(64);
  wrong_option.set_error_text("--debug 9: no such rank");
  EXPECT_EQ(DescribeFailure(wrong_option), "rank 0 on b could not be started: --debug 9: no such rank");
}

TEST(FirstCause, IsTheEarliestFailureBeforeOurSignal) {
  SeenFailure echo = Code(0, 9, 1);
  echo.failure.set_after_our_signal(true);
  const auto cause = FirstCause(RefsTo({Code(2, 7, 3), echo, Code(1, 1, 5)}));
  ASSERT_TRUE(cause.has_value());
  EXPECT_EQ(cause->failure.rank(), 2);
  EXPECT_FALSE(FirstCause(RefsTo({echo})).has_value());
  EXPECT_FALSE(FirstCause(RefsTo({})).has_value());
}

TEST(FirstCause, WithinAMomentASignalBeatsAnExitCode) {
  EXPECT_EQ(FirstCause(RefsTo({Code(0, 1, 1.0), Signal(1, 11, 1.03)}))->failure.rank(), 1);
  EXPECT_EQ(FirstCause(RefsTo({Code(0, 1, 1.0), Signal(1, 11, 1.2)}))->failure.rank(), 0);
}

TEST(FirstCause, APeersAbortDoesNotBeatAnExitCode) {
  SeenFailure aborted = Signal(1, 6, 1.03);
  aborted.failure.set_error_text("what():  [pair.cc:553] Connection closed by peer");
  EXPECT_EQ(FirstCause(RefsTo({Code(0, 2, 1.0), aborted}))->failure.rank(), 0);
  SeenFailure reset = Code(0, 1, 1.0);
  reset.failure.set_error_text("Connection reset by peer");
  EXPECT_EQ(FirstCause(RefsTo({reset, aborted}))->failure.rank(), 1) << "both are echoes";
}

TEST(FirstCause, OutOfMemoryBeatsTheEarliestSignal) {
  EXPECT_EQ(FirstCause(RefsTo({Code(0, 1, 1.0), Signal(1, 11, 1.03), Signal(2, 7, 1.02)}))->failure.rank(), 2);
  SeenFailure oom = Signal(3, 9, 1.04);
  oom.failure.set_oom_killed(true);
  EXPECT_EQ(FirstCause(RefsTo({Signal(1, 6, 1.0), oom, Code(0, 1, 0.99)}))->failure.rank(), 3);
  oom.at = At(1.2);
  EXPECT_EQ(FirstCause(RefsTo({Signal(1, 6, 1.0), oom}))->failure.rank(), 1);
}

TEST(FirstCause, APeersLossIsAnEchoOfAnotherFailure) {
  SeenFailure reset = Code(0, 1, 1.0);
  reset.failure.set_error_text(
      "RuntimeError: [../third_party/gloo/pair.cc:534] Connection closed by peer [10.0.0.1]");
  EXPECT_EQ(FirstCause(RefsTo({reset, Code(1, 7, 1.6)}))->failure.rank(), 1);
  EXPECT_EQ(FirstCause(RefsTo({reset, Code(1, 7, 3.1)}))->failure.rank(), 0) << "it came too late to be the cause";
  EXPECT_EQ(FirstCause(RefsTo({reset}))->failure.rank(), 0) << "better than nothing";
  SeenFailure aborted = Signal(2, 6, 1.1);
  aborted.failure.set_last_output("terminate called ... NCCL error: ncclRemoteError: remote process exited");
  EXPECT_EQ(FirstCause(RefsTo({reset, aborted, Code(1, 7, 1.6)}))->failure.rank(), 1);
  SeenFailure crashed = Signal(3, 11, 1.1);
  crashed.failure.set_last_output("Connection reset by peer");
  EXPECT_EQ(FirstCause(RefsTo({reset, crashed}))->failure.rank(), 3) << "no peer makes it crash so";
}

TEST(FirstCause, ExitCodeIsTheWorkersOr128PlusSignal) {
  EXPECT_EQ(ExitCodeOf(Code(0, 7, 0).failure), 7);
  EXPECT_EQ(ExitCodeOf(Signal(0, 11, 0).failure), 139);
}

TEST(RootCause, OtherFailuresAreListedInBrief) {
  SeenFailure cause = Code(3, 7, 2);
  cause.failure.set_last_output("why");
  cause.failure.set_callstack("where");
  *cause.failure.add_others() = Signal(2, 15, 2).failure;
  cause.failure.set_more_others(5);
  SeenFailure later = Code(9, 1, 4);
  later.failure.set_error_text(std::string(kMaxBriefText - 1, 'x') + "\xc3\xa4");
  later.failure.set_callstack("not so important");
  later.failure.set_last_output("nor this");
  later.failure.set_hint("nor a hint");
  later.failure.set_more_others(2);
  *later.failure.add_others() = Code(8, 1, 4).failure;
  v1::Verdict verdict;
  SetRootCause(cause.failure, RefsTo({later, cause, Code(5, 1, 3)}), &verdict);
  EXPECT_EQ(verdict.root_cause().last_output(), "why");
  EXPECT_EQ(verdict.root_cause().callstack(), "where");
  EXPECT_EQ(verdict.root_cause().others_size(), 0);
  ASSERT_EQ(verdict.other_failures_size(), 4);
  const int ranks[] = {2, 5, 9, 8};  // the cause's own node, then in order of time
  for (int i = 0; i < 4; ++i) EXPECT_EQ(verdict.other_failures(i).rank(), ranks[i]);
  EXPECT_EQ(verdict.more_failures(), 5 + 2);
  EXPECT_EQ(verdict.other_failures(2).error_text(), std::string(kMaxBriefText - 1, 'x'));
  EXPECT_EQ(verdict.other_failures(2).callstack() + verdict.other_failures(2).last_output(), "");
  EXPECT_EQ(verdict.other_failures(2).others_size(), 0);
  EXPECT_EQ(verdict.other_failures(2).hint(), "");
  EXPECT_EQ(verdict.other_failures(2).more_others(), 0);
}

TEST(RootCause, AnEchoGetsTheHintOfWhoSawARankLeave) {
  SeenFailure echo = Code(0, 1, 1), other = Code(5, 1, 1.1);
  echo.failure.set_error_text("Connection reset by peer");
  other.failure = echo.failure;
  other.failure.set_rank(5);
  other.failure.set_hint("rank 6 exited with code 0");
  v1::Verdict verdict;
  SetRootCause(echo.failure, RefsTo({echo, other}), &verdict);
  EXPECT_EQ(verdict.root_cause().hint(), "rank 6 exited with code 0");
  echo.failure.clear_error_text();
  SetRootCause(echo.failure, RefsTo({echo, other}), &verdict);
  EXPECT_EQ(verdict.root_cause().hint(), "") << "it is no echo";
}

TEST(RootCause, WorkersThatMusterStoppedAreListedLast) {
  const SeenFailure cause = Code(3, 7, 2);
  SeenFailure stopped = Signal(5, 15, 3);
  stopped.failure.set_after_our_signal(true);
  v1::Verdict verdict;
  SetRootCause(cause.failure, RefsTo({stopped, cause, Code(9, 1, 4)}), &verdict);
  ASSERT_EQ(verdict.other_failures_size(), 2);
  EXPECT_EQ(verdict.other_failures(0).rank(), 9);
  EXPECT_EQ(verdict.other_failures(1).rank(), 5);
  EXPECT_TRUE(verdict.other_failures(1).after_our_signal());
}

TEST(RootCause, AThousandFailuresMakeABoundedVerdict) {
  std::vector<SeenFailure> failures;
  for (int rank = 0; rank < 1000; ++rank) {
    failures.push_back(Code(rank, 1, rank));
    for (int i = 0; i < kMaxOtherFailures; ++i)
      *failures.back().failure.add_others() = Code(5000 + rank, 1, 0).failure;
  }
  v1::Verdict verdict;
  SetRootCause(failures[0].failure, RefsTo(failures), &verdict);
  EXPECT_EQ(verdict.other_failures_size(), kMaxOtherFailures);
  EXPECT_EQ(verdict.more_failures(), 999 + 1000 * kMaxOtherFailures - kMaxOtherFailures);
  EXPECT_LT(verdict.ByteSizeLong(), 4096u);
}

TEST(FirstCause, OfOneMomentIsTheFirstInTheList) {
  EXPECT_EQ(FirstCause(RefsTo({Code(2, 1, 1.0), Code(1, 1, 1.0), Code(0, 1, 1.0)}))->failure.rank(), 2);
  EXPECT_EQ(FirstCause(RefsTo({Code(2, 1, 1.0), Signal(1, 11, 1.0)}))->failure.rank(), 1)
      << "a signal ranks above";
}

TEST(FirstCause, AnEchoMayComeAWholeWindowBeforeItsCause) {
  SeenFailure reset = Code(0, 1, 1.0);
  reset.failure.set_error_text("Connection reset by peer");
  EXPECT_EQ(FirstCause(RefsTo({reset, Code(1, 7, 3.0)}))->failure.rank(), 1);
  SeenFailure signalled = Signal(2, 11, 0.99);
  signalled.failure.set_error_text("Connection reset by peer");
  EXPECT_EQ(FirstCause(RefsTo({reset, Code(1, 7, 1.5), Signal(3, 11, 1.4)}))->failure.rank(), 3)
      << "the first one that is no echo";
}

TEST(RootCause, HasNoOthersOfItsOwn) {
  SeenFailure cause = Code(3, 7, 2);
  *cause.failure.add_others() = Signal(2, 15, 2).failure;
  cause.failure.set_more_others(5);
  v1::Verdict verdict;
  SetRootCause(cause.failure, RefsTo({cause}), &verdict);
  EXPECT_EQ(verdict.root_cause().others_size(), 0);
  EXPECT_EQ(verdict.root_cause().more_others(), 0);
  EXPECT_EQ(verdict.other_failures_size(), 1);
  EXPECT_EQ(verdict.more_failures(), 5);
}

}  // namespace
}  // namespace muster::rendezvous
