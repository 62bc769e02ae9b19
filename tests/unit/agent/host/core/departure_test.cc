// Departure by itself. host_core_leaving_test.cc shows a host that leaves.
#include "agent/host/core/departure.h"

#include <gtest/gtest.h>

#include "agent/host/core/host_exit.h"
#include "agent/host/core/ladder.h"
#include "base/exit_codes.h"
#include "tests/unit/effects.h"

namespace muster::host {
namespace {

using Meaning = Departure::Meaning;

const absl::Time kDeadline = absl::FromUnixSeconds(1'000'000);
constexpr absl::Duration kBefore = absl::Minutes(5);
constexpr absl::Duration kGrace = absl::Seconds(8);
constexpr absl::Duration kNano = absl::Nanoseconds(1);

class DepartureTest : public ::testing::Test {
 protected:
  static Departure WithDeadline() { return Departure(StopBefore{kDeadline, kBefore, "the time is nearly over"}); }
  Departure Leaving(int signal, const std::string& reason = "") {
    Departure departure(std::nullopt);
    departure.Begin(now_, {.signal = signal, .reason = reason, .grace = kGrace}, kGrace, &effects_);
    return departure;
  }
  bool Awaits(Departure* departure, BootTime now, const Departure::Others& others = {}) {
    return departure->AwaitsAgent(now, now_, others, &effects_);
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  Effects effects_;
};

TEST_F(DepartureTest, SigintCancelsTheJobOtherSignalsLeaveIt) {
  const Departure cancelled = Leaving(SIGINT);
  EXPECT_TRUE(cancelled.leave()->cancel());
  EXPECT_EQ(cancelled.Exit().exit_code(), kExitCancelled);
  const Departure left = Leaving(SIGTERM);
  EXPECT_FALSE(left.leave()->cancel());
  EXPECT_EQ(left.Exit().exit_code(), kExitLeft);
  EXPECT_EQ(left.Exit().reason(), "asked to leave by SIGTERM");
}

TEST_F(DepartureTest, TheMessageNamesTheGraceOfTheWorkers) {
  (void)Leaving(SIGTERM, "spot notice");
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "spot notice: leaving the job; the workers have 8s to exit");
}

TEST_F(DepartureTest, AShortGraceIsReadable) {
  const auto text = [this](absl::Duration grace) {
    Departure(std::nullopt).Begin(now_, {.signal = SIGTERM, .grace = grace}, grace, &effects_);
    return AllOf<Note>(effects_).back().text;
  };
  EXPECT_EQ(text(absl::Nanoseconds(418'329'000)), "SIGTERM: leaving the job; the workers have 418ms to exit");
  EXPECT_EQ(text(absl::Microseconds(331)), "SIGTERM: leaving the job; the workers have 0s to exit");
}

TEST_F(DepartureTest, ItsGraceHoldsForEveryStop) {
  EXPECT_EQ(Departure(std::nullopt).GraceOr(now_, absl::Seconds(30)), absl::Seconds(30));
  EXPECT_EQ(Leaving(SIGTERM).GraceOr(now_ + absl::Seconds(3), absl::Seconds(30)), absl::Seconds(5));
}

TEST_F(DepartureTest, ASignalTwiceInAMomentIsOneRequest) {
  Departure departure(std::nullopt);
  EXPECT_EQ(departure.OnSignal(now_, SIGTERM, &effects_), Meaning::kLeave);
  departure.Begin(now_, {.grace = kGrace}, std::nullopt, &effects_);
  EXPECT_EQ(departure.OnSignal(now_ + kOneSignal - kNano, SIGTERM, &effects_), Meaning::kConfirmation);
  EXPECT_EQ(departure.OnSignal(now_ + kOneSignal, SIGTERM, &effects_), Meaning::kStopNow);
}

TEST_F(DepartureTest, TheFirstSignalAfterANoticeConfirmsIt) {
  Departure departure = Leaving(SIGTERM, "spot notice");
  const BootTime later = now_ + absl::Minutes(1);
  EXPECT_EQ(departure.OnSignal(later, SIGTERM, &effects_), Meaning::kConfirmation);
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "SIGTERM: already leaving (spot notice)");
  EXPECT_EQ(departure.OnSignal(later + kOneSignal, SIGTERM, &effects_), Meaning::kStopNow);
}

TEST_F(DepartureTest, ADeadlineGivesTheWorkersTheRemainingTime) {
  Departure departure = WithDeadline();
  EXPECT_FALSE(departure.OnWallClock(now_, kDeadline - kBefore - kNano));
  const auto request = departure.OnWallClock(now_, kDeadline - kBefore);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->grace, kBefore - kDeadlineReserve);
  EXPECT_EQ(request->reason, "the time is nearly over");
  departure.Begin(now_, *request, std::nullopt, &effects_);
  EXPECT_FALSE(departure.OnWallClock(now_, kDeadline)) << "it has begun";
}

// The clock is read at intervals, so always a little later than the moment that was set.
TEST_F(DepartureTest, ALateReadingTakesNoWholeSecondFromTheWorkers) {
  Departure departure = WithDeadline();
  const absl::Duration late = absl::Milliseconds(30);
  const auto request = departure.OnWallClock(now_, kDeadline - kBefore + late);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->grace, kBefore - kDeadlineReserve - late);
  departure.Begin(now_, *request, request->grace, &effects_);
  EXPECT_EQ(AllOf<Note>(effects_).back().text,
            "the time is nearly over: leaving the job; the workers have 4m59s to exit");
}

TEST_F(DepartureTest, APassedDeadlineLeavesTheLeastGrace) {
  EXPECT_EQ(WithDeadline().OnWallClock(now_, kDeadline + absl::Hours(1))->grace, kLeastGrace);
}

TEST_F(DepartureTest, NoRoundBeginsShortlyBeforeTheDeadline) {
  Departure departure = WithDeadline();
  EXPECT_FALSE(departure.InsteadOfRound(now_, true)) << "the wall clock is not known yet";
  EXPECT_FALSE(departure.OnWallClock(now_, kDeadline - kBefore - kMaxUselessRound - kNano));
  EXPECT_FALSE(departure.InsteadOfRound(now_, true));
  const auto request = departure.InsteadOfRound(now_ + kNano, true);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->reason, "the time is nearly over: too little time is left for a round");
  EXPECT_EQ(request->grace, absl::ZeroDuration());
}

TEST_F(DepartureTest, AShortReserveBoundsTheUselessRound) {
  Departure departure(StopBefore{kDeadline, absl::Seconds(10), "soon"});
  EXPECT_FALSE(departure.OnWallClock(now_, kDeadline - absl::Seconds(20) - kNano));
  EXPECT_FALSE(departure.InsteadOfRound(now_, false));
  EXPECT_TRUE(departure.InsteadOfRound(now_ + kNano, false));
}

TEST_F(DepartureTest, TheAgentHasATimeLimitToReport) {
  Departure departure = Leaving(SIGTERM);
  EXPECT_TRUE(Awaits(&departure, now_ + kLeaveReportLimit - kNano));
  EXPECT_FALSE(Awaits(&departure, now_ + kLeaveReportLimit));
}

TEST_F(DepartureTest, ACancelledPrimaryAwaitsTheVerdict) {
  Departure departure = Leaving(SIGINT);
  const Departure::Others others{.serves = true, .makes_verdict = true, .shutdown_grace = absl::Seconds(30)};
  const absl::Duration limit = absl::Seconds(30) + kStuckAfterKill;
  EXPECT_TRUE(Awaits(&departure, now_ + limit - kNano, others));
  EXPECT_FALSE(Awaits(&departure, now_ + limit, others));
}

TEST_F(DepartureTest, ItStaysForOthersUntilTheGraceEnds) {
  Departure departure = Leaving(SIGTERM);
  effects_.clear();
  const Departure::Others others{.serves = true};
  EXPECT_TRUE(Awaits(&departure, now_ + absl::Seconds(2), others));
  EXPECT_TRUE(Awaits(&departure, now_ + kGrace - kNano, others));
  EXPECT_FALSE(Awaits(&departure, now_ + kGrace, others));
  EXPECT_EQ(AllOf<Note>(effects_).size(), 1u) << "it says once why it stays";
}

TEST_F(DepartureTest, ANodeThatLeftReportsThatWhateverTheResult) {
  const v1::Exit failed = MusterExit(kExitUnavailable, "too few nodes");
  const v1::Exit succeeded = MusterExit(0, "all done");
  EXPECT_EQ(Departure(std::nullopt).ExitInsteadOf(failed).exit_code(), kExitUnavailable);
  const Departure left = Leaving(SIGTERM);
  EXPECT_EQ(left.ExitInsteadOf(failed).exit_code(), kExitLeft);
  EXPECT_EQ(left.ExitInsteadOf(failed).reason(), "asked to leave by SIGTERM; result of the job: too few nodes");
  EXPECT_EQ(left.ExitInsteadOf(succeeded).exit_code(), 0);
  EXPECT_EQ(Leaving(SIGINT).ExitInsteadOf(failed).exit_code(), kExitUnavailable);
}

TEST_F(DepartureTest, ASecondSignalIsTheReasonOfTheExit) {
  const v1::Exit exit = Leaving(SIGTERM).ExitNow(SIGHUP);
  EXPECT_EQ(exit.exit_code(), kExitLeft);
  EXPECT_EQ(exit.reason(), "stopped immediately by a second SIGHUP");
}

}  // namespace
}  // namespace muster::host
