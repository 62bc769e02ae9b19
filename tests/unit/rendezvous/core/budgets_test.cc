// What a round costs.
#include "rendezvous/core/budgets.h"

#include <gtest/gtest.h>

namespace muster::rendezvous {
namespace {

BootTime At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

RoundResult Ended(EndCause end, double at, double lasted = 1) {
  RoundResult round;
  round.end = end;
  round.at = At(at);
  round.lasted = absl::Seconds(lasted);
  return round;
}

RoundResult FailedOn(const std::string& culprit, double at) {
  RoundResult round = Ended(EndCause::kWorkerFailure, at);
  round.culprit = culprit;
  return round;
}

TEST(Budgets, OnlyWorkerFailuresSpendTheBudget) {
  const CoordinatorOptions options;
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kMembership, 1), options);
  counts = counts.After(Ended(EndCause::kWorkerFailure, 2), options);
  counts = counts.After(Ended(EndCause::kNodeLoss, 3), options);
  EXPECT_EQ(counts.restart_count, 3);
  EXPECT_EQ(counts.failures, 1);
  EXPECT_EQ(counts.losses.size(), 1u);
}

// Without a bound it could go on for ever.
TEST(Budgets, ATakenPortSpendsALossWhileOneIsLeft) {
  CoordinatorOptions options;
  options.max_node_losses = 2;
  RoundResult round = Ended(EndCause::kWorkerFailure, 1);
  round.port_taken = true;
  RestartLedger counts;
  for (int i = 0; i < 3; ++i) counts = counts.After(round, options);
  EXPECT_EQ(counts.restart_count, 3);
  EXPECT_EQ(counts.losses.size(), 2u);
  EXPECT_EQ(counts.failures, 1);
}

TEST(Budgets, LossesOutsideTheWindowAreForgotten) {
  const CoordinatorOptions options;  // an hour
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kNodeLoss, 0), options);
  counts = counts.After(Ended(EndCause::kNodeLoss, 3599), options);
  EXPECT_EQ(counts.losses.size(), 2u);
  counts = counts.After(Ended(EndCause::kMembership, 3600), options);
  EXPECT_EQ(counts.losses.size(), 1u);
}

TEST(Budgets, FailuresOutsideTheWindowAreForgotten) {
  CoordinatorOptions options;
  options.restart_window = absl::Minutes(10);
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kWorkerFailure, 0), options);
  counts = counts.After(Ended(EndCause::kWorkerFailure, 599), options);
  EXPECT_EQ(counts.FailuresInWindow(options), 2);
  counts = counts.After(Ended(EndCause::kWorkerFailure, 601), options);
  EXPECT_EQ(counts.FailuresInWindow(options), 2);
  EXPECT_EQ(counts.failures, 3);
}

TEST(Budgets, WithoutARestartWindowNoFailureIsForgotten) {
  const CoordinatorOptions options;
  RestartLedger counts;
  for (double year : {0.0, 3e7, 6e7}) counts = counts.After(Ended(EndCause::kWorkerFailure, year), options);
  EXPECT_EQ(counts.FailuresInWindow(options), 3);
}

TEST(Budgets, EachFurtherFastFailureDoublesThePause) {
  CoordinatorOptions options;
  options.restart_delay = absl::Seconds(1);
  constexpr uint64_t kMost = 999;  // of the jitter
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kWorkerFailure, 1), options);
  EXPECT_EQ(counts.DelayBeforeNext(options, kMost), absl::ZeroDuration());
  absl::Duration last = absl::Milliseconds(500);
  for (int i = 0; i < 6; ++i) {
    counts = counts.After(Ended(EndCause::kWorkerFailure, 2 + i), options);
    const absl::Duration most = counts.DelayBeforeNext(options, kMost);
    EXPECT_GT(most, last * 1.9);
    EXPECT_EQ(counts.DelayBeforeNext(options, 0), absl::Seconds(1 << i) / 2) << "half of it is chance";
    last = most;
  }
  for (int i = 0; i < 100; ++i) counts = counts.After(Ended(EndCause::kWorkerFailure, 10 + i), options);
  EXPECT_LE(counts.DelayBeforeNext(options, kMost), kMaxRestartDelay);
  counts = counts.After(Ended(EndCause::kWorkerFailure, 500, 61), options);
  EXPECT_EQ(counts.DelayBeforeNext(options, kMost), absl::ZeroDuration()) << "that round ran for long";
}

TEST(Budgets, ALongRoundEndsARowOfFastFailures) {
  CoordinatorOptions options;
  options.restart_delay = absl::Seconds(1);
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kWorkerFailure, 1), options);
  counts = counts.After(Ended(EndCause::kNodeLoss, 4000, 3600), options);
  counts = counts.After(Ended(EndCause::kWorkerFailure, 4001), options);
  EXPECT_EQ(counts.DelayBeforeNext(options, 0), absl::ZeroDuration());
}

TEST(Budgets, ProgressResetsIdleCounts) {
  const CoordinatorOptions options;
  const auto watched = [](RoundResult round) {
    round.watched = true;
    return round;
  };
  RestartLedger counts;
  counts = counts.After(watched(Ended(EndCause::kWorkerFailure, 1)), options);
  counts = counts.After(watched(Ended(EndCause::kNodeLoss, 2)), options);
  counts = counts.After(watched(Ended(EndCause::kWorkerFailure, 3, 3600)), options);
  EXPECT_EQ(counts.idle_failures, 1) << "the first round was no restart";
  EXPECT_EQ(counts.idle_changes, 1);
  RoundResult progressed = watched(Ended(EndCause::kWorkerFailure, 4));
  progressed.progressed = true;
  counts = counts.After(progressed, options);
  EXPECT_EQ(counts.idle_failures, 0);
  EXPECT_EQ(counts.idle_changes, 0);
}

TEST(Budgets, WithoutAFileALongRoundIsProgress) {
  const CoordinatorOptions options;
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kMembership, 1), options);
  EXPECT_EQ(counts.idle_changes, 1);
  counts = counts.After(Ended(EndCause::kMembership, 400, 300), options);
  EXPECT_EQ(counts.idle_changes, 0);
}

TEST(Budgets, RepeatedCausesExcludeANode) {
  CoordinatorOptions options;
  options.exclude_after = 2;
  options.exclude_for = absl::Seconds(100);
  RestartLedger counts;
  for (const char* culprit : {"a", "b", "a"}) counts = counts.After(FailedOn(culprit, 1), options);
  EXPECT_TRUE(counts.excluded.empty()) << "not in a row";
  counts = counts.After(FailedOn("a", 2), options);
  EXPECT_EQ(counts.excluded.count("a"), 1u);
  counts = counts.After(FailedOn("b", 101), options);
  EXPECT_EQ(counts.excluded.count("a"), 1u);
  counts = counts.After(Ended(EndCause::kMembership, 102), options);
  EXPECT_TRUE(counts.excluded.empty()) << "its time is over";
}

TEST(Budgets, ASuccessorRestoresTheCounts) {
  CoordinatorOptions options;
  options.exclude_after = 2;
  options.restart_window = absl::Minutes(10);
  RestartLedger counts;
  for (double at : {1, 2, 3}) counts = counts.After(FailedOn("a", at), options);
  counts = counts.After(Ended(EndCause::kNodeLoss, 4), options);
  v1::Round round;
  counts.WriteTo(At(5), &round);
  const RestartLedger seen = RestartLedger().MergedWith(RestartLedger::ReadFrom(round, At(7)));
  EXPECT_EQ(seen.restart_count, 4);
  EXPECT_EQ(seen.failures, 3);
  EXPECT_EQ(seen.FailuresInWindow(options), 3);
  EXPECT_EQ(seen.losses, std::vector<BootTime>{At(6)}) << "ages travel, not times";
  EXPECT_EQ(seen.fast_failures, 3);
  EXPECT_EQ(seen.idle_failures, 2);
  EXPECT_EQ(seen.idle_changes, 1);
  EXPECT_EQ(seen.culprit, "a");
  EXPECT_EQ(seen.culprit_streak, 1);
  EXPECT_EQ(seen.excluded.count("a"), 1u);
}

// A node that was cut off reports older counts.
TEST(Budgets, KnownCountsDoNotShrink) {
  const CoordinatorOptions options;
  RestartLedger counts;
  for (double at : {1, 2, 3}) counts = counts.After(FailedOn("a", at), options);
  v1::Round older;
  RestartLedger().After(FailedOn("a", 1), options).WriteTo(At(2), &older);
  const RestartLedger known = counts.MergedWith(RestartLedger::ReadFrom(older, At(5)));
  EXPECT_EQ(known.restart_count, 3);
  EXPECT_EQ(known.failures, 3);
}

TEST(Budgets, ARoundOfAMinuteIsNotFast) {
  const CoordinatorOptions options;
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kWorkerFailure, 0, 59.9), options);
  EXPECT_EQ(counts.fast_failures, 1);
  counts = counts.After(Ended(EndCause::kWorkerFailure, 60, 60), options);
  EXPECT_EQ(counts.fast_failures, 0);
}

TEST(Budgets, TimesOfFailuresAreKeptForAWindowOnlyAndAreBounded) {
  CoordinatorOptions options;
  RestartLedger counts;
  counts = counts.After(Ended(EndCause::kWorkerFailure, 0), options);
  EXPECT_TRUE(counts.failure_times.empty());
  options.restart_window = absl::Hours(1);
  for (int i = 0; i <= kMaxFailureAges; ++i) {
    counts = counts.After(Ended(EndCause::kWorkerFailure, i), options);
    EXPECT_EQ(counts.failure_times.front(), At(i < kMaxFailureAges ? 0 : 1)) << "the newest are kept";
  }
  EXPECT_EQ(counts.failure_times.size(), static_cast<size_t>(kMaxFailureAges));
}

TEST(Budgets, TheNumberOfExcludedNodesIsBounded) {
  CoordinatorOptions options;
  options.exclude_after = 1;
  RestartLedger counts;
  for (size_t i = 0; i <= kMaxExcluded; ++i) {
    counts = counts.After(FailedOn("h" + std::to_string(i), static_cast<double>(i)), options);
  }
  EXPECT_EQ(counts.excluded.size(), kMaxExcluded);
  v1::Round round;
  for (size_t i = 0; i <= kMaxExcluded; ++i) round.add_excluded()->set_host_id("h" + std::to_string(i));
  EXPECT_EQ(RestartLedger::ReadFrom(round, At(0)).excluded.size(), kMaxExcluded);
}

TEST(Budgets, OwnTimesAreKeptIfTheOthersAreAsMany) {
  RestartLedger own, seen;
  own.losses = own.failure_times = {At(1)};
  seen.losses = seen.failure_times = {At(2)};
  EXPECT_EQ(own.MergedWith(seen).losses, own.losses);
  EXPECT_EQ(own.MergedWith(seen).failure_times, own.failure_times);
  seen.losses = seen.failure_times = {At(2), At(3)};
  EXPECT_EQ(own.MergedWith(seen).losses, seen.losses);
  EXPECT_EQ(own.MergedWith(seen).failure_times, seen.failure_times);
}

TEST(Budgets, WrittenAgesReplaceEarlierOnes) {
  RestartLedger counts;
  counts.losses = counts.failure_times = {At(1)};
  counts.excluded["x"] = At(100);
  v1::Round round;
  counts.WriteTo(At(2), &round);
  counts.WriteAgesTo(At(4), &round);
  ASSERT_EQ(round.loss_ages_ms_size(), 1);
  EXPECT_EQ(round.loss_ages_ms(0), 3000);
  ASSERT_EQ(round.failure_ages_ms_size(), 1);
  EXPECT_EQ(round.failure_ages_ms(0), 3000);
  ASSERT_EQ(round.excluded_size(), 1);
  EXPECT_EQ(round.excluded(0).host_id(), "x");
  EXPECT_EQ(round.excluded(0).left_ms(), 96'000);
  EXPECT_EQ(RestartLedger::ReadFrom(round, At(4)).excluded.at("x"), At(100));
}

}  // namespace
}  // namespace muster::rendezvous
