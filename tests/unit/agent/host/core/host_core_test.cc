// The host core, step by step: starts, stops, the lease, agents.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/agent/host/core/host_core_fixture.h"

namespace muster::host {
namespace {

TEST_F(HostCoreTest, TheFirstAgentGetsTheConfiguration) {
  ASSERT_EQ(Took<StartAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>()[0].number, 1u);
  EXPECT_TRUE(Took<SendStatus>()[0].status.has_config());
}

TEST_F(HostCoreTest, ARoundIdIsStartedAtMostOnce) {
  Run(5);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Start(5);
  Start(4);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u);
  Start(6);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 2u);
}

TEST_F(HostCoreTest, NothingStartsWhileAnEarlierRoundLives) {
  Run(1);
  Exit(0, 3);
  Exit(1, 0);
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u) << "the sweep has not answered yet";
  core_.OnSwept(now_, "a process in D state", &effects_);
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u);
  Swept();
  Start(2);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 2u);
}

TEST_F(HostCoreTest, StartsNeedALeaseThatIsNotAboutToEnd) {
  v1::HostDirective directive = Directive(absl::Seconds(3));  // a third of the lease is 3.33 s
  *directive.mutable_start() = Round(1);
  Give(directive);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
}

// A coordinator that is not what it should be can give such an order with each heartbeat.
TEST_F(HostCoreTest, ARoundThatTheLeaseForbidsIsNamedOnce) {
  for (const uint64_t number : {1, 1, 1, 2}) {
    v1::HostDirective directive = Directive(absl::Seconds(3));
    *directive.mutable_start() = Round(number);
    Give(directive);
  }
  const std::vector<Note> notes = Took<Note>();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].text, notes[1].text);
  EXPECT_NE(notes[1].text.find("not started: the lease has ended"), std::string::npos);
}

TEST_F(HostCoreTest, AFailureStopsTheSiblingsAndIsReported) {
  Run(1);
  Forget();
  core_.OnExit(now_, 1, Ended(true, SIGSEGV), &effects_);
  ASSERT_EQ(Took<StopWorkers>().size(), 1u);
  EXPECT_EQ(Took<StopWorkers>()[0].signal, SIGTERM);
  EXPECT_EQ(LastStatus().failure().rank(), 3);
  EXPECT_EQ(LastStatus().failure().signal(), SIGSEGV);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  Exit(0, 15);
  EXPECT_EQ(LastStatus().failure().rank(), 3) << "the sibling's end is an echo of our own stop";
}

TEST_F(HostCoreTest, AnExitAfterOurSignalIsNoSuccess) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_grace_ms(5000);
  Give(directive);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_STOPPED);
}

TEST_F(HostCoreTest, SuccessNeedsEveryWorkerToHaveExitedZero) {
  Run(1);
  Exit(0, 0);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_RUNNING);
  Exit(1, 0);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

TEST_F(HostCoreTest, WorkersThatOutliveTheGraceAreKilled) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_grace_ms(2000);
  Give(directive);
  Pass(absl::Milliseconds(1900));
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(absl::Milliseconds(300));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, AProcessSurvivingSigkillMakesTheNodeUnusable) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_stop()->set_grace_ms(0);
  Give(directive);
  Pass(kStuckAfterKill + absl::Seconds(1));
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  EXPECT_FALSE(LastStatus().trouble().empty());
}

TEST_F(HostCoreTest, SurvivorsOfSigkillKeepTheHostAliveAtLeaseEnd) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(0);
  Give(stop);
  Pass(kStuckAfterKill - absl::Seconds(1));
  Pass(absl::Seconds(2), true, false);
  ASSERT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  EXPECT_FALSE(Took<SetKernelTimer>().back().at.has_value());
  Pass(absl::Seconds(1));
  EXPECT_FALSE(Took<SetKernelTimer>().back().at.has_value()) << "a later grant sets it again";
  Pass(2 * kLease, true, false);
  EXPECT_FALSE(Took<SetKernelTimer>().back().at.has_value());
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  v1::HostDirective end = Directive();
  end.mutable_exit()->set_exit_code(7);
  Give(end);
  Pass(absl::Seconds(5));
  ASSERT_EQ(Took<Finish>().size(), 1u);
  EXPECT_EQ(Took<Finish>().back().exit_code, 7);
}

TEST_F(HostCoreTest, SurvivorsOfSigkillAfterASuccessAreLoggedOnce) {
  Run(1);
  Exit(0, 0);
  Exit(1, 0);
  core_.OnSwept(now_, "a process in D state", &effects_);
  Pass(kStuckAfterKill + absl::Seconds(1));
  ASSERT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(1000);
  Give(stop);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  Forget();
  Pass(2 * kLease, true, false);
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_STUCK);
  EXPECT_TRUE(Took<Note>().empty());
  EXPECT_TRUE(Took<SetKernelTimer>().empty());
}

TEST_F(HostCoreTest, AnEmptySweepIsRepeatedAfterTheLastExit) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_cause("test");
  Give(stop);  // no grace at all
  core_.OnTick(now_, &effects_);
  ASSERT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  Exit(0, 9);
  Exit(1, 9);
  ASSERT_EQ(Took<Sweep>().size(), 2u);
  Swept();
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

TEST_F(HostCoreTest, WithoutRenewalWorkersEndBeforeTheLease) {
  Run(1);
  const BootTime deadline = now_ + kLease;
  Forget();
  while (Took<StopWorkers>().empty() && now_ < deadline) Pass(kTick, true, false);
  EXPECT_LE(now_, deadline - kLease / 10);
  EXPECT_GE(now_, deadline - kLease / 2);
  while (Took<Sweep>().empty() && now_ < deadline) Pass(kTick, true, false);
  EXPECT_LE(now_, deadline) << "SIGKILL comes before the end of the lease";
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_LEASE_ENDED);
}

TEST_F(HostCoreTest, ALongGraceLastsWhileTheLeaseIsRenewed) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(20'000);
  Give(stop);
  Pass(absl::Seconds(19));
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, ALaterGrantDoesNotUndoAStop) {
  Run(1);
  const BootTime deadline = now_ + kLease;
  while (Took<StopWorkers>().empty() && now_ < deadline) Pass(kTick, true, false);
  Pass(absl::Seconds(4), true, true);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(HostCoreTest, TheLeaseNeverShrinks) {
  Run(1);
  const BootTime before = core_.lease_deadline();
  Give(Directive(absl::Seconds(1)));
  EXPECT_EQ(core_.lease_deadline(), before);
}

TEST_F(HostCoreTest, TheKernelTimerIsArmedOnlyWithWorkers) {
  EXPECT_TRUE(Took<SetKernelTimer>().empty());
  Run(1);
  ASSERT_FALSE(Took<SetKernelTimer>().empty());
  EXPECT_EQ(Took<SetKernelTimer>().back().at, core_.lease_deadline());
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_FALSE(Took<SetKernelTimer>().back().at.has_value());
}

TEST_F(HostCoreTest, ADeadAgentIsReplacedWithItsMemory) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_memory()->mutable_applied()->set_seq(77);
  Give(directive);
  Forget();
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_EQ(Took<StartAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>()[0].number, 2u);
  EXPECT_EQ(LastStatus().memory().applied().seq(), 77u);
  EXPECT_TRUE(LastStatus().has_config());
  EXPECT_TRUE(Took<StopWorkers>().empty());
}

TEST_F(HostCoreTest, OnlyTheNewestAgentIsObeyed) {
  core_.OnAgentClosed(now_, 1, &effects_);
  v1::HostDirective stale = Directive();
  stale.set_agent_number(1);
  *stale.mutable_start() = Round(1);
  Give(stale);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
}

TEST_F(HostCoreTest, ASilentAgentIsReplacedAndItsWorkersEnd) {
  Run(1);
  Forget();
  Pass(kLease / 2 + absl::Seconds(1), false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>().size(), 1u);
  EXPECT_FALSE(Took<StopWorkers>().empty());
}

// Before its first message an agent may look up the primary's name for 2 s.
TEST_F(HostCoreTest, AgentSilenceCountsFromItsFirstMessage) {
  HostOptions options = Options(false);
  options.config.set_lease_ms(2000);
  HostCore core(options);
  Effects effects;
  BootTime now = now_;
  const auto pass = [&](absl::Duration duration) {
    for (const BootTime until = now + duration; now < until;) core.OnTick(now += kTick, &effects);
  };
  core.Begin(now, &effects);
  pass(absl::Seconds(5));
  EXPECT_TRUE(AllOf<KillAgent>(effects).empty());
  v1::HostDirective word;
  word.set_agent_number(1);
  word.set_seq(1);
  word.set_hold(true);
  core.OnDirective(now, word, &effects);
  pass(absl::Milliseconds(1200));
  EXPECT_EQ(AllOf<KillAgent>(effects).size(), 1u);
}

TEST_F(HostCoreTest, AgentsThatNeverSpeakExit70AfterTheTimeout) {
  Forget();
  Pass(kFirstWordLimit + absl::Seconds(1), false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
  EXPECT_EQ(Took<StartAgent>().size(), 1u);
  Pass(kCoordinatorTimeout + 2 * kFirstWordLimit, false);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>().back().exit_code, 70);
  EXPECT_NE(Took<Finish>().back().reason.find("no agent has responded for 5m"), std::string::npos);
}

TEST_F(HostCoreTest, APauseOfHostAndAgentIsNoSilence) {
  Run(1);
  Forget();
  now_ += kLease / 2 + absl::Seconds(1);  // no tick ran meanwhile
  core_.OnTick(now_, &effects_);
  EXPECT_TRUE(Took<KillAgent>().empty());
}

TEST_F(HostCoreTest, RepeatedAgentDeathsExit70) {
  for (uint64_t i = 1; i < 10; ++i) core_.OnAgentClosed(now_, i, &effects_);
  ASSERT_TRUE(core_.finished() || !Took<Finish>().empty() || (Pass(absl::Seconds(3), false), core_.finished()));
  EXPECT_EQ(Took<Finish>().back().exit_code, 70);
}

TEST_F(HostCoreTest, StartingAnAgentIsRetriedForALimitedTime) {
  core_.OnAgentClosed(now_, 1, &effects_);
  const BootTime began = now_;
  int tries = 0;
  while (!core_.finished() && now_ < began + 2 * kCoordinatorTimeout) {
    const bool started = !Took<StartAgent>().empty();
    Forget();
    if (started) {
      ++tries;
      core_.OnAgentFailed(now_, core_.agent_number(), "no process", &effects_);
      EXPECT_TRUE(Took<StartAgent>().empty()) << "the machine is short of something: not at once";
    }
    Pass(kTick, false);
  }
  ASSERT_TRUE(core_.finished());
  EXPECT_GT(tries, 10);
  EXPECT_GE(now_ - began, kCoordinatorTimeout);
  EXPECT_EQ(Took<Finish>().back().exit_code, 70);
  EXPECT_NE(Took<Finish>().back().reason.find("no process"), std::string::npos);
}

TEST_F(HostCoreTest, ReservingAPortIsRetried) {
  core_.OnOffer(now_, 0, &effects_);
  Forget();
  Pass(kOfferRetry + absl::Seconds(1));
  ASSERT_EQ(Took<RenewOffer>().size(), 1u);
  core_.OnOffer(now_, 4001, &effects_);
  Pass(2 * kOfferRetry);
  EXPECT_EQ(Took<RenewOffer>().size(), 1u);
  EXPECT_EQ(LastStatus().offer_port(), 4001u);
}

TEST_F(HostCoreTest, ARoundIsOverWhenTheSweepFindsNothing) {
  Run(1);
  Exit(0, 0);
  Exit(1, 0);
  core_.OnSwept(now_, "a process of its workers", &effects_);
  EXPECT_NE(core_.phase(), v1::HOST_PHASE_IDLE);
  Swept();
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

// The STOP comes while the workers' leftovers are being ended.
TEST_F(HostCoreTest, AStopAfterSuccessLeavesItASuccess) {
  Run(1);
  Exit(0, 0);
  Exit(1, 0);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_cause("test");
  Give(stop);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
}

TEST_F(HostCoreTest, ASecondStopMayShortenTheGrace) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(20'000);
  Give(stop);
  Pass(absl::Seconds(1));
  EXPECT_TRUE(Took<Sweep>().empty());
  v1::HostDirective sooner = Directive();
  sooner.mutable_stop()->set_grace_ms(2'000);
  Give(sooner);
  Pass(absl::Seconds(3));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

// The port served the master or a worker; the next round gets another one.
TEST_F(HostCoreTest, APortIsOfferedForOneRoundOnly) {
  Run(1);
  Exit(0, 0);
  Exit(1, 0);
  Forget();
  Swept();
  EXPECT_EQ(LastStatus().offer_port(), 0u);
  EXPECT_EQ(Took<RenewOffer>().size(), 1u);
}

}  // namespace
}  // namespace muster::host
