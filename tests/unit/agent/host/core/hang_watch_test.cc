// Pictures that are asked for, and the worker that must end.
#include "agent/host/core/hang_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

namespace muster::host {
namespace {

using ::testing::HasSubstr;

class HangWatchTest : public testing::Test {
 protected:
  HangWatchTest() {
    round_.mutable_id()->set_number(3);
    round_.mutable_id()->mutable_epoch()->set_number(1);
    round_.set_first_rank(4);
    watch_.BeginRound(now_, round_, 2);
  }

  std::vector<RankPicture> Ranks() {
    std::vector<RankPicture> ranks(2);
    for (int i = 0; i < 2; ++i) ranks[static_cast<size_t>(i)].rank = 4 + i;
    return ranks;
  }
  template <typename T>
  std::vector<T> Of(const Effects& effects) {
    std::vector<T> found;
    for (const Effect& effect : effects) {
      if (const T* const one = std::get_if<T>(&effect)) found.push_back(*one);
    }
    return found;
  }
  Effects Ask(uint64_t number) {
    v1::HostDirective directive;
    directive.set_picture(number);
    Effects out;
    watch_.OnDirective(directive, &out);
    return out;
  }
  Effects End(int rank) {
    v1::HostDirective directive;
    *directive.mutable_hang()->mutable_round() = round_.id();
    directive.mutable_hang()->set_rank(rank);
    directive.mutable_hang()->set_why("it hangs");
    Effects out;
    watch_.OnDirective(directive, &out);
    return out;
  }
  v1::HostStatus Status() {
    v1::HostStatus status;
    watch_.Describe(&status);
    return status;
  }

  BootTime now_ = FromBootNanos(1'000'000'000);
  v1::Round round_;
  HangWatch watch_{true};
};

TEST_F(HangWatchTest, OneQuestionIsOnePicture) {
  EXPECT_EQ(Of<TakePicture>(Ask(7)).size(), 1u);
  EXPECT_TRUE(Ask(7).empty());
  Effects out;
  EXPECT_TRUE(watch_.OnPicture(Ranks(), &out));
  EXPECT_EQ(Of<KeepPicture>(out).size(), 1u);
  EXPECT_EQ(out.size(), 1u) << "it is not for the log of this node";
  EXPECT_TRUE(Ask(7).empty()) << "it was answered";
  EXPECT_EQ(Status().picture().number(), 7u);
  EXPECT_EQ(Status().picture().ranks_size(), 2);
  EXPECT_EQ(Of<TakePicture>(Ask(8)).size(), 1u);
}

TEST_F(HangWatchTest, TheAnswerIsSentUntilNothingIsAsked) {
  Ask(7);
  Effects out;
  watch_.OnPicture(Ranks(), &out);
  EXPECT_TRUE(Status().has_picture());
  Ask(0);
  EXPECT_FALSE(Status().has_picture());
  EXPECT_FALSE(watch_.OnPicture(Ranks(), &out)) << "nobody waits for it";
}

TEST_F(HangWatchTest, APictureForASignalGoesToTheLogOfThisNode) {
  Effects out;
  watch_.AskedBySignal(&out);
  watch_.AskedBySignal(&out);
  EXPECT_EQ(Of<TakePicture>(out).size(), 1u);
  EXPECT_EQ(Of<TakePicture>(out).at(0).first_rank, 4);
  out.clear();
  EXPECT_FALSE(watch_.OnPicture(Ranks(), &out));
  EXPECT_THAT(Of<Note>(out).at(0).text, HasSubstr("picture of this node's workers"));
  EXPECT_FALSE(Status().has_picture());
}

TEST_F(HangWatchTest, TheNamedWorkerIsEndedOnce) {
  const auto ended = Of<EndHungWorker>(End(5));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].local_rank, 1);
  EXPECT_EQ(ended[0].why, "it hangs");
  EXPECT_TRUE(End(5).empty());
}

TEST_F(HangWatchTest, IfItHasEndedAnotherOneMakesTheRoundFail) {
  watch_.OnEnded(1);
  EXPECT_EQ(Of<EndHungWorker>(End(5)).at(0).local_rank, 0);
}

TEST_F(HangWatchTest, WithoutLiveWorkersNobodyIsEnded) {
  watch_.OnEnded(0);
  watch_.OnEnded(1);
  EXPECT_TRUE(End(5).empty());
}

TEST_F(HangWatchTest, ASentenceOfAnotherRoundIsNotCarriedOut) {
  round_.mutable_id()->set_number(2);
  EXPECT_TRUE(End(5).empty());
}

TEST_F(HangWatchTest, TheStatusHasTheShortestSilence) {
  EXPECT_EQ(Status().quiet_ms(), 0);
  watch_.OnLook(now_ + absl::Seconds(1), {1});
  watch_.OnLook(now_ + absl::Seconds(2), {});
  EXPECT_EQ(Status().quiet_ms(), 1000);
  watch_.EndRound();
  EXPECT_FALSE(Status().has_quiet_ms());
}

TEST_F(HangWatchTest, WithoutATimeoutNothingIsCounted) {
  HangWatch unwatched(false);
  unwatched.BeginRound(now_, round_, 2);
  v1::HostStatus status;
  unwatched.Describe(&status);
  EXPECT_FALSE(status.has_quiet_ms());
}

}  // namespace
}  // namespace muster::host
