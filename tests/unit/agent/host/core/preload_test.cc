#include "agent/host/core/preload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/core/effects.h"
#include "tests/unit/effects.h"

namespace muster::host {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PreloadTest : public ::testing::Test {
 protected:
  static Preload Make() { return Preload({.modules = {"torch", "lightning"}}); }
  // One that has imported everything.
  Preload Ready() {
    Preload preload = Make();
    preload.Begin(now_, &effects_);
    EXPECT_TRUE(News(&preload, {.kind = PreloadNews::kReady}));
    effects_.clear();
    return preload;
  }
  bool News(Preload* preload, const PreloadNews& news) { return preload->OnNews(now_, news, &effects_); }
  std::vector<std::vector<std::string>> Starts() const {
    std::vector<std::vector<std::string>> starts;
    for (const StartPreloader& start : AllOf<StartPreloader>(effects_)) starts.push_back(start.modules);
    return starts;
  }
  size_t Stops() const { return AllOf<StopPreloader>(effects_).size(); }
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const Note& note : AllOf<Note>(effects_)) lines.push_back(note.text);
    return lines;
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  Effects effects_;
};

TEST_F(PreloadTest, WithoutModulesNothingIsStartedAndNothingWaits) {
  Preload preload(PreloadOptions{});
  preload.Begin(now_, &effects_);
  EXPECT_FALSE(preload.OnTick(now_ + absl::Hours(1), &effects_));
  preload.End(&effects_);
  EXPECT_THAT(effects_, IsEmpty());
  EXPECT_FALSE(preload.holds());
  EXPECT_FALSE(preload.ready());
}

TEST_F(PreloadTest, TheFirstRoundWaitsForTheImport) {
  Preload preload = Make();
  EXPECT_TRUE(preload.holds()) << "also before the node is fit";
  preload.Begin(now_, &effects_);
  preload.Begin(now_, &effects_);
  EXPECT_THAT(Starts(), ElementsAre(ElementsAre("torch", "lightning"))) << "once";
  EXPECT_THAT(preload.Holds(), HasSubstr("imports torch, lightning for its workers, for up to 3m"));
  EXPECT_FALSE(preload.ready());
  EXPECT_TRUE(News(&preload, {.kind = PreloadNews::kReady, .took = absl::Milliseconds(1512)}));
  EXPECT_FALSE(preload.holds());
  EXPECT_EQ(preload.Holds(), "");
  EXPECT_TRUE(preload.ready());
  EXPECT_THAT(Lines(), ElementsAre("--preload: imported torch, lightning in 1.51s"));
}

TEST_F(PreloadTest, AnImportThatTakesTooLongHoldsNoRoundButIsUsedLater) {
  Preload preload = Make();
  preload.Begin(now_, &effects_);
  EXPECT_FALSE(preload.OnTick(now_ + kFirstPreloadLimit - absl::Nanoseconds(1), &effects_));
  EXPECT_TRUE(preload.OnTick(now_ + kFirstPreloadLimit, &effects_));
  EXPECT_FALSE(preload.OnTick(now_ + kFirstPreloadLimit, &effects_)) << "said once";
  EXPECT_FALSE(preload.holds());
  EXPECT_FALSE(preload.ready());
  EXPECT_EQ(Stops(), 0u);
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kReady}));
  EXPECT_TRUE(preload.ready());
}

TEST_F(PreloadTest, AnUnsafeModuleIsLeftOutAndTheOthersAreImportedAnew) {
  Preload preload = Make();
  preload.Begin(now_, &effects_);
  effects_.clear();
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kUnsafe, .why = "reads LOCAL_RANK", .module = "lightning"}));
  EXPECT_THAT(Starts(), ElementsAre(ElementsAre("torch")));
  EXPECT_THAT(Lines(),
              ElementsAre("--preload: each worker imports lightning itself, because it reads LOCAL_RANK"));
  EXPECT_TRUE(preload.holds()) << "the rest is still worth waiting for";
}

TEST_F(PreloadTest, ItIsOffOnceNoModuleIsLeft) {
  Preload preload({.modules = {"lightning"}});
  preload.Begin(now_, &effects_);
  effects_.clear();
  EXPECT_TRUE(News(&preload, {.kind = PreloadNews::kUnsafe, .why = "starts a thread", .module = "lightning"}));
  EXPECT_THAT(Starts(), IsEmpty());
  EXPECT_EQ(Stops(), 1u);
  EXPECT_FALSE(preload.holds());
  EXPECT_FALSE(preload.ready());
}

TEST_F(PreloadTest, AnInterpreterThatCannotDoItIsNotTriedAgain) {
  Preload preload = Make();
  preload.Begin(now_, &effects_);
  effects_.clear();
  EXPECT_TRUE(News(&preload, {.kind = PreloadNews::kUnusable, .why = "python is too old"}));
  EXPECT_THAT(Lines(), ElementsAre("--preload is off, workers start normally: python is too old"));
  EXPECT_FALSE(preload.OnTick(now_ + absl::Hours(1), &effects_));
  EXPECT_THAT(Starts(), IsEmpty());
}

TEST_F(PreloadTest, OneThatEndsIsStartedAnewWithPausesThatDoubleAndIsGivenUpInTheEnd) {
  Preload preload = Ready();
  absl::Duration pause = kPreloadRetry;
  for (int death = 1; death <= kMaxPreloadDeaths; ++death, pause *= 2) {
    effects_.clear();
    EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kEnded, .why = "killed (SIGKILL)"}));
    EXPECT_FALSE(preload.ready());
    EXPECT_FALSE(preload.OnTick(now_ + pause - absl::Nanoseconds(1), &effects_));
    EXPECT_THAT(Starts(), IsEmpty());
    now_ += pause;
    EXPECT_FALSE(preload.OnTick(now_, &effects_));
    EXPECT_THAT(Starts(), ElementsAre(ElementsAre("torch", "lightning"))) << death;
    EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kReady}));
  }
  effects_.clear();
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kEnded, .why = "killed (SIGKILL)"}));
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("off")));
  EXPECT_FALSE(preload.OnTick(now_ + absl::Hours(1), &effects_));
  EXPECT_THAT(Starts(), IsEmpty());
}

TEST_F(PreloadTest, ARoundThatWasForkedFromItForgivesEarlierEnds) {
  Preload preload = Ready();
  for (int i = 0; i < 3 * kMaxPreloadDeaths; ++i) {
    EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kEnded, .why = "killed (SIGKILL)"}));
    now_ += kPreloadRetry;
    EXPECT_FALSE(preload.OnTick(now_, &effects_));
    EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kReady}));
    EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kForked}));
    EXPECT_TRUE(preload.ready());
  }
}

TEST_F(PreloadTest, TheFirstRoundDoesNotWaitForAnotherAttempt) {
  Preload preload = Make();
  preload.Begin(now_, &effects_);
  EXPECT_TRUE(News(&preload, {.kind = PreloadNews::kEnded, .why = "killed (SIGKILL)"}));
  EXPECT_FALSE(preload.holds());
}

TEST_F(PreloadTest, AfterAFileHasChangedTheModulesAreImportedAnewAtOnce) {
  Preload preload = Ready();
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kStale, .why = "/x.py has changed"}));
  EXPECT_EQ(Stops(), 1u);
  EXPECT_THAT(Starts(), ElementsAre(ElementsAre("torch", "lightning")));
  EXPECT_FALSE(preload.holds()) << "the next round may come before";
  EXPECT_FALSE(preload.ready());
}

TEST_F(PreloadTest, WorkersThatItMustNotForkMakeItEnd) {
  Preload preload = Ready();
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kRefused, .why = "the script sets X"}));
  EXPECT_THAT(Lines(), ElementsAre("--preload is off, workers start normally: the script sets X"));
  EXPECT_EQ(Stops(), 1u);
  EXPECT_FALSE(preload.ready());
}

TEST_F(PreloadTest, OneThatDoesNotAnswerIsReplaced) {
  Preload preload = Ready();
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kFailed, .why = "it does not answer"}));
  EXPECT_EQ(Stops(), 1u);
  EXPECT_FALSE(preload.OnTick(now_ + kPreloadRetry, &effects_));
  EXPECT_EQ(Starts().size(), 1u);
}

TEST_F(PreloadTest, AnImportThatNeverEndsIsStoppedAndTriedAgain) {
  Preload preload = Make();
  preload.Begin(now_, &effects_);
  now_ += kPreloadLimit;
  EXPECT_TRUE(preload.OnTick(now_, &effects_));
  EXPECT_EQ(Stops(), 1u);
  EXPECT_FALSE(preload.OnTick(now_ + kPreloadRetry, &effects_));
  EXPECT_EQ(Starts().size(), 2u);
}

TEST_F(PreloadTest, AtTheEndItIsStoppedAndNothingStartsAgain) {
  Preload preload = Ready();
  preload.End(&effects_);
  EXPECT_EQ(Stops(), 1u);
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kEnded, .why = "killed (SIGKILL)"}));
  EXPECT_FALSE(preload.OnTick(now_ + absl::Hours(1), &effects_));
  EXPECT_THAT(Starts(), IsEmpty());
}

// ---- auto ---------------------------------------------------------------------------------------------------

class LearningTest : public PreloadTest {
 protected:
  // One whose first round has started, forked from a Python without modules.
  Preload Learning() {
    Preload preload({.modules = {}, .learns = true, .list = "/cache/list"});
    preload.Begin(now_, &effects_);
    EXPECT_THAT(preload.Holds(), HasSubstr("starts the Python from which its workers are forked"))
        << "a node that offers no port and prepares nothing would not be waited for";
    EXPECT_TRUE(News(&preload, {.kind = PreloadNews::kReady}));
    EXPECT_THAT(Lines(),
                ElementsAre(::testing::AllOf(HasSubstr("one worker of the first round that is forked is watched"),
                                             HasSubstr("the list for later jobs goes to /cache/list"))));
    EXPECT_TRUE(preload.ready() && preload.learns());
    EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kForked}));
    effects_.clear();
    return preload;
  }
  size_t Reads() const { return AllOf<ReadLearned>(effects_).size(); }
};

TEST_F(LearningTest, ThatItLearnsIsSaidOnceAlsoIfThePythonIsStartedAnew) {
  Preload preload = Learning();
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kEnded, .why = "x"}));
  now_ += kPreloadRetry;
  EXPECT_FALSE(preload.OnTick(now_, &effects_));
  effects_.clear();
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kReady}));
  EXPECT_TRUE(preload.ready());
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(LearningTest, WithoutAPlaceTheListServesThisJob) {
  Preload preload({.modules = {}, .learns = true});
  preload.Begin(now_, &effects_);
  EXPECT_TRUE(News(&preload, {.kind = PreloadNews::kReady}));
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("the list serves this job only, for want of HOME")));
}

TEST_F(LearningTest, AListOfAnEarlierJobIsImportedBeforeTheFirstRound) {
  Preload preload({.modules = {"torch"}, .learns = true});
  EXPECT_FALSE(preload.learns());
  preload.Begin(now_, &effects_);
  ASSERT_EQ(AllOf<StartPreloader>(effects_).size(), 1u);
  EXPECT_TRUE(AllOf<StartPreloader>(effects_)[0].learned);
  EXPECT_TRUE(preload.holds());
}

TEST_F(LearningTest, WhatTheFirstRoundImportsIsReadAfterAWhileAndImportedForTheNext) {
  Preload preload = Learning();
  EXPECT_FALSE(preload.OnTick(now_ + kLearnFor - absl::Nanoseconds(1), &effects_));
  EXPECT_EQ(Reads(), 0u);
  EXPECT_FALSE(preload.OnTick(now_ + kLearnFor, &effects_));
  EXPECT_FALSE(preload.OnTick(now_ + kLearnFor, &effects_));
  EXPECT_EQ(Reads(), 1u) << "once";
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kLearned, .names = {"torch", "torch.nn"}}));
  EXPECT_THAT(Starts(), ElementsAre(ElementsAre("torch", "torch.nn")));
  EXPECT_FALSE(preload.ready());
  EXPECT_FALSE(preload.holds());
  ASSERT_EQ(AllOf<KeepLearned>(effects_).size(), 1u);
  EXPECT_THAT(AllOf<KeepLearned>(effects_)[0].modules, ElementsAre("torch", "torch.nn"));
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kReady}));
  EXPECT_TRUE(preload.ready());
  EXPECT_EQ(AllOf<KeepLearned>(effects_).size(), 1u) << "it has not changed";
}

TEST_F(LearningTest, ARoundThatEndsEarlierIsReadAtItsEnd) {
  Preload preload = Learning();
  preload.OnRoundOver(true, &effects_);
  EXPECT_EQ(Reads(), 1u);
  preload.OnRoundOver(true, &effects_);
  EXPECT_EQ(Reads(), 1u);
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kLearned, .names = {"torch"}}));
  EXPECT_EQ(AllOf<KeepLearned>(effects_).size(), 1u);
}

TEST_F(LearningTest, WhatARoundThatFailedEarlyImportedServesThisJobOnly) {
  Preload preload = Learning();
  preload.OnRoundOver(false, &effects_);
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kLearned, .names = {"torch"}}));
  EXPECT_THAT(Starts(), ElementsAre(ElementsAre("torch")));
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kReady}));
  EXPECT_TRUE(AllOf<KeepLearned>(effects_).empty()) << "the next job would never learn the rest";
}

TEST_F(LearningTest, WithoutAListTheNextRoundLearns) {
  Preload preload = Learning();
  preload.OnRoundOver(false, &effects_);
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kForked}));
  EXPECT_TRUE(preload.learns());
  preload.OnRoundOver(false, &effects_);
  EXPECT_EQ(Reads(), 2u);
}

TEST_F(LearningTest, AnUnsafeModuleIsLeftOutWithItsPackage) {
  Preload preload({.modules = {"torch", "lightning", "lightning.pytorch", "lightningx"}, .learns = true});
  preload.Begin(now_, &effects_);
  effects_.clear();
  EXPECT_TRUE(
      News(&preload, {.kind = PreloadNews::kUnsafe, .why = "reads LOCAL_RANK", .module = "lightning.pytorch"}))
      << "the first round waits for no second import";
  EXPECT_THAT(Starts(), ElementsAre(ElementsAre("torch", "lightningx")));
  ASSERT_EQ(AllOf<KeepLearned>(effects_).size(), 1u) << "the next job need not find it out again";
  EXPECT_THAT(AllOf<KeepLearned>(effects_)[0].modules, ElementsAre("torch", "lightningx"));
  EXPECT_FALSE(News(&preload, {.kind = PreloadNews::kReady}));
  EXPECT_TRUE(preload.ready());
  EXPECT_THAT(Lines(), Contains(HasSubstr("imported 2 learned modules in ")));
}

}  // namespace
}  // namespace muster::host
