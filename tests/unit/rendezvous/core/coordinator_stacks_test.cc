// Where the workers stand, as people ask for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/stacks/warm_up.h"
#include "rendezvous/core/stack_view.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two nodes of two workers each: ranks 0 and 1 on a, 2 and 3 on b.
class StacksTest : public ::testing::Test {
 protected:
  StacksTest() {
    c_.Join("a", 0);
    c_.Join("b", 1);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    c_.Pass(absl::Seconds(20), {"a", "b"});
    EXPECT_EQ(c_.state(), State::kRunning);
  }

  v1::Stacks Look() { return StacksOf(c_.now(), c_.core().job()); }
  v1::RankView LookAt(int rank) { return RankOf(c_.now(), rank, c_.core().job()); }
  // As somebody who asks again.
  v1::Stacks LookAgain() {
    c_.WantStacks();
    return Look();
  }
  // All stand in train.py, but this one.
  void Answer(const std::string& name, int differs = -1) {
    v1::NodeSnapshot answer;
    answer.set_number(c_.Told(name).stacks());
    for (int local_rank = 0; local_rank < 2; ++local_rank) {
      v1::RankSnapshot* const rank = answer.add_ranks();
      rank->set_local_rank(local_rank);
      rank->set_pid(100 + local_rank);
      rank->set_state("S");
      v1::StackFrame* const frame = rank->add_main_thread();
      frame->set_function("f");
      frame->set_file(local_rank == differs ? "/home/me/data.py" : "/home/me/train.py");
      frame->set_line(41);
    }
    *c_.At(name).status.mutable_stacks() = answer;
    c_.Say(name);
    c_.At(name).status.clear_stacks();
  }

  Cluster c_{Fixed(2)};
};

TEST_F(StacksTest, NobodyIsAskedUntilSomebodyWantsThem) {
  EXPECT_EQ(c_.Told("a").stacks(), 0u);
  EXPECT_FALSE(Look().complete());
  EXPECT_THAT(Look().places(), IsEmpty());
}

TEST_F(StacksTest, AllMembersAreAskedAtOnceAndTheOddOneComesFirst) {
  c_.WantStacks();
  for (const char* name : {"a", "b"}) EXPECT_NE(c_.Told(name).stacks(), 0u) << name;
  Answer("a");
  EXPECT_FALSE(LookAgain().complete());
  EXPECT_THAT(Look().places(), IsEmpty()) << "nobody is accused before all have answered";
  Answer("b", 1);
  const v1::Stacks stacks = LookAgain();
  EXPECT_TRUE(stacks.complete());
  EXPECT_THAT(stacks.silent(), IsEmpty());
  EXPECT_THAT(stacks.suspects(), HasSubstr("rank 3"));
  ASSERT_EQ(stacks.suspect_ranks_size(), 1);
  EXPECT_EQ(stacks.suspect_ranks(0).first(), 3);
  ASSERT_EQ(stacks.places_size(), 2);
  const v1::Place& odd = stacks.places(0);
  ASSERT_EQ(odd.ranks_size(), 1);
  EXPECT_EQ(odd.ranks(0).first(), 3);
  EXPECT_EQ(odd.host(), "node 1 (b)");
  EXPECT_EQ(odd.example().pid(), 101);
  EXPECT_THAT(odd.where(), HasSubstr("data.py:41"));
  ASSERT_EQ(stacks.places(1).ranks_size(), 1);
  EXPECT_EQ(stacks.places(1).ranks(0).first(), 0);
  EXPECT_EQ(stacks.places(1).ranks(0).last(), 2);
}

// Its stacks are long, so they travel once.
TEST_F(StacksTest, WhoHasAnsweredIsAskedNoMore) {
  c_.WantStacks();
  Answer("a", 0);
  EXPECT_EQ(c_.Told("a").stacks(), 0u);
  EXPECT_NE(c_.Told("b").stacks(), 0u);
}

TEST_F(StacksTest, OneQuestionServesAllWhoComeMeanwhile) {
  c_.WantStacks();
  const uint64_t number = c_.Told("b").stacks();
  c_.Pass(absl::Seconds(2), {"a"});
  c_.WantStacks();
  EXPECT_EQ(c_.Told("b").stacks(), number);
  Answer("a");
  Answer("b");
  EXPECT_TRUE(LookAgain().complete());
  c_.Pass(kStacksServe, {"a", "b"});
  c_.WantStacks();
  EXPECT_GT(c_.Told("b").stacks(), number) << "they are old";
  EXPECT_FALSE(Look().complete());
}

TEST_F(StacksTest, ANodeThatDoesNotAnswerIsNotWaitedForForever) {
  c_.WantStacks();
  Answer("a");
  c_.Pass(kStackAnswers, {"a", "b"});
  const v1::Stacks stacks = LookAgain();
  EXPECT_TRUE(stacks.complete());
  EXPECT_THAT(stacks.silent(), ElementsAre("node 1 (b)"));
  EXPECT_EQ(stacks.places_size(), 1);
  EXPECT_EQ(stacks.suspects(), "") << "the node that is silent is the most likely reason";
  c_.Say("b");
  EXPECT_EQ(c_.Told("b").stacks(), 0u) << "it is not waited for any more";
}

TEST_F(StacksTest, WhatNobodyWantsAnyMoreIsForgotten) {
  c_.WantStacks();
  Answer("a");
  c_.Pass(kStacksKept + kTick, {"a", "b"});
  EXPECT_EQ(c_.Told("b").stacks(), 0u);
  EXPECT_THAT(Look().places(), IsEmpty());
}

TEST_F(StacksTest, AnAnswerToAnotherQuestionDoesNotCount) {
  c_.WantStacks();
  v1::NodeSnapshot answer;
  answer.set_number(c_.Told("a").stacks() + 1);
  answer.add_ranks();
  *c_.At("a").status.mutable_stacks() = answer;
  c_.Say("a");
  EXPECT_NE(c_.Told("a").stacks(), 0u) << "its answer is still awaited";
}

TEST_F(StacksTest, WithoutARoundNobodyIsAsked) {
  Cluster fresh(Fixed(2));
  fresh.Join("a", 0);
  ASSERT_EQ(fresh.state(), State::kRecovering) << "nodes of an earlier coordinator might come";
  const uint64_t newest = fresh.Told("a").id().seq();
  fresh.WantStacks();
  EXPECT_EQ(fresh.Told("a").id().seq(), newest) << "no further directive is sent";
  EXPECT_EQ(StacksOf(fresh.now(), fresh.core().job()).why_not(), "no round runs");
}

// As a checkpoint that hangs while its worker is asked to end.
TEST_F(StacksTest, WhileARoundEndsThoseThatStillRunAreAsked) {
  c_.Fail("b", 7);
  ASSERT_TRUE(c_.Told("a").has_stop());
  c_.WantStacks();
  EXPECT_NE(c_.Told("a").stacks(), 0u);
  EXPECT_EQ(c_.Told("a").snapshot(), 0u) << "nothing is judged";
  EXPECT_EQ(Look().why_not(), "");
  c_.At("b").status.set_live_workers(0);
  c_.Say("b");
  c_.Apply("a");
  ASSERT_EQ(c_.state(), State::kDraining) << "b has not applied the stop";
  EXPECT_EQ(Look().why_not(), "round 1 has ended");
}

TEST_F(StacksTest, AfterTheVerdictNobodyIsAsked) {
  for (const char* name : {"a", "b"}) c_.Phase(name, v1::PHASE_SUCCEEDED);
  EXPECT_EQ(Look().why_not(), "the job is over");
}

TEST_F(StacksTest, ANewCoordinatorSaysThatItDoesNotKnowYet) {
  Cluster next(Fixed(2), 7);
  next.At("a") = c_.At("a");
  next.Say("a");
  ASSERT_EQ(next.state(), State::kRecovering);
  next.WantStacks();
  EXPECT_EQ(next.Told("a").stacks(), 0u);
  EXPECT_EQ(StacksOf(next.now(), next.core().job()).why_not(), "a new coordinator finds out what runs: ask again");
}

// A question changes nothing that is decided.
TEST_F(StacksTest, ANewRoundIsAskedAnew) {
  c_.WantStacks();
  const uint64_t number = c_.Told("b").stacks();
  c_.Fail("b", 7);
  for (const char* name : {"a", "b", "a", "b"}) c_.Apply(name);
  c_.Pass(absl::Seconds(3), {"a", "b"});
  ASSERT_EQ(c_.state(), State::kRunning);
  EXPECT_THAT(Look().places(), IsEmpty());
  EXPECT_FALSE(Look().complete());
  c_.WantStacks();
  EXPECT_GT(c_.Told("b").stacks(), number);
}

TEST_F(StacksTest, ManyDeepStacksAreShortened) {
  c_.WantStacks();
  for (const char* name : {"a", "b"}) {
    v1::NodeSnapshot answer;
    answer.set_number(c_.Told(name).stacks());
    for (int local_rank = 0; local_rank < 2; ++local_rank) {
      v1::RankSnapshot* const rank = answer.add_ranks();
      rank->set_local_rank(local_rank);
      for (int i = 0; i < 32; ++i) {
        v1::StackFrame* const frame = rank->add_main_thread();
        frame->set_function(std::string(200, 'f'));
        frame->set_file(absl::StrCat("/home/", name, local_rank, std::string(200, 'x'), ".py"));
      }
    }
    *c_.At(name).status.mutable_stacks() = answer;
    c_.Say(name);
  }
  const v1::Stacks stacks = LookAgain();
  EXPECT_EQ(stacks.places_size(), 4);
  EXPECT_LE(stacks.ByteSizeLong(), kMaxStacksBytes);
  EXPECT_EQ(stacks.places(0).example().main_thread_size(), 32) << "these fit";
}

// It is decided by the hang's own question, and nobody else's.
TEST_F(StacksTest, WhileTheJobHangsNobodyElseIsAsked) {
  CoordinatorOptions options = Fixed(2);
  options.hang_timeout = absl::Seconds(20);
  Cluster c(options);
  c.Join("a", 0);
  c.Join("b", 1);
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.At("a").status.set_signs(kWarmUpSigns);
  for (const char* name : {"a", "b"}) {
    c.At(name).status.set_quiet_ms(0);
    c.Apply(name);
  }
  c.Pass(absl::Minutes(1), {"a", "b"});
  c.WantStacks();
  ASSERT_NE(c.Told("a").stacks(), 0u);
  for (const char* name : {"a", "b"}) {
    c.At(name).status.set_quiet_ms(21'000);
    c.Apply(name);
  }
  c.Pass(kTick, {});
  ASSERT_NE(c.Told("a").snapshot(), 0u);
  EXPECT_THAT(StacksOf(c.now(), c.core().job()).why_not(), HasSubstr("the job hangs"));
}

TEST_F(StacksTest, AboutOneRankItsNodeAloneIsAsked) {
  c_.WantRank(3);
  EXPECT_EQ(c_.Told("a").stacks(), 0u);
  EXPECT_NE(c_.Told("b").stacks(), 0u);
  EXPECT_EQ(c_.Told("b").stacks_of(), 1);
  EXPECT_FALSE(LookAt(3).complete());
  EXPECT_EQ(LookAt(3).host(), "node 1 (b)");
  Answer("b", 1);
  EXPECT_TRUE(LookAt(3).complete());
  EXPECT_EQ(LookAt(3).found().pid(), 101);
  EXPECT_THAT(LookAt(3).where(), HasSubstr("data.py:41"));
  EXPECT_EQ(c_.Told("b").stacks(), 0u) << "it is asked no more";
  c_.WantRank(3);
  EXPECT_EQ(c_.Told("b").stacks(), 0u) << "the answer serves for a second";
  c_.Pass(kStacksServe, {"a", "b"});
  c_.WantRank(3);
  EXPECT_NE(c_.Told("b").stacks(), 0u) << "then it is asked anew";
  EXPECT_FALSE(LookAt(3).complete());
}

TEST_F(StacksTest, AQuestionToAllComesBeforeOneAboutARank) {
  c_.WantRank(3);
  c_.WantStacks();
  EXPECT_FALSE(c_.Told("b").has_stacks_of());
  Answer("b");
  EXPECT_FALSE(LookAt(3).complete());
  EXPECT_TRUE(c_.Told("b").has_stacks_of());
  Answer("b");
  EXPECT_TRUE(LookAt(3).complete());
}

TEST_F(StacksTest, ARankWhoseNodeIsSilentIsAwaitedForALimitedTime) {
  c_.WantRank(3);
  c_.Pass(kStackAnswers, {"a", "b"});
  EXPECT_TRUE(LookAt(3).complete());
  EXPECT_FALSE(LookAt(3).has_found());
}

TEST_F(StacksTest, ARankThatItsNodeDoesNotShowHasEnded) {
  c_.WantRank(3);
  v1::NodeSnapshot answer;
  answer.set_number(c_.Told("b").stacks());
  *c_.At("b").status.mutable_stacks() = answer;
  c_.Say("b");
  EXPECT_TRUE(LookAt(3).complete());
  EXPECT_TRUE(LookAt(3).found().ended());
}

TEST_F(StacksTest, ARankThatIsNotThereHasAReason) {
  c_.WantRank(4);
  EXPECT_EQ(LookAt(4).why_not(), "round 1 has the ranks 0 to 3");
  EXPECT_EQ(LookAt(-1).why_not(), "round 1 has the ranks 0 to 3");
}

TEST_F(StacksTest, OnlySoManyRanksAreAskedForAtOnce) {
  RankQuestions questions(0);
  Host host;
  for (size_t rank = 0; rank < kMaxRanksAsked; ++rank)
    EXPECT_TRUE(questions.Want(c_.now(), 1, static_cast<int>(rank), host));
  EXPECT_FALSE(questions.Want(c_.now(), 1, kMaxRanksAsked, host));
  questions.OnTick(c_.now() + kStacksKept);
  EXPECT_TRUE(questions.Want(c_.now(), 1, kMaxRanksAsked, host)) << "nobody wants the others any more";
}

TEST_F(StacksTest, ARankIsKeptWhileSomebodyWantsIt) {
  RankQuestions questions(0);
  EXPECT_TRUE(questions.Want(c_.now(), 1, 3, Host()));
  EXPECT_FALSE(questions.Want(c_.now() + kTick, 1, 3, Host())) << "the same question serves";
  questions.OnTick(c_.now() + kStacksKept);
  EXPECT_NE(questions.Of(3), nullptr);
  questions.OnTick(c_.now() + kTick + kStacksKept);
  EXPECT_EQ(questions.Of(3), nullptr);
}

}  // namespace
}  // namespace muster::rendezvous
