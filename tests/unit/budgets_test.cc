// What a round costs, and which failure is the cause.
#include "rendezvous/core/budgets.h"

#include <gtest/gtest.h>

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

TEST(Budgets, EveryRestartCountsAndOnlyAWorkersFailureSpendsAFailure) {
  Counts counts;
  counts = counts.After(RoundEnd::kMembership, At(1), absl::Hours(1));
  counts = counts.After(RoundEnd::kWorkerFailure, At(2), absl::Hours(1));
  counts = counts.After(RoundEnd::kNodeLoss, At(3), absl::Hours(1));
  EXPECT_EQ(counts.restart_count, 3);
  EXPECT_EQ(counts.failures, 1);
  EXPECT_EQ(counts.losses.size(), 1u);
}

TEST(Budgets, LossesOutsideTheWindowAreForgotten) {
  Counts counts;
  counts = counts.After(RoundEnd::kNodeLoss, At(0), absl::Hours(1));
  counts = counts.After(RoundEnd::kNodeLoss, At(3599), absl::Hours(1));
  EXPECT_EQ(counts.losses.size(), 2u);
  counts = counts.After(RoundEnd::kMembership, At(3600), absl::Hours(1));
  EXPECT_EQ(counts.losses.size(), 1u);
}

TEST(FirstCause, IsTheEarliestThatIsNoEchoOfOurOwnStop) {
  SeenFailure echo = Code(0, 9, 1);
  echo.failure.set_after_our_signal(true);
  const auto cause = FirstCause({Code(2, 7, 3), echo, Code(1, 1, 5)});
  ASSERT_TRUE(cause.has_value());
  EXPECT_EQ(cause->failure.rank(), 2);
  EXPECT_FALSE(FirstCause({echo}).has_value());
  EXPECT_FALSE(FirstCause({}).has_value());
}

TEST(FirstCause, WithinAMomentASignalBeatsAnExitCode) {
  EXPECT_EQ(FirstCause({Code(0, 1, 1.0), Signal(1, 11, 1.03)})->failure.rank(), 1);
  EXPECT_EQ(FirstCause({Code(0, 1, 1.0), Signal(1, 11, 1.2)})->failure.rank(), 0);
}

TEST(FirstCause, ItsExitCodeIsTheWorkersOr128AndTheSignal) {
  EXPECT_EQ(ExitCodeOf(Code(0, 7, 0).failure), 7);
  EXPECT_EQ(ExitCodeOf(Signal(0, 11, 0).failure), 139);
}

TEST(RootCause, WhatElseFailedStandsBesideItInBrief) {
  SeenFailure cause = Code(3, 7, 2);
  cause.failure.set_last_output("why");
  cause.failure.set_callstack("where");
  *cause.failure.add_others() = Signal(2, 15, 2).failure;
  cause.failure.set_more_others(5);
  SeenFailure later = Code(9, 1, 4);
  later.failure.set_error_text(std::string(kMaxBriefText - 1, 'x') + "\xc3\xa4");
  later.failure.set_callstack("not so important");
  later.failure.set_last_output("nor this");
  *later.failure.add_others() = Code(8, 1, 4).failure;
  v1::Verdict verdict;
  SetRootCause(cause, {later, cause, Code(5, 1, 3)}, &verdict);
  EXPECT_EQ(verdict.root_cause().last_output(), "why");
  EXPECT_EQ(verdict.root_cause().callstack(), "where");
  EXPECT_EQ(verdict.root_cause().others_size(), 0);
  ASSERT_EQ(verdict.other_failures_size(), 4);
  const int ranks[] = {2, 5, 9, 8};  // the cause's own node, then in order of time
  for (int i = 0; i < 4; ++i) EXPECT_EQ(verdict.other_failures(i).rank(), ranks[i]);
  EXPECT_EQ(verdict.more_failures(), 5);
  EXPECT_EQ(verdict.other_failures(2).error_text(), std::string(kMaxBriefText - 1, 'x'));
  EXPECT_EQ(verdict.other_failures(2).callstack() + verdict.other_failures(2).last_output(), "");
  EXPECT_EQ(verdict.other_failures(2).others_size(), 0);
}

TEST(RootCause, AThousandFailedNodesMakeAVerdictOfBoundedSize) {
  std::vector<SeenFailure> failures;
  for (int rank = 0; rank < 1000; ++rank) {
    failures.push_back(Code(rank, 1, rank));
    for (int i = 0; i < kMaxOtherFailures; ++i)
      *failures.back().failure.add_others() = Code(5000 + rank, 1, 0).failure;
  }
  v1::Verdict verdict;
  SetRootCause(failures[0], failures, &verdict);
  EXPECT_EQ(verdict.other_failures_size(), kMaxOtherFailures);
  EXPECT_EQ(verdict.more_failures(), 999 + 1000 * kMaxOtherFailures - kMaxOtherFailures);
  EXPECT_LT(verdict.ByteSizeLong(), 4096u);
}

}  // namespace
}  // namespace muster::rendezvous
