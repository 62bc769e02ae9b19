#include "agent/host/core/gpu_release.h"

#include <gtest/gtest.h>

#include "tests/unit/effects.h"

namespace muster::host {
namespace {

using Answer = GpuRelease::Answer;

constexpr absl::Duration kLimit = absl::Seconds(30);

class GpuReleaseTest : public ::testing::Test {
 protected:
  void Begin(bool driver_pids) {
    gpus_.emplace(kLimit, driver_pids);
    gpus_->OnRoundOver();
    gpus_->Begin(now_, &effects_);
  }
  Answer Users(const GpuUsers& users) { return gpus_->OnUsers(now_, users, &held_, &effects_); }
  size_t Questions() const { return AllOf<AskGpus>(effects_).size(); }
  size_t Notes() const { return AllOf<Note>(effects_).size(); }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  std::optional<GpuRelease> gpus_;
  Effects effects_;
  std::string held_;
};

TEST_F(GpuReleaseTest, WithoutALimitNothingIsChecked) {
  GpuRelease gpus(absl::ZeroDuration(), true);
  gpus.OnRoundOver();
  EXPECT_FALSE(gpus.may_be_held());
}

TEST_F(GpuReleaseTest, TheyMayBeHeldOnlyAfterARound) {
  EXPECT_FALSE(GpuRelease(kLimit, true).may_be_held());
  Begin(true);
  EXPECT_TRUE(gpus_->may_be_held());
  EXPECT_EQ(Users({}), Answer::kFree);
  EXPECT_FALSE(gpus_->may_be_held());
}

TEST_F(GpuReleaseTest, TheQuestionIsRepeatedAfterAnAnswer) {
  Begin(true);
  gpus_->OnTick(now_ + kLimit, &effects_);
  EXPECT_EQ(Questions(), 1u) << "an answer is pending";
  EXPECT_EQ(Users({.old_workers = {71}}), Answer::kAwaited);
  gpus_->OnTick(now_, &effects_);
  EXPECT_EQ(Questions(), 1u);
  gpus_->OnTick(now_ + kGpuPoll, &effects_);
  EXPECT_EQ(Questions(), 2u);
}

TEST_F(GpuReleaseTest, OldWorkersHoldThemUntilTheLimit) {
  Begin(true);
  now_ += kLimit - absl::Nanoseconds(1);
  EXPECT_EQ(Users({.old_workers = {71, 72}}), Answer::kAwaited);
  now_ += absl::Nanoseconds(1);
  EXPECT_EQ(Users({.old_workers = {71, 72}}), Answer::kHeld);
  EXPECT_EQ(held_, "pids 71, 72");
  EXPECT_TRUE(gpus_->may_be_held()) << "the next attempt asks again";
}

TEST_F(GpuReleaseTest, ProcessesOfOthersHoldNothingOfOurs) {
  Begin(true);
  EXPECT_EQ(Users({.others = {5}}), Answer::kFree);
}

TEST_F(GpuReleaseTest, InAPidNamespaceAnyProcessMayBeAWorker) {
  Begin(false);
  EXPECT_EQ(Users({.others = {5}}), Answer::kAwaited);
  now_ += kUnknownGpuUsers;
  EXPECT_EQ(Users({.others = {5}}), Answer::kFree) << "it belongs to another job";
  EXPECT_EQ(Notes(), 1u);
  gpus_->OnRoundOver();
  gpus_->Begin(now_, &effects_);
  EXPECT_EQ(Users({.others = {5}}), Answer::kFree) << "it is not waited for again";
  EXPECT_EQ(Users({.others = {5, 6}}), Answer::kAwaited);
}

TEST_F(GpuReleaseTest, AnUnreadableListCountsAsFree) {
  Begin(true);
  EXPECT_EQ(Users({.trouble = "no such tool", .old_workers = {71}}), Answer::kFree);
  EXPECT_EQ(Users({.trouble = "no such tool"}), Answer::kFree);
  EXPECT_EQ(Notes(), 1u) << "the warning is given once";
}

}  // namespace
}  // namespace muster::host
