// Epochs that follow each other, the predecessor's farewell, the greatest round, and the process's own pauses.
#include "rendezvous/core/succession.h"

#include <gtest/gtest.h>

#include "base/wire/ids.h"
#include "rendezvous/core/greatest_round.h"
#include "rendezvous/core/own_pauses.h"

namespace muster::rendezvous {
namespace {

const BootTime kStart = absl::UnixEpoch();
constexpr absl::Duration kUnseen = absl::Seconds(11);

v1::Epoch Epoch(uint64_t number, uint64_t random = 1) {
  v1::Epoch epoch;
  epoch.set_number(number);
  epoch.set_random(random);
  return epoch;
}

TEST(SuccessionTest, AGreaterEpochIsFollowedByAStillGreaterOne) {
  Succession succession(kStart, kUnseen, 9);
  EXPECT_FALSE(succession.Hear(succession.epoch()));
  EXPECT_TRUE(succession.Hear(Epoch(7)));
  succession.BeginEpoch(kStart + absl::Seconds(1), 7, 10);
  EXPECT_EQ(succession.epoch().number(), 8u);
  EXPECT_EQ(succession.epoch_start(), kStart + absl::Seconds(1));
  EXPECT_EQ(succession.members_known_until(), kStart + absl::Seconds(1) + kUnseen);
}

TEST(SuccessionTest, ItsOwnEarlierEpochIsNoPredecessors) {
  Succession succession(kStart, kUnseen, 9);
  const v1::Epoch first = succession.epoch();
  succession.BeginEpoch(kStart, 1, 10);
  succession.LearnFarewell({}, kStart);
  succession.Hear(first);
  EXPECT_TRUE(succession.FarewellIsValid()) << "given by no epoch, as none was heard of";
}

TEST(SuccessionTest, AnAgentWithoutAnEpochTellsOfNoPredecessor) {
  Succession succession(kStart, kUnseen, 9);
  succession.Hear({});
  EXPECT_FALSE(succession.had_predecessor());
  succession.Hear(Epoch(1, 2));
  EXPECT_TRUE(succession.had_predecessor());
}

TEST(SuccessionTest, AFarewellCountsOnlyFromTheOnePredecessorThatAgentsReport) {
  Succession succession(kStart, kUnseen, 9);
  v1::PrimaryEnded farewell;
  *farewell.mutable_by() = Epoch(1, 2);
  EXPECT_FALSE(succession.FarewellIsValid());
  succession.LearnFarewell(farewell, kStart);
  EXPECT_FALSE(succession.FarewellIsValid());
  succession.Hear(Epoch(1, 2));
  EXPECT_TRUE(succession.FarewellIsValid());
  succession.Hear(Epoch(1, 3));
  EXPECT_FALSE(succession.FarewellIsValid());
}

TEST(SuccessionTest, FarewellsThatDifferAreNotBelieved) {
  const auto change = [](int what, v1::PrimaryEnded* word) {
    if (what == 0) word->set_node_rank(1);
    if (what == 1) word->set_known_to(1);
    if (what == 2) *word->mutable_by() = Epoch(1, 3);
  };
  for (const int what : {0, 1, 2}) {
    Succession succession(kStart, kUnseen, 9);
    succession.Hear(Epoch(1, 2));
    v1::PrimaryEnded farewell;
    *farewell.mutable_by() = Epoch(1, 2);
    farewell.set_known_to(2);
    v1::PrimaryEnded other = farewell;
    change(what, &other);
    succession.LearnFarewell(other, kStart);
    succession.LearnFarewell(farewell, kStart);
    EXPECT_FALSE(succession.FarewellIsValid()) << what;
    succession.ForgetFarewell();
    succession.LearnFarewell(farewell, kStart);
    succession.LearnFarewell(farewell, kStart);
    EXPECT_TRUE(succession.FarewellIsValid());
  }
}

TEST(SuccessionTest, ThePrimaryEndedAtTheEarliestTimeOfAllReports) {
  Succession succession(kStart, kUnseen, 9);
  succession.LearnFarewell({}, kStart + absl::Seconds(2));
  succession.LearnFarewell({}, kStart + absl::Seconds(1));
  succession.LearnFarewell({}, kStart + absl::Seconds(3));
  EXPECT_EQ(succession.primary_ended_at(), kStart + absl::Seconds(1));
  succession.ForgetFarewell();
  EXPECT_EQ(succession.primary_ended_at(), absl::InfiniteFuture());
}

TEST(SuccessionTest, ALossIsDatedAtTheLatestWordOfThePredecessor) {
  Succession succession(kStart, kUnseen, 9);
  const BootTime now = kStart + absl::Minutes(1);
  EXPECT_EQ(succession.WhenLost(now), now);
  succession.NotePredecessorHeard(kStart + absl::Seconds(2));
  succession.NotePredecessorHeard(kStart + absl::Seconds(1));
  EXPECT_EQ(succession.WhenLost(now), kStart + absl::Seconds(2));
  succession.BeginRound();
  EXPECT_EQ(succession.WhenLost(now), now);
}

// ---- GreatestRound ------------------------------------------------------------------------------------------

TEST(GreatestRoundTest, AGreaterRoundForgetsAllButTheLedgerAndTheNumbers) {
  GreatestRound greatest;
  greatest.kept.max_number = 9;
  greatest.counts.failures = 2;
  greatest.losses.Note(kStart, "lost", nullptr);
  greatest.successes.ranks = greatest.successes.departed = greatest.losses.ended = {0};
  greatest.gone.had_progressed = greatest.gone.watched_progress = greatest.losses.strayed = true;
  v1::Failure failure;
  *failure.mutable_round() = greatest.id();
  greatest.gone.NoteFailure(failure, "h", kStart);
  ASSERT_EQ(greatest.gone.failures.size(), 1u);
  v1::Round next;
  next.mutable_id()->set_number(5);
  next.set_node_rank(3);
  greatest.Become(next, kStart + absl::Seconds(1), true);
  EXPECT_EQ(greatest.number(), 5u);
  EXPECT_FALSE(greatest.round.has_node_rank());
  EXPECT_TRUE(greatest.is_controlled);
  EXPECT_EQ(greatest.since, kStart + absl::Seconds(1));
  EXPECT_EQ(greatest.kept.max_number, 9u);
  EXPECT_EQ(greatest.counts.failures, 2);
  EXPECT_FALSE(greatest.losses.at.has_value());
  EXPECT_TRUE(greatest.successes.ranks.empty() && greatest.successes.departed.empty() &&
              greatest.losses.ended.empty() && greatest.gone.failures.empty());
  EXPECT_FALSE(greatest.gone.had_progressed || greatest.gone.watched_progress || greatest.losses.strayed);
}

TEST(GreatestRoundTest, TheEarliestLossIsKept) {
  GreatestRound greatest;
  greatest.losses.Note(kStart + absl::Seconds(2), "b", nullptr);
  greatest.losses.Note(kStart + absl::Seconds(1), "a", nullptr);
  greatest.losses.Note(kStart + absl::Seconds(1), "c", nullptr);
  EXPECT_EQ(greatest.losses.text, "a");
}

TEST(GreatestRoundTest, OfManyFailuresOfLostHostsTheEarliestAreKept) {
  GreatestRound greatest;
  v1::Failure failure;
  for (size_t i = 0; i < 2 * kMaxLostFailures; ++i) {
    const absl::Duration at = absl::Seconds(i % 2 == 0 ? 1'000 - static_cast<int>(i) : static_cast<int>(i));
    greatest.gone.NoteFailure(failure, "h", kStart + at);
  }
  EXPECT_EQ(greatest.gone.failures.size(), kMaxLostFailures);
  EXPECT_EQ(greatest.gone.more_failures, static_cast<int>(kMaxLostFailures));
  for (const SeenFailure& seen : greatest.gone.failures) EXPECT_LT(seen.at, kStart + absl::Seconds(500));
  greatest.gone.ForgetFailures();
  EXPECT_EQ(greatest.gone.more_failures, 0);
}

TEST(GreatestRoundTest, AnEarlierEstimateCorrectsALostHostsFailure) {
  GreatestRound greatest;
  v1::Failure failure;
  greatest.gone.NoteFailure(failure, "h", kStart + absl::Seconds(2));
  greatest.gone.CorrectFailure("other", failure, kStart);
  greatest.gone.CorrectFailure("h", failure, kStart + absl::Seconds(3));
  EXPECT_EQ(greatest.gone.failures[0].at, kStart + absl::Seconds(2));
  greatest.gone.CorrectFailure("h", failure, kStart + absl::Seconds(1));
  EXPECT_EQ(greatest.gone.failures[0].at, kStart + absl::Seconds(1));
}

// ---- OwnPauses ----------------------------------------------------------------------------------------------

TEST(OwnPausesTest, DeadlinesMoveByAPauseAndInAllByAtMostOneLease) {
  const absl::Duration lease = absl::Seconds(10);
  OwnPauses pauses(kStart, lease);
  BootTime now = kStart + kTick + kLateness - absl::Nanoseconds(1);
  EXPECT_EQ(pauses.Notice(now), absl::ZeroDuration()) << "an ordinary delay";
  now += kTick + absl::Seconds(4);
  EXPECT_EQ(pauses.Notice(now), absl::Seconds(4));
  EXPECT_EQ(pauses.woke_at(), absl::InfinitePast()) << "less than half a lease";
  now += kTick + absl::Seconds(9);
  EXPECT_EQ(pauses.Notice(now), absl::Seconds(6));
  EXPECT_EQ(pauses.woke_at(), now);
  now += kTick + absl::Seconds(9);
  EXPECT_EQ(pauses.Notice(now), absl::ZeroDuration());
}

TEST(OwnPausesTest, AMachineThatPausesAgainAndAgainDelaysNothingFurther) {
  const absl::Duration lease = absl::Seconds(10);
  OwnPauses pauses(kStart, lease);
  const BootTime first = kStart + kTick + lease;
  pauses.Notice(first);
  EXPECT_EQ(pauses.woke_at(), first);
  BootTime now = first;
  while (now + kTick + lease < first + kLeasesBetweenPauses * lease) {
    now += kTick + lease;
    pauses.Notice(now);
    EXPECT_EQ(pauses.woke_at(), first);
  }
  now += kTick + lease;
  pauses.Notice(now);
  EXPECT_EQ(pauses.woke_at(), now);
}

}  // namespace
}  // namespace muster::rendezvous
