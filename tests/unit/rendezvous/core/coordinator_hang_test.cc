// What a coordinator does about a round that does not go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/stacks/snapshot_message.h"
#include "rendezvous/core/hung_ranks.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(20);

CoordinatorOptions Watched(OnHang on_hang = OnHang::kRestart, int max_restarts = 3) {
  CoordinatorOptions options = Fixed(2, max_restarts);
  options.hang_timeout = kLimit;
  options.on_hang = on_hang;
  return options;
}

// Two nodes of two workers each: ranks 0 and 1 on a, 2 and 3 on b.
class HangTest : public ::testing::Test {
 protected:
  explicit HangTest(const CoordinatorOptions& options = Watched()) : c_(options) {
    c_.Join("a", 0);
    c_.Join("b", 1);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    EXPECT_EQ(c_.state(), State::kRunning);
    c_.At("a").status.set_signs(kWarmUpSigns);
    BeQuiet(absl::ZeroDuration());
    RunForAWhile();
  }

  void RunForAWhile() { c_.Pass(3 * kLimit, {"a", "b"}); }
  // As for HangTest::Answer, but all of its workers have ended.
  void AnswerThatAllHaveEnded(const std::string& name) {
    v1::NodeSnapshot snapshot;
    snapshot.set_number(c_.Told(name).snapshot());
    for (int local_rank = 0; local_rank < 2; ++local_rank) {
      v1::RankSnapshot* const rank = snapshot.add_ranks();
      rank->set_local_rank(local_rank);
      rank->set_ended(true);
    }
    *c_.At(name).status.mutable_snapshot() = snapshot;
    c_.Apply(name);
    c_.Pass(kTick, {});
  }
  // Rank 3 is sentenced.
  void Hang3() { HangByB(1); }
  void HangByB(int local_rank) {
    BeQuiet(kLimit + absl::Seconds(1));
    Answer("a");
    Answer("b", local_rank);
    ASSERT_EQ(c_.Told("b").hang().rank(), 2 + local_rank);
  }
  void PassBeating(absl::Duration time) {
    for (absl::Duration passed; passed < time && c_.state() == State::kRunning; passed += absl::Seconds(1)) {
      c_.Pass(absl::Seconds(1), {});
      for (const char* name : {"a", "b"}) c_.Say(name);
    }
  }

  void Quiet(const std::string& name, absl::Duration quiet) {
    c_.At(name).status.set_quiet_ms(absl::ToInt64Milliseconds(quiet));
    c_.Apply(name);
  }
  void BeQuiet(absl::Duration quiet) {
    for (const char* name : {"a", "b"}) Quiet(name, quiet);
    c_.Pass(kTick, {});
  }
  // All ranks but one wait at the same place. state: of that one.
  void Answer(const std::string& name, int hung = -1, const std::string& state = "S") {
    v1::NodeSnapshot snapshot;
    snapshot.set_number(c_.Told(name).snapshot());
    for (int local_rank = 0; local_rank < 2; ++local_rank) {
      v1::RankSnapshot* const rank = snapshot.add_ranks();
      rank->set_local_rank(local_rank);
      rank->set_state(local_rank == hung ? state : "S");
      v1::StackFrame* const frame = rank->add_main_thread();
      frame->set_function(local_rank == hung ? "load" : "all_reduce");
      frame->set_file(local_rank == hung ? "/home/me/data.py" : "/home/me/train.py");
      frame->set_line(local_rank == hung ? 41 : 88);
    }
    *c_.At(name).status.mutable_snapshot() = snapshot;
    c_.Apply(name);
    c_.Pass(kTick, {});
  }

  // b has ended the worker, and says so.
  void EndTheRound() {
    c_.At("b").status.mutable_failure()->set_hung(true);
    c_.Fail("b", 134);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    c_.Phase("b", v1::PHASE_READY);
    c_.Pass(absl::Seconds(5), {"a", "b"});
  }

  Cluster c_;
};

TEST_F(HangTest, AllNodesAreAskedWhereTheirWorkersStand) {
  BeQuiet(kLimit);
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
  BeQuiet(kLimit + absl::Milliseconds(100));
  for (const char* name : {"a", "b"}) EXPECT_NE(c_.Told(name).snapshot(), 0u) << name;
  EXPECT_EQ(c_.Events("hang").size(), 1u);
}

TEST_F(HangTest, ARankThatGoesOnIsEnough) {
  Quiet("a", absl::Hours(1));
  Quiet("b", absl::Seconds(1));
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
}

TEST_F(HangTest, ANodeThatIsCutOffIsNotQuiet) {
  Quiet("a", kLimit + absl::Seconds(1));
  c_.Close("b");
  c_.Pass(absl::Seconds(1), {"a"});
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
}

TEST(CoordinatorHang, ASilenceBeforeTheRoundIsWarmIsSaidOnceAndLeftAlone) {
  Cluster c(Watched());
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) {
    c.Apply(name);
    c.At(name).status.set_quiet_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
    c.At(name).status.set_signs(3);
  }
  c.Pass(3 * kLimit, {"a", "b"});
  EXPECT_EQ(
      c.Said("no worker has shown a sign of life for 20s (--hang-timeout), but this round is not warm yet: it "
             "takes 10 separate tenths of that time with signs, and 3 have been seen; until then it may be silent "
             "for "
             "30m (--start-timeout)"),
      1);
  EXPECT_EQ(c.Told("a").snapshot(), 0u);
}

TEST(CoordinatorHang, AColdRoundHangsAfterItsOwnLimit) {
  CoordinatorOptions options = Watched();
  options.start_timeout = absl::Minutes(1);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) {
    c.Apply(name);
    c.At(name).status.set_quiet_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
  }
  c.Pass(absl::Seconds(59), {"a", "b"});
  EXPECT_EQ(c.Told("a").snapshot(), 0u);
  c.Pass(absl::Seconds(2), {"a", "b"});
  EXPECT_NE(c.Told("a").snapshot(), 0u);
  EXPECT_EQ(c.Said("no worker has shown a sign of life for 1m (--start-timeout): asking all nodes"), 1);
}

// kRunLimit ends the wait for it.
TEST(CoordinatorHang, ANodeThatWaitsForOneThatHasNotStartedIsNotHung) {
  Cluster c(Watched());
  c.Join("a", 0);
  c.Join("b", 1);
  c.Apply("a");
  c.At("a").status.set_signs(kWarmUpSigns);
  c.At("a").status.set_quiet_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
  for (absl::Duration passed; passed < kLimit + absl::Seconds(2); passed += absl::Seconds(1)) {
    c.Pass(absl::Seconds(1), {"a"});
    c.Say("b");
  }
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.Told("a").snapshot(), 0u);
  c.At("b").status.set_quiet_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
  c.Pass(kLimit + absl::Seconds(2), {"a", "b"});
  EXPECT_NE(c.Told("a").snapshot(), 0u);
}

TEST_F(HangTest, TheRankThatStandsElsewhereIsEndedByItsNode) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  EXPECT_FALSE(c_.Told("a").has_hang()) << "b has not answered";
  Answer("b", 1);
  EXPECT_TRUE(Same(c_.Told("b").hang().round(), c_.core().greatest().id()));
  EXPECT_EQ(c_.Told("b").hang().rank(), 3);
  EXPECT_THAT(c_.Told("b").hang().why(), HasSubstr("suspect: rank 3"));
  EXPECT_THAT(c_.Told("b").hang().why(), HasSubstr("data.py:41"));
  EXPECT_TRUE(c_.Told("b").hang().is_sure());
  EXPECT_FALSE(c_.Told("a").has_hang());
  EXPECT_EQ(c_.state(), State::kRunning) << "the node's report of its failure ends it";
  EXPECT_EQ(c_.Told("a").snapshot(), 0u) << "nothing is asked any more";
}

TEST_F(HangTest, AnAnswerThatDoesNotComeIsNotAwaitedForEver) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  c_.Pass(kSnapshotAnswers + absl::Seconds(1), {"a", "b"});
  EXPECT_TRUE(c_.Told("a").has_hang()) << "no rank that has answered differs, so the lowest one is ended";
  EXPECT_THAT(c_.Told("a").hang().why(), HasSubstr("no rank differs from the others"));
  EXPECT_FALSE(c_.Told("a").hang().is_sure());
}

TEST_F(HangTest, OfSeveralSuspectsTheFirstIsEndedAndNoNodeIsToBlame) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a", 1, "T");
  Answer("b", 0, "T");
  EXPECT_EQ(c_.Told("a").hang().rank(), 1);
  EXPECT_THAT(c_.Told("a").hang().why(), HasSubstr("suspects: ranks 1-2: they are stopped, at data.py:41 (load)"));
  EXPECT_FALSE(c_.Told("a").hang().is_sure());
}

TEST_F(HangTest, IfNobodyAnswersTheLowestRankIsEnded) {
  BeQuiet(kLimit + absl::Seconds(1));
  c_.Pass(kSnapshotAnswers + absl::Seconds(1), {"a", "b"});
  ASSERT_TRUE(c_.Told("a").has_hang());
  EXPECT_EQ(c_.Told("a").hang().rank(), 0);
}

TEST_F(HangTest, IfNobodyAnswersTheLowestRankThatRunsIsEnded) {
  c_.Phase("a", v1::PHASE_SUCCEEDED);
  c_.Pass(kLimit, {"a", "b"});
  BeQuiet(kLimit + absl::Seconds(1));
  c_.Pass(kSnapshotAnswers + absl::Seconds(1), {"a", "b"});
  ASSERT_TRUE(c_.Told("b").has_hang());
  EXPECT_EQ(c_.Told("b").hang().rank(), 2);
}

// Its snapshot may be older than its success.
TEST_F(HangTest, ARankOfANodeThatHasSucceededIsNotEnded) {
  c_.Phase("a", v1::PHASE_SUCCEEDED);
  c_.Pass(kLimit, {"a", "b"});
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a", 0);
  Answer("b");
  EXPECT_THAT(c_.Told("b").hang().why(), HasSubstr("suspect: rank 0"));
  EXPECT_EQ(c_.Told("b").hang().rank(), 2);
}

TEST_F(HangTest, ANodeThatCannotEndTheRankHasItsRoundStopped) {
  Hang3();
  PassBeating(kHungEnds + absl::Seconds(2));
  EXPECT_EQ(c_.state(), State::kDraining);
  EXPECT_TRUE(c_.Told("b").has_stop());
}

// Ranks that end while others still run are not silent: a clean end, and a tail of silent ranks, is no hang.
TEST_F(HangTest, TheEndOfANodeThatShowedSignsForAllIsNoSilence) {
  c_.At("b").status.set_quiet_ms(absl::ToInt64Milliseconds(absl::Hours(10)));
  c_.Pass(absl::Seconds(1), {"a", "b"});
  c_.Phase("a", v1::PHASE_SUCCEEDED);
  c_.Pass(kLimit - absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c_.Told("b").snapshot(), 0u);
  c_.Pass(absl::Seconds(2), {"a", "b"});
  EXPECT_NE(c_.Told("b").snapshot(), 0u) << "but it does not wait for ever";
}

TEST_F(HangTest, OfANodeThatHasEndedARankIsNamedAndALiveOneIsEnded) {
  c_.Phase("a", v1::PHASE_SUCCEEDED);
  c_.Pass(kLimit, {"a", "b"});
  BeQuiet(kLimit + absl::Seconds(1));
  AnswerThatAllHaveEnded("a");
  Answer("b");
  EXPECT_EQ(c_.Told("b").hang().rank(), 2);
  EXPECT_THAT(c_.Told("b").hang().why(), HasSubstr("suspects: ranks 0-1: they have ended"));
  EXPECT_FALSE(c_.Told("b").hang().is_sure()) << "its node is not to blame";
}

TEST_F(HangTest, ASignOfLifeAfterTheSentenceWithdrawsIt) {
  Hang3();
  BeQuiet(absl::ZeroDuration());
  BeQuiet(absl::ZeroDuration());
  EXPECT_FALSE(c_.Told("b").has_hang());
  PassBeating(kHungEnds + absl::Seconds(2));
  EXPECT_EQ(c_.state(), State::kRunning);
}

// Its workers may have gone on since.
TEST_F(HangTest, NothingIsDoneWhileAMemberIsNotHeard) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  c_.Pass(absl::Seconds(4), {"a"});
  EXPECT_FALSE(c_.Told("a").has_hang());
  Quiet("b", absl::ZeroDuration());
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(HangTest, APauseOfTheCoordinatorAccusesNobody) {
  BeQuiet(kLimit + absl::Seconds(1));
  c_.Jump(absl::Seconds(9));
  c_.Jump(absl::Seconds(9));
  EXPECT_FALSE(c_.Told("a").has_hang());
  EXPECT_FALSE(c_.Told("b").has_hang());
}

// Its node says of its workers what it likes, and not how many they are.
TEST_F(HangTest, ANodeThatClaimsMoreRanksThanItsOwnIsNotBelieved) {
  BeQuiet(kLimit + absl::Seconds(1));
  c_.At("a").status.set_slots(16);
  v1::NodeSnapshot snapshot;
  snapshot.set_number(c_.Told("a").snapshot());
  for (int local_rank = 0; local_rank < 4; ++local_rank) {
    snapshot.add_ranks()->set_local_rank(local_rank);
    snapshot.mutable_ranks(local_rank)->set_state(local_rank < 2 ? "S" : "T");
  }
  *c_.At("a").status.mutable_snapshot() = snapshot;
  c_.Apply("a");
  Answer("b", 1);
  EXPECT_EQ(c_.Said("it is stopped"), 0);
  EXPECT_EQ(c_.Said("they are stopped"), 0);
}

TEST_F(HangTest, WhatIsNotLearnedIsNotTold) { EXPECT_EQ(c_.Told("a").learned_silence_ms(), 0); }

class LastRestartTest : public HangTest {
 protected:
  LastRestartTest() : HangTest(Watched(OnHang::kRestart, 0)) {}
};

// Else a round that nobody can end by a rank would be started again for ever.
TEST_F(LastRestartTest, ARoundWhoseRankNobodyCouldEndIsChargedAsAFailure) {
  HangByB(0);
  const v1::RoundId round = c_.core().greatest().id();
  PassBeating(kHungEnds + absl::Seconds(2));
  for (const char* name : {"a", "b"}) c_.Apply(name);
  c_.Pass(absl::Seconds(1), {"a", "b"});
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 137);
  EXPECT_THAT(c_.core().verdict()->reason(), HasSubstr("rank 2"));
  const v1::Failure& cause = c_.core().verdict()->root_cause();
  EXPECT_TRUE(cause.hung());
  EXPECT_FALSE(cause.hung_for_all()) << "it is the only suspect";
  EXPECT_TRUE(Same(cause.round(), round));
  EXPECT_THAT(cause.error_text(), HasSubstr("suspect: rank 2"));
  EXPECT_EQ(cause.host(), c_.At("b").status.hostname());
  EXPECT_EQ(cause.node_rank(), 1);
  EXPECT_EQ(cause.rank(), 2);
  EXPECT_EQ(cause.local_rank(), 0);
}

class LearningTest : public HangTest {
 protected:
  static CoordinatorOptions Learning() {
    CoordinatorOptions options = Watched();
    options.hang_timeout = std::nullopt;
    return options;
  }
  LearningTest() : HangTest(Learning()) {}
};

TEST_F(LearningTest, WhatIsLearnedIsToldToTheNodesAndTakenFromThem) {
  c_.At("b").status.set_learned_silence_ms(absl::ToInt64Milliseconds(absl::Minutes(8)));
  BeQuiet(absl::ZeroDuration());
  BeQuiet(absl::Minutes(80));
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
  EXPECT_EQ(c_.Told("a").learned_silence_ms(), absl::ToInt64Milliseconds(absl::Minutes(8)));
}

class ExcludingTest : public HangTest {
 protected:
  static CoordinatorOptions Excluding() {
    CoordinatorOptions options = Watched();
    options.exclude_after = 1;
    return options;
  }
  ExcludingTest() : HangTest(Excluding()) {}

  void FailByHang(bool for_all) {
    c_.At("b").status.mutable_failure()->set_hung_for_all(for_all);
    EndTheRound();
  }
  // No node ends the rank that is to be ended.
  void EndByTheCoordinator() {
    PassBeating(kHungEnds + absl::Seconds(2));
    for (const char* name : {"a", "b"}) c_.Apply(name);
    c_.Pass(absl::Seconds(1), {"a", "b"});
  }
};

TEST_F(ExcludingTest, TheOnlySuspectsNodeIsToBlame) {
  FailByHang(false);
  EXPECT_EQ(c_.core().job().counts.excluded.count("b"), 1u);
}

TEST_F(ExcludingTest, WithoutASingleSuspectNoNodeIs) {
  FailByHang(true);
  EXPECT_EQ(c_.core().job().counts.excluded.size(), 0u);
}

TEST_F(ExcludingTest, TheOnlySuspectsNodeIsToBlameAlsoIfItCouldNotEndIt) {
  Hang3();
  const BootTime ordered = c_.core().job().hang.kill_ordered_at;
  EndByTheCoordinator();
  EXPECT_EQ(c_.core().job().counts.excluded.count("b"), 1u);
  EXPECT_EQ(c_.core().job().history.newest().back().trouble, ordered) << "the round was of no use from then on";
}

TEST_F(ExcludingTest, OfSeveralSuspectsThatCouldNotBeEndedNoNodeIs) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a", 1, "T");
  Answer("b", 0, "T");
  ASSERT_EQ(c_.Told("a").hang().rank(), 1);
  const v1::RoundId round = c_.core().greatest().id();
  EndByTheCoordinator();
  EXPECT_EQ(c_.core().job().counts.excluded.size(), 0u);
  EXPECT_FALSE(Same(c_.core().greatest().id(), round)) << "it was ended";
}

TEST_F(HangTest, ASignOfLifeMeanwhileEndsTheMatter) {
  BeQuiet(kLimit + absl::Seconds(1));
  for (int beat = 0; beat < 2; ++beat) BeQuiet(absl::ZeroDuration());
  EXPECT_EQ(c_.Said("show signs of life again"), 1);
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
  Answer("a");
  Answer("b", 1);
  EXPECT_FALSE(c_.Told("b").has_hang());
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(HangTest, TheNextRoundWarmsUpAnew) {
  BeQuiet(kLimit + absl::Seconds(1));
  c_.At("a").status.set_signs(kWarmUpSigns - 1);  // as its host counts them in the next round
  EndTheRound();
  ASSERT_EQ(c_.state(), State::kRunning);
  BeQuiet(absl::ZeroDuration());
  RunForAWhile();
  BeQuiet(kLimit + absl::Seconds(1));
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
  c_.At("a").status.set_signs(kWarmUpSigns);
  BeQuiet(kLimit + absl::Seconds(1));
  EXPECT_NE(c_.Told("a").snapshot(), 0u);
}

class ReportedHangTest : public HangTest {
 protected:
  ReportedHangTest() : HangTest(Watched(OnHang::kReport)) {}
};

TEST_F(ReportedHangTest, IsSaidOnceAndTheRoundGoesOn) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  Answer("b", 1);
  BeQuiet(absl::Hours(1));
  EXPECT_EQ(c_.Said("suspect: rank 3: it stands elsewhere than the other 3"), 2)
      << "the finding, and its snapshot";
  EXPECT_FALSE(c_.Told("b").has_hang());
  EXPECT_EQ(c_.Told("a").snapshot(), 0u);
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(ReportedHangTest, IsSaidAgainAfterSignsOfLife) {
  for (int hang = 1; hang <= 2; ++hang) {
    BeQuiet(kLimit + absl::Seconds(1));
    Answer("a");
    Answer("b", 1);
    EXPECT_EQ(c_.Said("suspect: rank 3: it stands elsewhere than the other 3"), 2 * hang);
    for (int beat = 0; beat < 2; ++beat) BeQuiet(absl::ZeroDuration());
  }
}

class StoppedHangTest : public HangTest {
 protected:
  StoppedHangTest() : HangTest(Watched(OnHang::kStop)) {}
};

TEST_F(StoppedHangTest, TheJobEndsThoughRestartsAreLeft) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  Answer("b", 1);
  EndTheRound();
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 134);
  EXPECT_THAT(c_.core().verdict()->reason(), HasSubstr("--on-hang stop"));
}

TEST_F(StoppedHangTest, AnotherFailureIsNotStoppedFor) {
  c_.Fail("b", 1);
  for (const char* name : {"a", "b"}) c_.Apply(name);
  c_.Phase("b", v1::PHASE_READY);
  c_.Pass(absl::Seconds(5), {"a", "b"});
  EXPECT_FALSE(c_.core().verdict().has_value());
}

TEST_F(StoppedHangTest, TheJobEndsAlsoIfTheRankCouldNotBeEnded) {
  Hang3();
  PassBeating(kHungEnds + absl::Seconds(2));
  for (const char* name : {"a", "b"}) c_.Apply(name);
  c_.Pass(absl::Seconds(1), {"a", "b"});
  ASSERT_TRUE(c_.core().verdict().has_value());
  EXPECT_THAT(c_.core().verdict()->reason(), HasSubstr("--on-hang stop"));
  EXPECT_EQ(c_.core().verdict()->root_cause().local_rank(), 1);
}

// A member may say what it likes about its own ranks, and about no others.
TEST_F(HangTest, ANodeSpeaksOfItsOwnRanksAlone) {
  BeQuiet(kLimit + absl::Seconds(1));
  v1::NodeSnapshot snapshot;
  snapshot.set_number(c_.Told("b").snapshot());
  snapshot.add_ranks()->set_local_rank(1000);
  snapshot.mutable_ranks(0)->set_ended(true);
  *c_.At("b").status.mutable_snapshot() = snapshot;
  c_.Apply("b");
  Answer("a");
  EXPECT_FALSE(c_.Told("a").has_hang() && c_.Told("a").hang().rank() > 1);
  EXPECT_EQ(c_.Said("1002"), 0);
}

}  // namespace
}  // namespace muster::rendezvous
