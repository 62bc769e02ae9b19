// What a coordinator does about a round that does not go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/picture/picture_message.h"
#include "rendezvous/core/hang.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(20);

CoordinatorOptions Watched(OnHang on_hang = OnHang::kRestart) {
  CoordinatorOptions options = Fixed(2);
  options.hang_timeout = kLimit;
  options.on_hang = on_hang;
  return options;
}

// Two nodes of two workers each: ranks 0 and 1 on a, 2 and 3 on b.
class HangTest : public ::testing::Test {
 protected:
  explicit HangTest(OnHang on_hang = OnHang::kRestart) : c_(Watched(on_hang)) {
    c_.Join("a", 0);
    c_.Join("b", 1);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    EXPECT_EQ(c_.state(), State::kRunning);
    c_.At("a").status.set_signs(kWarmUpSigns);
    BeQuiet(absl::ZeroDuration());
  }

  void Quiet(const std::string& name, absl::Duration quiet) {
    c_.At(name).status.set_quiet_ms(absl::ToInt64Milliseconds(quiet));
    c_.Apply(name);
  }
  void BeQuiet(absl::Duration quiet) {
    for (const char* name : {"a", "b"}) Quiet(name, quiet);
    c_.Pass(kTick, {});
  }
  // All ranks but one wait at the same place.
  void Answer(const std::string& name, int hung = -1) {
    v1::NodePicture picture;
    picture.set_number(c_.Told(name).picture());
    for (int local_rank = 0; local_rank < 2; ++local_rank) {
      v1::RankPicture* const rank = picture.add_ranks();
      rank->set_local_rank(local_rank);
      rank->set_state("S");
      v1::StackFrame* const frame = rank->add_main_thread();
      frame->set_function(local_rank == hung ? "load" : "all_reduce");
      frame->set_file(local_rank == hung ? "/home/me/data.py" : "/home/me/train.py");
      frame->set_line(local_rank == hung ? 41 : 88);
    }
    *c_.At(name).status.mutable_picture() = picture;
    c_.Apply(name);
    c_.Pass(kTick, {});
  }

  // b has ended the worker, and says so.
  void EndTheRound() {
    c_.Fail("b", 134);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    c_.Phase("b", v1::PHASE_READY);
    c_.Pass(absl::Seconds(5), {"a", "b"});
  }

  Cluster c_;
};

TEST_F(HangTest, AllNodesAreAskedWhereTheirWorkersStand) {
  BeQuiet(kLimit);
  EXPECT_EQ(c_.Told("a").picture(), 0u);
  BeQuiet(kLimit + absl::Milliseconds(100));
  for (const char* name : {"a", "b"}) EXPECT_NE(c_.Told(name).picture(), 0u) << name;
  EXPECT_EQ(c_.Events("hang").size(), 1u);
}

TEST_F(HangTest, ARankThatGoesOnIsEnough) {
  Quiet("a", absl::Hours(1));
  Quiet("b", absl::Seconds(1));
  c_.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c_.Told("a").picture(), 0u);
}

TEST_F(HangTest, ANodeThatIsCutOffIsNotQuiet) {
  Quiet("a", kLimit + absl::Seconds(1));
  c_.Close("b");
  c_.Pass(absl::Seconds(1), {"a"});
  EXPECT_EQ(c_.Told("a").picture(), 0u);
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
  EXPECT_FALSE(c_.Told("a").has_hang());
  EXPECT_EQ(c_.state(), State::kRunning) << "the node's report of its failure ends it";
  EXPECT_EQ(c_.Told("a").picture(), 0u) << "nothing is asked any more";
}

TEST_F(HangTest, AnAnswerThatDoesNotComeIsNotAwaitedForEver) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  c_.Pass(kPictureAnswers + absl::Seconds(1), {"a", "b"});
  EXPECT_TRUE(c_.Told("a").has_hang()) << "no rank that has answered differs, so the lowest one is ended";
}

TEST_F(HangTest, ANodeThatCannotEndTheRankHasItsRoundStopped) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  Answer("b", 1);
  for (int second = 0; second < 30 && c_.state() == State::kRunning; ++second) {
    c_.Pass(absl::Seconds(1), {});
    for (const char* name : {"a", "b"}) c_.Say(name);
  }
  EXPECT_EQ(c_.state(), State::kDraining);
  EXPECT_TRUE(c_.Told("b").has_stop());
}

TEST_F(HangTest, ASignOfLifeMeanwhileEndsTheMatter) {
  BeQuiet(kLimit + absl::Seconds(1));
  for (int beat = 0; beat < 2; ++beat) BeQuiet(absl::ZeroDuration());
  EXPECT_EQ(c_.Said("show signs of life again"), 1);
  EXPECT_EQ(c_.Told("a").picture(), 0u);
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
  BeQuiet(kLimit + absl::Seconds(1));
  EXPECT_EQ(c_.Told("a").picture(), 0u);
  c_.At("a").status.set_signs(kWarmUpSigns);
  BeQuiet(kLimit + absl::Seconds(1));
  EXPECT_NE(c_.Told("a").picture(), 0u);
}

class ReportedHangTest : public HangTest {
 protected:
  ReportedHangTest() : HangTest(OnHang::kReport) {}
};

TEST_F(ReportedHangTest, IsSaidOnceAndTheRoundGoesOn) {
  BeQuiet(kLimit + absl::Seconds(1));
  Answer("a");
  Answer("b", 1);
  BeQuiet(absl::Hours(1));
  EXPECT_EQ(c_.Said("suspect: rank 3: it stands elsewhere than the other 3"), 2) << "the finding, and its picture";
  EXPECT_FALSE(c_.Told("b").has_hang());
  EXPECT_EQ(c_.Told("a").picture(), 0u);
  EXPECT_EQ(c_.state(), State::kRunning);
}

class StoppedHangTest : public HangTest {
 protected:
  StoppedHangTest() : HangTest(OnHang::kStop) {}
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

// Whoever has the token may say of its own ranks what it likes, but only of its own.
TEST_F(HangTest, ANodeSpeaksOfItsOwnRanksAlone) {
  BeQuiet(kLimit + absl::Seconds(1));
  v1::NodePicture picture;
  picture.set_number(c_.Told("b").picture());
  picture.add_ranks()->set_local_rank(1000);
  picture.mutable_ranks(0)->set_ended(true);
  *c_.At("b").status.mutable_picture() = picture;
  c_.Apply("b");
  Answer("a");
  EXPECT_FALSE(c_.Told("a").has_hang() && c_.Told("a").hang().rank() > 1);
  EXPECT_EQ(c_.Said("1002"), 0);
}

}  // namespace
}  // namespace muster::rendezvous
