// The host core between rounds: the preflight, GPUs that old workers hold, and when this node is ready again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/core/host_core.h"
#include "base/wire/takeover.h"
#include "tests/unit/effects.h"

namespace muster::host {
namespace {

constexpr absl::Duration kPreflightTimeout = absl::Seconds(60);
constexpr absl::Duration kGpuTimeout = absl::Seconds(30);

class PreparingTest : public ::testing::Test {
 protected:
  void Begin(bool preflight, bool gpus = false, bool driver_pids = true) {
    HostOptions options;
    options.host_id = "h";
    options.config.set_slots(1);
    options.config.set_hostname("n0");
    options.config.set_lease_ms(10'000);
    options.config.set_shutdown_grace_ms(30'000);
    options.config.set_coordinator_timeout_ms(300'000);
    if (preflight) options.preflight_timeout = kPreflightTimeout;
    if (gpus) options.gpu_release_timeout = kGpuTimeout;
    options.driver_pids = driver_pids;
    core_.emplace(options);
    core_->Begin(now_, &effects_);
  }

  v1::HostDirective Directive() {
    v1::HostDirective directive;
    directive.set_agent_number(core_->agent_number());
    directive.set_seq(++seq_);
    directive.set_lease_deadline_boot_ns(ToBootNanos(now_ + absl::Seconds(10)));
    directive.set_hold(true);
    *directive.mutable_memory() = memory_;
    return directive;
  }
  void Give(const v1::HostDirective& directive) { core_->OnDirective(now_, directive, &effects_); }

  // Round `number` starts, and its worker executes.
  void StartRound(uint64_t number) {
    v1::HostDirective directive = Directive();
    directive.mutable_start()->mutable_id()->set_number(number);
    Give(directive);
    core_->OnExecuting(now_, 0, &effects_);
  }
  // The same, and its worker exits with `code`.
  void RunAndEnd(uint64_t number, int code) {
    StartRound(number);
    core_->OnExit(now_, 0, Code(code), &effects_);
    Swept();
  }
  void StopOf(uint64_t number) {
    memory_.mutable_stopped()->set_number(number);
    v1::HostDirective directive = Directive();
    directive.mutable_stop()->set_cause("a worker failed");
    Give(directive);
  }
  void Pass(absl::Duration duration) {
    const BootTime until = now_ + duration;
    while (now_ < until) {
      now_ += kTick;
      Give(Directive());
      core_->OnTick(now_, &effects_);
    }
  }

  static Ending Code(int code) { return Ending{.number = code}; }
  void Swept(const std::string& left = "", const std::string& last_line = "") {
    core_->OnSwept(now_, left, &effects_);
    if (!left.empty()) return;
    core_->OnRoundOutput(now_, "", &effects_);  // only one of them is awaited
    core_->OnCheckOutput(now_, last_line, &effects_);
  }
  void PreflightEnds(int code, const std::string& line = "") {
    core_->OnCheckEnded(now_, Code(code), &effects_);
    Swept("", line);
  }
  void GpusOf(std::set<int64_t> old, std::set<int64_t> others = {}) {
    core_->OnGpuUsers(now_, {.old_workers = std::move(old), .others = std::move(others)}, &effects_);
  }

  template <typename T>
  int Count() const {
    int count = 0;
    for (const Effect& effect : effects_) count += std::holds_alternative<T>(effect) ? 1 : 0;
    return count;
  }
  v1::HostStatus Status() {
    Pass(kBeat);
    for (auto it = effects_.rbegin(); it != effects_.rend(); ++it) {
      if (const auto* sent = std::get_if<SendStatus>(&*it)) return sent->status;
    }
    return {};
  }
  int Warnings() const {
    int count = 0;
    for (const Effect& effect : effects_) {
      const Note* note = std::get_if<Note>(&effect);
      count += note != nullptr && note->severity == Severity::kWarning ? 1 : 0;
    }
    return count;
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  std::optional<HostCore> core_;
  Effects effects_;
  v1::Memory memory_;
  uint64_t seq_ = 0;
};

TEST_F(PreparingTest, WithoutAPreflightTheNodeIsReadyAtOnce) {
  Begin(false);
  EXPECT_EQ(Count<RenewOffer>(), 1);
  RunAndEnd(1, 3);
  EXPECT_EQ(Count<RenewOffer>(), 2);
  EXPECT_EQ(Count<StartCheck>() + Count<AskGpus>(), 0);
}

TEST_F(PreparingTest, ReadyOncePreflightPassedAndIsGone) {
  Begin(true);
  EXPECT_EQ(Count<StartCheck>(), 1);
  EXPECT_EQ(Status().preparing(), "its preflight runs, for up to 1m (--preflight-timeout)");
  core_->OnCheckEnded(now_, Code(0), &effects_);
  EXPECT_EQ(Count<Sweep>(), 1);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Count<RenewOffer>(), 0) << "its leftovers still live";
  Swept();
  EXPECT_EQ(Count<RenewOffer>(), 1);
  EXPECT_EQ(Status().preparing(), "");
  EXPECT_FALSE(Status().unfit());
}

// The report has the exit code and the last line of output; the pauses between retries grow.
TEST_F(PreparingTest, AFailedPreflightIsReportedAndRetried) {
  Begin(true);
  PreflightEnds(3, "no such GPU");
  EXPECT_TRUE(Status().unfit());
  EXPECT_EQ(Status().trouble(), "preflight failed on n0: exit code 3: no such GPU");
  EXPECT_EQ(Count<RenewOffer>(), 0);
  Pass(kUnfitRetry);
  EXPECT_EQ(Count<StartCheck>(), 2);
  PreflightEnds(3);
  Pass(kUnfitRetry);
  EXPECT_EQ(Count<StartCheck>(), 2);
  EXPECT_TRUE(Status().unfit());
  Pass(kUnfitRetry);
  EXPECT_EQ(Count<StartCheck>(), 3);
  EXPECT_TRUE(Status().unfit()) << "until it has passed";
  PreflightEnds(0);
  EXPECT_FALSE(Status().unfit());
  EXPECT_EQ(Count<RenewOffer>(), 1);
}

TEST_F(PreparingTest, AnUnprintableLastLineIsLeftOut) {
  Begin(true);
  PreflightEnds(1, std::string(300, '\0') + " \t");
  EXPECT_EQ(Status().trouble(), "preflight failed on n0: exit code 1");
}

TEST_F(PreparingTest, APreflightWithoutAProcessHasNoExitCode) {
  Begin(true);
  core_->OnCheckEnded(now_, Ending{.number = 70, .error_text = "starting a process: no"}, &effects_);
  Swept();
  EXPECT_EQ(Status().trouble(), "preflight failed on n0: it could not be started: starting a process: no");
}

TEST_F(PreparingTest, APreflightOverItsTimeLimitFails) {
  Begin(true);
  Pass(kPreflightTimeout - kTick);
  EXPECT_EQ(Count<Sweep>(), 0);
  Pass(kTick);
  EXPECT_EQ(Count<Sweep>(), 1);
  core_->OnCheckEnded(now_, Ending{.by_signal = true, .number = 9}, &effects_);
  Swept();
  EXPECT_EQ(Status().trouble(), "preflight failed on n0: timed out after 1m (--preflight-timeout)");
}

TEST_F(PreparingTest, UnkillableLeftoversMakeTheNodeUnfit) {
  Begin(true);
  core_->OnCheckEnded(now_, Code(0), &effects_);
  Swept("pid 7");
  EXPECT_FALSE(Status().unfit());
  Pass(kStuckAfterKill);
  Swept("pid 7");
  EXPECT_TRUE(Status().unfit());
  EXPECT_EQ(Status().trouble(), "processes that the preflight left on n0 survive SIGKILL: pid 7");
  Swept();
  EXPECT_FALSE(Status().unfit());
  EXPECT_EQ(Count<RenewOffer>(), 1);
}

TEST_F(PreparingTest, ItRunsOnceTheCoordinatorEndedTheLastRound) {
  Begin(true);
  PreflightEnds(0);
  RunAndEnd(1, 3);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Count<StartCheck>(), 1) << "the job may be over";
  StopOf(1);
  EXPECT_EQ(Count<StartCheck>(), 2);
  EXPECT_EQ(Count<RenewOffer>(), 1);
  PreflightEnds(0);
  EXPECT_EQ(Count<RenewOffer>(), 2);
}

// The node was disconnected and missed the STOP.
TEST_F(PreparingTest, ALaterRoundEndsTheEarlierWithoutAStop) {
  Begin(true);
  PreflightEnds(0);
  RunAndEnd(1, 3);
  memory_.mutable_last()->mutable_id()->set_number(1);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Count<StartCheck>(), 1);
  memory_.mutable_last()->mutable_id()->set_number(2);
  Give(Directive());
  EXPECT_EQ(Count<StartCheck>(), 2);
  PreflightEnds(0);
  EXPECT_EQ(Count<RenewOffer>(), 2);
}

TEST_F(PreparingTest, NoRoundStartsDuringAPreflight) {
  Begin(true);
  v1::HostDirective directive = Directive();
  directive.mutable_start()->mutable_id()->set_number(1);
  Give(directive);
  EXPECT_EQ(Count<SpawnWorkers>(), 0);
}

TEST_F(PreparingTest, LeavingEndsThePreflightFirst) {
  Begin(true);
  core_->OnSignal(now_, 15, &effects_);
  EXPECT_EQ(Count<Sweep>(), 1);
  Pass(2 * kLeaveReportLimit);
  EXPECT_FALSE(core_->finished()) << "it lives";
  core_->OnCheckEnded(now_, Ending{.by_signal = true, .number = 9}, &effects_);
  Swept();
  EXPECT_TRUE(core_->finished());
  EXPECT_EQ(Warnings(), 0) << "it has not failed";
}

TEST_F(PreparingTest, TheVerdictEndsAPreflight) {
  Begin(true);
  memory_.mutable_verdict()->set_exit_code(69);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_cause("the verdict");
  Give(directive);
  EXPECT_EQ(Count<Sweep>(), 1);
  Swept();
  Pass(absl::Minutes(10));
  EXPECT_EQ(Count<StartCheck>(), 1);
}

TEST_F(PreparingTest, GpusAreAskedUntilNoOldWorkerHoldsOne) {
  Begin(false, true);
  EXPECT_EQ(Count<AskGpus>(), 0) << "there are no old workers yet";
  RunAndEnd(1, 3);
  StopOf(1);
  ASSERT_EQ(Count<AskGpus>(), 1);
  GpusOf({71}, {5});
  Pass(kGpuPoll);
  ASSERT_EQ(Count<AskGpus>(), 2);
  EXPECT_EQ(Status().preparing(),
            "workers of its last round may still hold its GPUs; waiting up to 30s (--gpu-release-timeout)");
  EXPECT_EQ(Count<AskGpus>(), 2) << "one question at a time";
  GpusOf({}, {5});
  EXPECT_EQ(Count<RenewOffer>(), 2) << "processes of others are ignored";
}

TEST_F(PreparingTest, GpusStillHeldMakeTheNodeUnfit) {
  Begin(false, true);
  RunAndEnd(1, 3);
  StopOf(1);
  GpusOf({71});
  Pass(kGpuTimeout);
  GpusOf({71});
  EXPECT_TRUE(Status().unfit());
  EXPECT_EQ(Status().trouble(),
            "GPUs of n0 are still held by exited workers (pid 71) after 30s (--gpu-release-timeout)");
  Pass(kUnfitRetry);
  GpusOf({});
  EXPECT_FALSE(Status().unfit());
  EXPECT_EQ(Count<RenewOffer>(), 2);
}

TEST_F(PreparingTest, UnknownGpuUsersAreOneWarning) {
  Begin(false, true);
  for (uint64_t round = 1; round <= 2; ++round) {
    RunAndEnd(round, 0);
    StopOf(round);
    core_->OnGpuUsers(now_, {.trouble = "no such file"}, &effects_);
    EXPECT_EQ(Warnings(), 1) << "said at once";
  }
  EXPECT_EQ(Count<RenewOffer>(), 3);
  EXPECT_EQ(Warnings(), 1);
}

// Without comparable pids (a container) an unknown process on a GPU may be an old worker; one that stays beyond
// kUnknownGpuUsers counts as foreign.
TEST_F(PreparingTest, LastingGpuUsersBecomeStrangers) {
  Begin(false, true, false);
  RunAndEnd(1, 0);
  StopOf(1);
  GpusOf({}, {5});
  Pass(kGpuPoll);
  EXPECT_EQ(Count<AskGpus>(), 2) << "it may be an old worker";
  Pass(kUnknownGpuUsers);
  GpusOf({}, {5});
  EXPECT_EQ(Count<RenewOffer>(), 2);
  RunAndEnd(2, 0);
  StopOf(2);
  GpusOf({}, {5});
  EXPECT_EQ(Count<RenewOffer>(), 3) << "not waited for again";
  RunAndEnd(3, 0);
  StopOf(3);
  GpusOf({}, {5, 6});
  Pass(kUnknownGpuUsers);
  GpusOf({}, {5, 6});
  RunAndEnd(4, 0);
  StopOf(4);
  GpusOf({}, {5, 6});
  EXPECT_EQ(Count<RenewOffer>(), 5) << "neither of the two";
}

TEST_F(PreparingTest, ThePreflightComesAfterTheGpus) {
  Begin(true, true);
  PreflightEnds(0);
  RunAndEnd(1, 0);
  StopOf(1);
  EXPECT_EQ(Count<StartCheck>(), 1);
  GpusOf({});
  EXPECT_EQ(Count<StartCheck>(), 2);
}

// Whether a round's workers may hold GPUs is found out once; a preflight that fails does not raise the question.
TEST_F(PreparingTest, GpusAreNotAskedForAgainAfterAFailedPreflight) {
  Begin(true, true);
  PreflightEnds(0);
  RunAndEnd(1, 0);
  StopOf(1);
  GpusOf({});
  ASSERT_EQ(Count<AskGpus>(), 1);
  PreflightEnds(3);
  Pass(kUnfitRetry);
  EXPECT_EQ(Count<AskGpus>(), 1);
  EXPECT_EQ(Count<StartCheck>(), 3);
}

TEST_F(PreparingTest, AnUnansweredQuestionAboutGpusIsNotRepeated) {
  Begin(false, true);
  RunAndEnd(1, 3);
  StopOf(1);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Count<AskGpus>(), 1);
}

TEST_F(PreparingTest, AnAnswerThatNobodyAwaitsIsIgnored) {
  Begin(true, true);
  GpusOf({});
  EXPECT_EQ(Count<StartCheck>(), 1);
  PreflightEnds(0);
  core_->OnCheckEnded(now_, Code(3), &effects_);
  GpusOf({});
  Swept();
  EXPECT_EQ(Count<RenewOffer>(), 1);
  EXPECT_FALSE(Status().unfit());
}

TEST_F(PreparingTest, EachChangeOfFitnessIsReportedAtOnce) {
  Begin(true);
  EXPECT_EQ(Count<SendStatus>(), 2) << "the first status, and that the preflight runs";
  core_->OnCheckEnded(now_, Code(3), &effects_);
  Swept();
  EXPECT_EQ(Count<SendStatus>(), 3) << "it has failed";
}

TEST_F(PreparingTest, UnkillableLeftoversAreReportedOnceAndAtOnce) {
  Begin(true);
  core_->OnCheckEnded(now_, Code(0), &effects_);
  Pass(kStuckAfterKill);
  const int before = Count<SendStatus>();
  Swept("pid 7");
  EXPECT_EQ(Count<SendStatus>(), before);
  now_ += kTick;
  Swept("pid 7");
  Swept("pid 7");
  EXPECT_EQ(Count<SendStatus>(), before + 1);
  int errors = 0;
  for (const Effect& effect : effects_) {
    const Note* note = std::get_if<Note>(&effect);
    errors += note != nullptr && note->severity == Severity::kError ? 1 : 0;
  }
  EXPECT_EQ(errors, 1);
}

TEST_F(PreparingTest, ASuccessEndsTheLongPausesBetweenAttempts) {
  Begin(true);
  PreflightEnds(3);
  Pass(kUnfitRetry);
  PreflightEnds(3);
  Pass(2 * kUnfitRetry);
  PreflightEnds(0);
  RunAndEnd(1, 3);
  StopOf(1);
  ASSERT_EQ(Count<StartCheck>(), 4);
  PreflightEnds(3);
  Pass(kUnfitRetry - kTick);
  EXPECT_EQ(Count<StartCheck>(), 4);
  Pass(kTick);
  EXPECT_EQ(Count<StartCheck>(), 5) << "the first pause again";
}

TEST_F(PreparingTest, AnAttemptForgetsTheOneBefore) {
  Begin(true);
  PreflightEnds(3, "no such GPU");
  Pass(kUnfitRetry);
  Pass(kPreflightTimeout);
  Swept();
  EXPECT_EQ(Status().trouble(), "preflight failed on n0: timed out after 1m (--preflight-timeout)");
}

TEST_F(PreparingTest, OnlyANodeThatWasUnfitIsUsableAgain) {
  const auto said = [this] {
    int count = 0;
    for (const Effect& effect : effects_) {
      const Note* note = std::get_if<Note>(&effect);
      count += note != nullptr && note->text == "this node is usable again" ? 1 : 0;
    }
    return count;
  };
  Begin(true);
  PreflightEnds(0);
  EXPECT_EQ(said(), 0);
  RunAndEnd(1, 3);
  StopOf(1);
  PreflightEnds(3);
  Pass(kUnfitRetry);
  PreflightEnds(0);
  EXPECT_EQ(said(), 1);
}

TEST_F(PreparingTest, NothingIsCheckedForAnEndedJob) {
  Begin(true);
  PreflightEnds(0);
  memory_.mutable_verdict()->set_exit_code(3);
  RunAndEnd(1, 3);
  StopOf(1);
  Pass(absl::Minutes(1));
  EXPECT_EQ(Count<StartCheck>(), 1);
}

TEST_F(PreparingTest, ALeavingNodeChecksNothing) {
  Begin(true);
  PreflightEnds(0);
  StartRound(1);
  core_->OnSignal(now_, 15, &effects_);
  core_->OnExit(now_, 0, Code(0), &effects_);
  Swept();
  StopOf(1);
  Pass(2 * kLeaveReportLimit);
  EXPECT_EQ(Count<StartCheck>(), 1);
  EXPECT_TRUE(core_->finished());
}

// Stuck leftovers of a preflight are not waited for.
TEST_F(PreparingTest, AnEndingNodeAwaitsItsPreflightForALimitedTime) {
  Begin(true);
  core_->OnSignal(now_, 15, &effects_);
  Pass(kStuckAfterKill);
  EXPECT_FALSE(core_->finished());
  Swept("pid 7");
  Pass(kTick);
  EXPECT_TRUE(core_->finished());
  EXPECT_FALSE(Status().unfit()) << "whatever it left, the node ends";
}

TEST_F(PreparingTest, AnEndingNodeDoesNotAwaitItsGpus) {
  Begin(false, true);
  RunAndEnd(1, 3);
  StopOf(1);
  core_->OnSignal(now_, 15, &effects_);
  GpusOf({});
  Pass(kLeaveReportLimit);
  EXPECT_TRUE(core_->finished());
  EXPECT_EQ(Count<RenewOffer>(), 1);
}

TEST_F(PreparingTest, ASignalIsNamedInTheReason) {
  Begin(true);
  core_->OnCheckEnded(now_, Ending{.by_signal = true, .number = 11}, &effects_);
  Swept();
  EXPECT_EQ(Status().trouble(), "preflight failed on n0: killed by signal 11 (SIGSEGV)");
  Pass(kUnfitRetry);
  core_->OnCheckEnded(now_, Ending{.number = 127, .error_text = "no such file"}, &effects_);
  Swept();
  EXPECT_EQ(Status().trouble(), "preflight failed on n0: exit code 127: no such file");
}

TEST_F(PreparingTest, ARoundThatWasStoppedNeedsNoFurtherOrder) {
  Begin(true);
  PreflightEnds(0);
  StartRound(1);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_cause("cut off");
  Give(directive);
  core_->OnExit(now_, 0, Code(0), &effects_);
  Swept();
  EXPECT_EQ(Count<StartCheck>(), 2) << "neither failed nor succeeded";
}

TEST_F(PreparingTest, ASucceededRoundAwaitsItsEnd) {
  Begin(true);
  PreflightEnds(0);
  RunAndEnd(1, 0);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Count<StartCheck>(), 1);
}

TEST_F(PreparingTest, AnAttemptNeedsNoMessageOfTheAgent) {
  Begin(true);
  PreflightEnds(3);
  for (const BootTime until = now_ + kUnfitRetry; now_ < until;) core_->OnTick(now_ += kTick, &effects_);
  EXPECT_EQ(Count<StartCheck>(), 2);
  EXPECT_TRUE(Status().unfit());
  EXPECT_EQ(Status().preparing(), "") << "the reason is that it is unfit";
}

TEST_F(PreparingTest, AnExitingNodeMakesNoFurtherAttempt) {
  Begin(true);
  PreflightEnds(3);
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_linger_ms(60'000);
  Give(directive);
  Pass(2 * kUnfitRetry);
  EXPECT_EQ(Count<StartCheck>(), 1);
}

// ---- --preload ----------------------------------------------------------------------------------------------

class PreloadingTest : public PreparingTest {
 protected:
  void BeginWith(const std::vector<std::string>& modules, bool preflight, bool learns = false) {
    HostOptions options;
    options.host_id = "h";
    options.config.set_slots(1);
    options.config.set_lease_ms(10'000);
    options.config.set_coordinator_timeout_ms(300'000);
    if (preflight) options.preflight_timeout = kPreflightTimeout;
    options.preload.modules = modules;
    options.preload.learns = learns;
    core_.emplace(options);
    core_->Begin(now_, &effects_);
    Give(Directive());
  }
  v1::HostStatus Status() { return AllOf<SendStatus>(effects_).back().status; }
  std::vector<SpawnWorkers> Spawned() { return AllOf<SpawnWorkers>(effects_); }
  // How much earlier rank 0 runs in a round of this many forked workers.
  absl::Duration HeadStartIn(int world_size) {
    BeginWith({"torch"}, false);
    core_->OnOffer(now_, 1234, &effects_);
    core_->OnPreload(now_, {.kind = PreloadNews::kReady}, &effects_);
    v1::HostDirective directive = Directive();
    directive.mutable_start()->mutable_id()->set_number(1);
    directive.mutable_start()->set_world_size(world_size);
    Give(directive);
    return Spawned().at(0).head_start;
  }
};

TEST_F(PreloadingTest, ANodeOffersNoPortUntilItsModulesAreImported) {
  BeginWith({"torch"}, false);
  core_->OnOffer(now_, 1234, &effects_);
  EXPECT_EQ(AllOf<StartPreloader>(effects_).size(), 1u);
  EXPECT_EQ(Status().offer_port(), 0u);
  EXPECT_THAT(Status().preparing(), ::testing::HasSubstr("imports torch"));
  StartRound(1);
  EXPECT_TRUE(Spawned().empty()) << "a coordinator that did not know starts none either";
  core_->OnPreload(now_, {.kind = PreloadNews::kReady}, &effects_);
  EXPECT_EQ(Status().offer_port(), 1234u);
  EXPECT_EQ(Status().preparing(), "");
  StartRound(2);
  ASSERT_EQ(Spawned().size(), 1u);
  EXPECT_TRUE(Spawned()[0].forks);
  EXPECT_FALSE(Spawned()[0].learns) << "its modules are given";
}

TEST_F(PreloadingTest, WhatARoundImportsIsKeptForLaterJobsIfItSucceeds) {
  for (const int code : {0, 1}) {
    effects_.clear();
    seq_ = 0;
    BeginWith({}, false, true);
    core_->OnOffer(now_, 1234, &effects_);
    core_->OnPreload(now_, {.kind = PreloadNews::kReady}, &effects_);
    StartRound(1);
    EXPECT_TRUE(Spawned().at(0).learns);
    core_->OnPreload(now_, {.kind = PreloadNews::kForked}, &effects_);
    core_->OnExit(now_, 0, Code(code), &effects_);
    Swept();
    EXPECT_EQ(Count<ReadLearned>(), 1);
    core_->OnPreload(now_, {.kind = PreloadNews::kLearned, .names = {"torch"}}, &effects_);
    EXPECT_EQ(Count<KeepLearned>(), code == 0 ? 1 : 0) << "a round that failed may lack some";
  }
}

TEST_F(PreloadingTest, RankZeroHasAHeadStartBeforeOthers) { EXPECT_EQ(HeadStartIn(2), kRankZeroHeadStart); }

TEST_F(PreloadingTest, AloneItHasNone) { EXPECT_EQ(HeadStartIn(1), absl::ZeroDuration()); }

TEST_F(PreloadingTest, ItImportsOnlyOnceTheNodeIsFit) {
  BeginWith({"torch"}, true);
  EXPECT_TRUE(AllOf<StartPreloader>(effects_).empty()) << "a setup may install what is imported";
}

TEST_F(PreloadingTest, WithoutAReadyPreloaderWorkersStartNormally) {
  BeginWith({"torch"}, false);
  core_->OnOffer(now_, 1234, &effects_);
  core_->OnPreload(now_, {.kind = PreloadNews::kEnded, .why = "killed (SIGKILL)"}, &effects_);
  EXPECT_EQ(Status().offer_port(), 1234u);
  StartRound(1);
  ASSERT_EQ(Spawned().size(), 1u);
  EXPECT_FALSE(Spawned()[0].forks);
}

TEST_F(PreloadingTest, WithoutModulesNothingChanges) {
  BeginWith({}, false);
  core_->OnOffer(now_, 1234, &effects_);
  EXPECT_EQ(Status().offer_port(), 1234u);
  StartRound(1);
  ASSERT_EQ(Spawned().size(), 1u);
  EXPECT_FALSE(Spawned()[0].forks);
}

}  // namespace
}  // namespace muster::host
