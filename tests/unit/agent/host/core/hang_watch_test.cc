// Snapshots that are asked for, and the worker that must end.
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

  std::vector<RankSnapshot> Ranks() {
    std::vector<RankSnapshot> ranks(2);
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
  Effects Hear(const v1::HostDirective& directive, bool is_stopping = false) {
    Effects out;
    watch_.OnDirective(now_, directive, is_stopping, &out);
    return out;
  }
  Effects Ask(uint64_t number) {
    v1::HostDirective directive;
    directive.set_snapshot(number);
    return Hear(directive);
  }
  // As people do.
  Effects AskForPeople(uint64_t number, uint64_t for_hang = 0) {
    v1::HostDirective directive;
    directive.set_stacks(number);
    directive.set_snapshot(for_hang);
    return Hear(directive);
  }
  Effects AskForRank(uint64_t number, int local_rank) {
    v1::HostDirective directive;
    directive.set_stacks(number);
    directive.set_stacks_of(local_rank);
    return Hear(directive);
  }
  Effects End(int rank, bool is_stopping = false) {
    v1::HostDirective directive;
    directive.mutable_hang()->set_is_sure(true);
    *directive.mutable_hang()->mutable_round() = round_.id();
    directive.mutable_hang()->set_rank(rank);
    directive.mutable_hang()->set_why("it hangs");
    return Hear(directive, is_stopping);
  }
  v1::HostStatus Status() {
    v1::HostStatus status;
    watch_.Describe(&status);
    return status;
  }

  BootTime now_ = FromBootNanos(1'000'000'000);
  Effects kept_;
  v1::Round round_;
  HangWatch watch_{5'000};
};

TEST_F(HangWatchTest, OneQuestionIsOneSnapshot) {
  EXPECT_EQ(Of<TakeSnapshot>(Ask(7)).size(), 1u);
  EXPECT_TRUE(Ask(7).empty());
  Effects out;
  EXPECT_TRUE(watch_.OnSnapshot(Ranks(), &out));
  EXPECT_EQ(Of<KeepSnapshot>(out).size(), 1u);
  EXPECT_EQ(out.size(), 1u) << "it is not for the log of this node";
  EXPECT_TRUE(Ask(7).empty()) << "it was answered";
  EXPECT_EQ(Status().snapshot().number(), 7u);
  EXPECT_EQ(Status().snapshot().ranks_size(), 2);
  EXPECT_EQ(Of<TakeSnapshot>(Ask(8)).size(), 1u);
}

TEST_F(HangWatchTest, TheAnswerIsSentUntilNothingIsAsked) {
  Ask(7);
  Effects out;
  watch_.OnSnapshot(Ranks(), &out);
  EXPECT_TRUE(Status().has_snapshot());
  Ask(0);
  EXPECT_FALSE(Status().has_snapshot());
  EXPECT_FALSE(watch_.OnSnapshot(Ranks(), &out)) << "nobody waits for it";
}

TEST_F(HangWatchTest, ASnapshotForASignalGoesToTheLogOfThisNode) {
  Effects out;
  watch_.AskedBySignal(&out);
  watch_.AskedBySignal(&out);
  EXPECT_EQ(Of<TakeSnapshot>(out).size(), 1u);
  EXPECT_EQ(Of<TakeSnapshot>(out).at(0).first_rank, 4);
  out.clear();
  EXPECT_FALSE(watch_.OnSnapshot(Ranks(), &out));
  EXPECT_THAT(Of<Note>(out).at(0).text, HasSubstr("stacks of this node's workers"));
  EXPECT_FALSE(Status().has_snapshot());
}

TEST_F(HangWatchTest, PeopleGetTheirAnswerWithoutFlightRecordersAndWithoutAFile) {
  const auto taken = Of<TakeSnapshot>(AskForPeople(3));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_FALSE(taken[0].with_recorders);
  EXPECT_TRUE(AskForPeople(3).empty());
  Effects out;
  EXPECT_TRUE(watch_.OnSnapshot(Ranks(), &out));
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(Status().stacks().number(), 3u);
  EXPECT_EQ(Status().stacks().ranks_size(), 2);
  EXPECT_FALSE(Status().has_snapshot());
  AskForPeople(0);
  EXPECT_FALSE(Status().has_stacks());
}

TEST_F(HangWatchTest, AQuestionAboutOneWorkerIsAnsweredByASnapshotOfItAlone) {
  AskForPeople(3);
  EXPECT_TRUE(Of<TakeSnapshot>(AskForRank(4, 1)).empty()) << "one at a time";
  Effects out;
  EXPECT_FALSE(watch_.OnSnapshot(Ranks(), &out)) << "it has no output";
  EXPECT_FALSE(Status().has_stacks());
  ASSERT_EQ(Of<TakeSnapshot>(out).size(), 1u);
  EXPECT_EQ(Of<TakeSnapshot>(out)[0].only, 1);
  EXPECT_TRUE(watch_.OnSnapshot({Ranks()[1]}, &out));
  EXPECT_EQ(Status().stacks().number(), 4u);
  EXPECT_EQ(Status().stacks().ranks_size(), 1);
}

TEST_F(HangWatchTest, ASnapshotOfOneWorkerAnswersNoHang) {
  AskForRank(4, 1);
  Ask(8);
  Effects out;
  EXPECT_FALSE(watch_.OnSnapshot({Ranks()[1]}, &out));
  EXPECT_FALSE(Status().has_snapshot());
  ASSERT_EQ(Of<TakeSnapshot>(out).size(), 1u);
  EXPECT_EQ(Of<TakeSnapshot>(out)[0].only, std::nullopt);
  EXPECT_TRUE(Of<TakeSnapshot>(out)[0].with_recorders);
}

// However often people ask: else their questions would make a hang of a job that goes on.
TEST_F(HangWatchTest, SignsOfLifeCountWhilePeopleAreAnswered) {
  watch_.OnTick(now_, &kept_);
  now_ += absl::Seconds(3);
  watch_.OnTick(now_, &kept_);
  AskForPeople(3);
  watch_.OnSigns({0});
  EXPECT_EQ(Status().quiet_ms(), 0);
}

// The coordinator does not wait for long, so what people asked for answers it at once.
TEST_F(HangWatchTest, AHangsQuestionThatComesMeanwhileIsAnsweredAndFlightRecordersFollow) {
  AskForPeople(3);
  EXPECT_TRUE(Of<TakeSnapshot>(AskForPeople(3, 8)).empty()) << "one at a time";
  Effects out;
  EXPECT_TRUE(watch_.OnSnapshot(Ranks(), &out));
  EXPECT_EQ(Status().snapshot().number(), 8u);
  EXPECT_FALSE(Status().has_stacks()) << "both would be too long for one status";
  ASSERT_EQ(Of<TakeSnapshot>(out).size(), 1u);
  EXPECT_TRUE(Of<TakeSnapshot>(out)[0].with_recorders);
  out.clear();
  EXPECT_FALSE(watch_.OnSnapshot(Ranks(), &out));
  EXPECT_EQ(Of<KeepSnapshot>(out).size(), 1u);
  EXPECT_TRUE(Of<TakeSnapshot>(out).empty());
}

TEST_F(HangWatchTest, ASnapshotOfARoundThatHasEndedIsNotTheNextOnes) {
  for (const bool for_hang : {false, true}) {
    for_hang ? Ask(8) : AskForPeople(3);
    watch_.EndRound();
    round_.mutable_id()->set_number(round_.id().number() + 1);
    round_.set_first_rank(6);  // so that its local ranks would be below 0
    watch_.BeginRound(now_, round_, 2);
    for_hang ? Ask(8) : AskForPeople(3);
    Effects out;
    EXPECT_FALSE(watch_.OnSnapshot(Ranks(), &out));
    EXPECT_FALSE(Status().has_stacks());
    EXPECT_FALSE(Status().has_snapshot());
    ASSERT_EQ(Of<TakeSnapshot>(out).size(), 1u) << "those of this round are asked for";
    EXPECT_EQ(Of<TakeSnapshot>(out)[0].first_rank, 6);
    std::vector<RankSnapshot> ranks = Ranks();
    for (RankSnapshot& rank : ranks) rank.rank += 2;
    EXPECT_TRUE(watch_.OnSnapshot(ranks, &out));
    for_hang ? Ask(0) : AskForPeople(0);
    round_.set_first_rank(4);
  }
}

TEST_F(HangWatchTest, TheAnswerToAHangServesPeopleToo) {
  Ask(8);
  EXPECT_TRUE(AskForPeople(3, 8).empty());
  Effects out;
  EXPECT_TRUE(watch_.OnSnapshot(Ranks(), &out));
  EXPECT_TRUE(Of<TakeSnapshot>(out).empty());
  EXPECT_EQ(Status().snapshot().number(), 8u);
  AskForPeople(3);
  EXPECT_EQ(Status().stacks().number(), 3u);
}

TEST_F(HangWatchTest, TheNamedWorkerIsEndedOnce) {
  const auto ended = Of<EndHungWorker>(End(5));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].local_rank, 1);
  EXPECT_EQ(ended[0].why, "it hangs");
  EXPECT_TRUE(End(5).empty());
}

TEST_F(HangWatchTest, IfItHasEndedAnotherOneMakesTheRoundFail) {
  watch_.OnEnded(1, Ending());
  EXPECT_EQ(Of<EndHungWorker>(End(5)).at(0).local_rank, 0);
  EXPECT_EQ(watch_.OnEnded(0, Ending()).hung, Ending::Hung::kForAll) << "its node is not to blame";
}

TEST_F(HangWatchTest, TheNamedWorkerHasFailedHoweverItEnds) {
  EXPECT_TRUE(watch_.OnEnded(0, Ending()).ok()) << "another one, before";
  End(5);
  const Ending handled = watch_.OnEnded(1, Ending{.done = true});
  EXPECT_FALSE(handled.ok()) << "it handles SIGABRT, and exits 0";
  EXPECT_EQ(handled.ExitCode(), 134);
  EXPECT_FALSE(handled.done);
  EXPECT_EQ(handled.error_text, "it hangs");
  EXPECT_EQ(handled.hung, Ending::Hung::kSuspect);
  EXPECT_EQ(watch_.OnEnded(1, Ending{.number = 3}).ExitCode(), 3);
  watch_.BeginRound(now_, round_, 2);
  EXPECT_TRUE(watch_.OnEnded(1, Ending()).ok());
}

TEST_F(HangWatchTest, ASignOfLifeSinceTheQuestionSavesIt) {
  Effects out;
  Ask(7);
  watch_.OnSnapshot(Ranks(), &out);
  watch_.OnSigns({0});
  EXPECT_TRUE(End(5).empty());
  Ask(8);
  EXPECT_EQ(Of<EndHungWorker>(End(5)).size(), 1u);
}

// The flight recorders of NCCL say that they were asked.
TEST_F(HangWatchTest, OutputWhileTheSnapshotIsTakenPutsTheSentenceOff) {
  Effects out;
  watch_.OnTick(now_ += absl::Seconds(2), &out);
  Ask(7);
  watch_.OnSigns({0, 1});
  watch_.OnSnapshot(Ranks(), &out);
  EXPECT_EQ(Status().quiet_ms(), 2000) << "it is no sign of life";
  EXPECT_TRUE(End(5).empty());
  now_ += kSecondThought - absl::Seconds(1);
  EXPECT_TRUE(End(5).empty());
  now_ += absl::Seconds(1);
  EXPECT_EQ(Of<EndHungWorker>(End(5)).size(), 1u);
}

TEST_F(HangWatchTest, OutputAfterThatSavesTheWorker) {
  Ask(7);
  watch_.OnSigns({0, 1});
  Effects out;
  watch_.OnSnapshot(Ranks(), &out);
  EXPECT_TRUE(End(5).empty());
  watch_.OnSigns({0});
  now_ += 2 * kSecondThought;
  EXPECT_TRUE(End(5).empty());
}

TEST_F(HangWatchTest, NobodyIsEndedWhileTheRoundIsStopped) { EXPECT_TRUE(End(5, true).empty()); }

TEST_F(HangWatchTest, AStragglerIsNamedOnceInARound) {
  BootTime now = now_;
  Effects out;
  const auto pass = [&](int seconds, const std::set<int>& signs) {
    for (int i = 0; i < seconds; ++i) {
      watch_.OnTick(now += absl::Seconds(1), &out);
      watch_.OnSigns(signs);
    }
  };
  pass(20, {0, 1});
  EXPECT_TRUE(out.empty());
  pass(20, {0});
  ASSERT_EQ(Of<Note>(out).size(), 1u);
  EXPECT_THAT(Of<Note>(out)[0].text, HasSubstr("worker rank 5 has shown no sign of life for 5s"));
  watch_.BeginRound(now, round_, 2);
  pass(20, {0, 1});
  pass(20, {0});
  EXPECT_EQ(Of<Note>(out).size(), 2u);
}

TEST_F(HangWatchTest, SignsOfTheRoundBeforeSaveNobody) {
  watch_.OnSigns({0});
  watch_.BeginRound(now_, round_, 2);
  EXPECT_EQ(Of<EndHungWorker>(End(5)).size(), 1u);
}

TEST_F(HangWatchTest, ASentenceIsPutOffAnewInEachRound) {
  Effects out;
  for (uint64_t question : {7, 8}) {
    watch_.BeginRound(now_, round_, 2);
    Ask(question);
    watch_.OnSigns({0});
    watch_.OnSnapshot(Ranks(), &out);
    EXPECT_TRUE(End(5).empty()) << question;
    now_ += 2 * kSecondThought;
  }
}

TEST_F(HangWatchTest, TheSnapshotOfARoundEndsWithIt) {
  Ask(7);
  Effects out;
  watch_.OnSnapshot(Ranks(), &out);
  watch_.EndRound();
  EXPECT_FALSE(Status().has_snapshot());
}

TEST_F(HangWatchTest, WhatCoordinatorsHaveLearnedIsKept) {
  v1::HostDirective directive;
  directive.set_learned_silence_ms(480'000);
  Effects out;
  watch_.OnDirective(now_, directive, false, &out);
  directive.set_learned_silence_ms(0);  // of a new coordinator
  watch_.OnDirective(now_, directive, false, &out);
  EXPECT_EQ(Status().learned_silence_ms(), 480'000);
}

TEST_F(HangWatchTest, WithoutLiveWorkersNobodyIsEnded) {
  watch_.OnEnded(0, Ending());
  watch_.OnEnded(1, Ending());
  EXPECT_TRUE(End(5).empty());
}

TEST_F(HangWatchTest, ASentenceOfAnotherRoundIsNotCarriedOut) {
  round_.mutable_id()->set_number(2);
  EXPECT_TRUE(End(5).empty());
}

TEST_F(HangWatchTest, TheStatusHasTheSilence) {
  EXPECT_EQ(Status().quiet_ms(), 0);
  Effects out;
  watch_.OnTick(now_ + absl::Seconds(1), &out);
  watch_.OnSigns({1});
  watch_.OnTick(now_ + absl::Seconds(2), &out);
  EXPECT_EQ(Status().signs(), 1);
  EXPECT_EQ(Status().quiet_ms(), 1000);
  watch_.EndRound();
  EXPECT_FALSE(Status().has_quiet_ms());
}

TEST_F(HangWatchTest, WithoutATimeoutNothingIsCounted) {
  HangWatch unwatched(0);
  unwatched.BeginRound(now_, round_, 2);
  v1::HostStatus status;
  unwatched.Describe(&status);
  EXPECT_FALSE(status.has_quiet_ms());
}

}  // namespace
}  // namespace muster::host
