// --hang-timeout auto accuses no job whose silences have a heavy tail: the clocks of its nodes and the judgement
// of its coordinator, over half a day of each of a thousand jobs.
//
// What is assumed of a job: each of its silences is shorter than half an hour, or than ten times the longest that
// the warm job has come back from. In numbers:
//  - a step takes 10 s in the median (lognormal, sigma 1), and rank 0 prints a line after it; nobody else prints;
//  - every half hour a checkpoint is silent for a minute or more (Pareto, shape 1.2), but for 25 minutes at most;
//  - every 90 minutes there is an evaluation: at first 5 to 25 minutes, and each one up to 9 times as long as the
//  last;
//  - after half of its time the job is restarted; the imports of the new round take 10 minutes, and its first
//    evaluation comes after 90 minutes: what a round is silent for before it is warm teaches nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "agent/host/core/idle_clock.h"
#include "base/stacks/warm_up.h"
#include "rendezvous/core/hang.h"
#include "rendezvous/core/stall.h"

namespace muster::simulation {
namespace {

constexpr int kJobs = 1000;
constexpr absl::Duration kTick = host::kMaxCountedGap;  // the longest that counts in full
constexpr absl::Duration kJobTime = absl::Hours(12);
constexpr absl::Duration kImports = absl::Minutes(10);
constexpr absl::Duration kCheckpointEvery = absl::Minutes(30), kLongestCheckpoint = absl::Minutes(25);
constexpr absl::Duration kEvaluationEvery = absl::Minutes(90);
constexpr double kMostGrowth = 9;  // of evaluations; below kLearnedFactor
constexpr double kParetoShape = 1.2, kShortestCheckpointS = 60;

class SilentJob {
 public:
  explicit SilentJob(uint64_t seed)
      : random_(seed), evaluation_(absl::Seconds(std::uniform_real_distribution<double>(300, 1500)(random_))) {
    BeginRound();
  }

  // False: it was accused. Each phase is a silence.
  bool Run() {
    bool is_restarted = false;
    while (!accused_ && lasted() < kJobTime) {
      if (!is_restarted && lasted() > kJobTime / 2) {
        is_restarted = true;
        BeginRound();
        next_evaluation_ = lasted() + kEvaluationEvery;
        BeSilent(kImports);
      }
      BeSilent(NextPhase());
    }
    return !accused_;
  }

  // Then a sign of life of rank 0.
  void BeSilent(absl::Duration length) {
    longest_ = std::max(longest_, length);
    for (absl::Duration passed; passed < length; passed += kTick) {
      now_ += kTick;
      for (host::IdleClock& clock : clocks_) clock.OnTick(now_);
      Report();
    }
    clocks_[0].OnSigns(kRank0);
    Report();
  }

  bool is_accused() const { return accused_; }
  absl::Duration longest() const { return longest_; }

 private:
  absl::Duration lasted() const { return now_ - began_; }

  void BeginRound() {
    for (host::IdleClock& clock : clocks_) clock.BeginRound(now_, 1);
    hang_.BeginRound();
  }

  absl::Duration NextPhase() {
    if (lasted() > next_evaluation_) {
      const absl::Duration length = evaluation_;
      evaluation_ *= std::uniform_real_distribution<double>(1, kMostGrowth)(random_);
      next_evaluation_ = lasted() + length + kEvaluationEvery;
      return length;
    }
    if (lasted() > next_checkpoint_) {
      next_checkpoint_ = lasted() + kCheckpointEvery;
      const double rest = std::uniform_real_distribution<double>(0, 1)(random_);
      const double seconds = kShortestCheckpointS / std::pow(1 - rest, 1 / kParetoShape);
      return std::min(kLongestCheckpoint, absl::Seconds(seconds));
    }
    return absl::Seconds(std::lognormal_distribution<double>(std::log(10), 1)(random_));
  }

  void Report() {
    const auto quiet = std::min(clocks_[0].Silence(), clocks_[1].Silence());
    const int signs = std::max(clocks_[0].signs(), clocks_[1].signs());
    accused_ |= hang_.Judge(now_, {.time = quiet, .running = 2, .signs = signs}).value_or(false);
  }

  inline static const std::set<int> kRank0 = {0};

  std::mt19937_64 random_;
  absl::Duration evaluation_;  // the next one
  absl::Duration next_evaluation_ = kEvaluationEvery, next_checkpoint_ = kCheckpointEvery;
  const BootTime began_ = FromBootNanos(1'000'000'000);
  BootTime now_ = began_;
  std::vector<host::IdleClock> clocks_ =
      std::vector<host::IdleClock>(2, host::IdleClock(kLeastLearned / kWarmUpSigns));
  rendezvous::Hang hang_{rendezvous::StallJudge(std::nullopt), 0};
  bool accused_ = false;
  absl::Duration longest_ = absl::ZeroDuration();
};

TEST(LearnedTimeout, JobsWithHeavyTailsAreNotAccused) {
  absl::Duration longest;
  for (uint64_t seed = 1; seed <= kJobs; ++seed) {
    SilentJob job(seed);
    ASSERT_TRUE(job.Run()) << "job " << seed << ", whose longest silence is " << job.longest();
    longest = std::max(longest, job.longest());
  }
  EXPECT_GT(longest, 10 * kLeastLearned) << "else nothing needs to be learned";
}

TEST(LearnedTimeout, AJobThatHangsIsAccusedInTheEnd) {
  SilentJob job(1);
  ASSERT_TRUE(job.Run());
  job.BeSilent(rendezvous::kLearnedFactor * job.longest() + kLeastLearned);
  EXPECT_TRUE(job.is_accused());
}

}  // namespace
}  // namespace muster::simulation
