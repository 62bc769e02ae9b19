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

}  // namespace
}  // namespace muster::rendezvous
