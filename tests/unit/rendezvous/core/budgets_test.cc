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
  const RestartLedger seen = RestartLedger().Learning(RestartLedger::ReadFrom(round, At(7)));
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
  const RestartLedger known = counts.Learning(RestartLedger::ReadFrom(older, At(5)));
  EXPECT_EQ(known.restart_count, 3);
  EXPECT_EQ(known.failures, 3);
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
  EXPECT_EQ(FirstCause(RefsTo({reset, Code(1, 7, 2.1)}))->failure.rank(), 0) << "it came too late to be the cause";
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
  SetRootCause(cause, RefsTo({later, cause, Code(5, 1, 3)}), &verdict);
  EXPECT_EQ(verdict.root_cause().last_output(), "why");
  EXPECT_EQ(verdict.root_cause().callstack(), "where");
  EXPECT_EQ(verdict.root_cause().others_size(), 0);
  ASSERT_EQ(verdict.other_failures_size(), 4);
  const int ranks[] = {2, 5, 9, 8};  // the cause's own node, then in order of time
  for (int i = 0; i < 4; ++i) EXPECT_EQ(verdict.other_failures(i).rank(), ranks[i]);
  EXPECT_EQ(verdict.more_failures(), 5 + 2);
  EXPECT_EQ(verdict.other_failures(2).error_text(), std::string(kMaxBriefText - 1, 'x'));
  EXPECT_EQ(verdict.other_failures(2).callstack() + verdict.other_failures(2).last_output(), "");
  EXPECT_EQ(verdict.other_failures(2).hint(), "");
  EXPECT_EQ(verdict.other_failures(2).others_size(), 0);
  EXPECT_EQ(verdict.other_failures(2).more_others(), 0);
}

TEST(RootCause, WorkersThatMusterStoppedAreListedLast) {
  const SeenFailure cause = Code(3, 7, 2);
  SeenFailure stopped = Signal(5, 15, 3);
  stopped.failure.set_after_our_signal(true);
  v1::Verdict verdict;
  SetRootCause(cause, RefsTo({stopped, cause, Code(9, 1, 4)}), &verdict);
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
  SetRootCause(failures[0], RefsTo(failures), &verdict);
  EXPECT_EQ(verdict.other_failures_size(), kMaxOtherFailures);
  EXPECT_EQ(verdict.more_failures(), 999 + 1000 * kMaxOtherFailures - kMaxOtherFailures);
  EXPECT_LT(verdict.ByteSizeLong(), 4096u);
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
  EXPECT_EQ(own.Learning(seen).losses, own.losses);
  EXPECT_EQ(own.Learning(seen).failure_times, own.failure_times);
  seen.losses = seen.failure_times = {At(2), At(3)};
  EXPECT_EQ(own.Learning(seen).losses, seen.losses);
  EXPECT_EQ(own.Learning(seen).failure_times, seen.failure_times);
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

TEST(FirstCause, OfOneMomentIsTheFirstInTheList) {
  EXPECT_EQ(FirstCause(RefsTo({Code(2, 1, 1.0), Code(1, 1, 1.0), Code(0, 1, 1.0)}))->failure.rank(), 2);
  EXPECT_EQ(FirstCause(RefsTo({Code(2, 1, 1.0), Signal(1, 11, 1.0)}))->failure.rank(), 1)
      << "a signal ranks above";
}

TEST(FirstCause, AnEchoMayComeAWholeWindowBeforeItsCause) {
  SeenFailure reset = Code(0, 1, 1.0);
  reset.failure.set_error_text("Connection reset by peer");
  EXPECT_EQ(FirstCause(RefsTo({reset, Code(1, 7, 2.0)}))->failure.rank(), 1);
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
  SetRootCause(cause, RefsTo({cause}), &verdict);
  EXPECT_EQ(verdict.root_cause().others_size(), 0);
  EXPECT_EQ(verdict.root_cause().more_others(), 0);
  EXPECT_EQ(verdict.other_failures_size(), 1);
  EXPECT_EQ(verdict.more_failures(), 5);
}

}  // namespace
}  // namespace muster::rendezvous
