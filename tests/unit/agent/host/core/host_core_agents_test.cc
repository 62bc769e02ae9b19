// The host core and its agents: which one it obeys, and when it starts another.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "base/exit_codes.h"
#include "base/wire/takeover.h"
#include "tests/unit/agent/host/core/host_core_fixture.h"

namespace muster::host {
namespace {

class LoneNodeTest : public HostCoreTest {
 protected:
  LoneNodeTest() : HostCoreTest(true) {}
};

TEST_F(HostCoreTest, TheFifthDeathWithinTheWindowEndsTheNode) {
  Run(1);
  for (uint64_t i = 1; i < kMaxAgentRestarts; ++i) core_.OnAgentClosed(now_, i, &effects_);
  EXPECT_EQ(Took<StartAgent>().size(), 5u);
  EXPECT_TRUE(Took<StopWorkers>().empty());
  core_.OnAgentClosed(now_, kMaxAgentRestarts, &effects_);
  EXPECT_EQ(Took<StartAgent>().size(), 5u);
  ASSERT_EQ(Took<StopWorkers>().size(), 1u);
  EXPECT_EQ(Took<StopWorkers>()[0].signal, SIGTERM);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Pass(absl::Seconds(2));
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 70);
  EXPECT_EQ(Took<Finish>()[0].origin, "muster");
  EXPECT_EQ(Took<Finish>()[0].reason, "the agent process died 5 times within 10s");
  EXPECT_EQ(Took<StartAgent>().size(), 5u);
  EXPECT_TRUE(Took<KillAgent>().empty()) << "there is none";
}

TEST_F(HostCoreTest, DeathsApartFromEachOtherDoNotAddUp) {
  for (uint64_t i = 1; i < 20; ++i) {
    core_.OnAgentClosed(now_, i, &effects_);
    now_ += kAgentRestartWindow / (kMaxAgentRestarts - 1) + kTick;
  }
  EXPECT_EQ(Took<StartAgent>().size(), 20u);
}

TEST_F(HostCoreTest, ADeathAtTheEndOfTheWindowStillCounts) {
  for (uint64_t i = 1; i < kMaxAgentRestarts; ++i) core_.OnAgentClosed(now_, i, &effects_);
  now_ += kAgentRestartWindow;
  core_.OnAgentClosed(now_, kMaxAgentRestarts, &effects_);
  EXPECT_EQ(Took<StartAgent>().size(), 5u);
}

TEST_F(HostCoreTest, OnlyASecondAgentIsLoggedAsTakingOver) {
  const auto said = [this] {
    int count = 0;
    for (const Note& note : Took<Note>()) count += note.text.find(" takes over") != std::string::npos ? 1 : 0;
    return count;
  };
  EXPECT_EQ(said(), 0);
  core_.OnAgentClosed(now_, 1, &effects_);
  EXPECT_EQ(said(), 1);
}

// Nothing runs that could go on without an agent: whoever started this host hears of it at once.
TEST_F(HostCoreTest, IfTheFirstAgentCannotBeStartedTheHostExits) {
  core_.OnAgentFailed(now_, 1, "no process", &effects_);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, kExitFault);
  EXPECT_EQ(Took<Finish>()[0].reason, "cannot start the first agent: no process");
}

TEST_F(HostCoreTest, AnAgentThatCannotBeStartedIsRetriedAfterAPause) {
  core_.OnAgentClosed(now_, 1, &effects_);
  Forget();
  core_.OnAgentFailed(now_, 7, "no process", &effects_);
  EXPECT_TRUE(Took<Note>().empty()) << "not the present one";
  core_.OnAgentFailed(now_, 2, "no process", &effects_);
  ASSERT_EQ(Took<Note>().size(), 1u);
  EXPECT_EQ(Took<Note>()[0].text, "cannot start an agent: no process");
  core_.OnAgentFailed(now_, 2, "no process", &effects_);
  core_.OnAgentClosed(now_, 2, &effects_);
  EXPECT_EQ(Took<Note>().size(), 1u) << "it is known";
  Forget();
  Pass(kAgentRetry - kTick, false);
  EXPECT_TRUE(Took<StartAgent>().empty());
  EXPECT_TRUE(Took<SendStatus>().empty()) << "nobody would receive it";
  Pass(kTick, false);
  EXPECT_EQ(Took<StartAgent>().size(), 1u);
  Pass(kAgentRetry, false);
  EXPECT_EQ(Took<StartAgent>().size(), 1u) << "it has started";
}

TEST_F(HostCoreTest, AgentsThatCannotBeStartedEndTheNodeAtTheTimeout) {
  core_.OnAgentClosed(now_, 1, &effects_);
  core_.OnAgentFailed(now_, 2, "no process", &effects_);
  const BootTime began = now_;
  while (!core_.finished() && Took<StopWorkers>().empty() && now_ < began + kCoordinatorTimeout - kAgentRetry) {
    Pass(kAgentRetry, false);
    core_.OnAgentFailed(now_, core_.agent_number(), "no process", &effects_);
  }
  EXPECT_FALSE(core_.finished());
  Pass(kAgentRetry, false);
  ASSERT_EQ(now_, began + kCoordinatorTimeout);
  core_.OnAgentFailed(now_, core_.agent_number(), "no process", &effects_);
  Pass(absl::Seconds(2), false);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].reason, "no agent could be started for 5m: no process");
}

// The failures do not add up: an agent spoke in between.
TEST_F(HostCoreTest, AnAgentsMessageResetsTheTimeout) {
  core_.OnAgentClosed(now_, 1, &effects_);
  core_.OnAgentFailed(now_, 2, "no process", &effects_);
  Pass(kAgentRetry, false);
  Give(Directive());
  Pass(kCoordinatorTimeout);
  core_.OnAgentFailed(now_, core_.agent_number(), "no process", &effects_);
  Pass(kAgentRetry, false);
  EXPECT_FALSE(core_.finished());
}

TEST_F(HostCoreTest, AnAgentIsSilentAfterHalfALease) {
  Give(Directive());
  Forget();
  Pass(kLease / 2 - kTick, false);
  EXPECT_TRUE(Took<KillAgent>().empty());
  Pass(kTick, false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
  EXPECT_TRUE(Took<StopWorkers>().empty()) << "there are no workers";
}

TEST_F(HostCoreTest, ANewAgentHasTimeForItsFirstMessage) {
  Give(Directive());
  core_.OnAgentClosed(now_, 1, &effects_);
  Forget();
  Pass(kFirstWordLimit - kTick, false);
  EXPECT_TRUE(Took<KillAgent>().empty());
  Pass(kTick, false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
}

TEST_F(HostCoreTest, WorkersOfASilentAgentHaveAThirdOfALease) {
  Run(1);
  Pass(kLease / 2, false);
  ASSERT_EQ(Took<StopWorkers>().size(), 1u);
  Pass(absl::Seconds(3), true);
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(absl::Milliseconds(400), true);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(LoneNodeTest, AnAgentIsSilentAfterItsOwnLimit) {
  Give(Directive());
  Forget();
  Pass(kLoneAgentSilence - kTick, false);
  EXPECT_TRUE(Took<KillAgent>().empty());
  Pass(kTick, false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
}

TEST_F(HostCoreTest, AnEndingHostStartsNoAgent) {
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(9);
  Give(directive);
  Forget();
  core_.OnAgentClosed(now_, 1, &effects_);
  EXPECT_TRUE(core_.finished());
  EXPECT_TRUE(Took<StartAgent>().empty());
  EXPECT_TRUE(Took<KillAgent>().empty()) << "it has ended";
}

TEST_F(HostCoreTest, ALeavingHostStartsNoAgentOnceItsWorkersHaveEnded) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  Forget();
  core_.OnAgentClosed(now_, 1, &effects_);
  EXPECT_TRUE(core_.finished());
  EXPECT_TRUE(Took<StartAgent>().empty());
}

TEST_F(HostCoreTest, ALeavingHostReplacesItsAgentWhileWorkersEnd) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  Forget();
  core_.OnAgentClosed(now_, 1, &effects_);
  EXPECT_EQ(Took<StartAgent>().size(), 1u);
}

// ---- a host whose agents come from a sidecar

class SplitHostTest : public HostCoreTest {
 protected:
  explicit SplitHostTest(bool single_node = false) : HostCoreTest(SplitOptions(single_node)) {}
  static HostOptions SplitOptions(bool single_node) {
    HostOptions options = Options(single_node);
    options.config.set_split(true);
    return options;
  }
  void Come() { core_.OnAgentCame(now_, &effects_); }
};

class LoneSplitHostTest : public SplitHostTest {
 protected:
  LoneSplitHostTest() : SplitHostTest(true) {}
};

TEST_F(SplitHostTest, ItStartsNoAgentAndTakesTheOneThatComes) {
  EXPECT_TRUE(Took<StartAgent>().empty());
  EXPECT_TRUE(Took<SendStatus>().empty());
  Come();
  ASSERT_EQ(Took<StartAgent>().size(), 1u);
  EXPECT_TRUE(LastStatus().has_config());
}

TEST_F(SplitHostTest, ALostAgentDisturbsNoWorkerHoweverOftenItHappens) {
  Come();
  Run(1);
  Forget();
  for (int i = 0; i < 4 * kMaxAgentRestarts; ++i) {
    core_.OnAgentClosed(now_, core_.agent_number(), &effects_);
    Pass(kLease / 4, false);
    Come();
    Give(Directive());
    EXPECT_TRUE(LastStatus().has_started()) << "the new agent learns what runs";
  }
  EXPECT_TRUE(Took<StopWorkers>().empty());
  EXPECT_FALSE(core_.finished());
}

TEST_F(SplitHostTest, TheLeaseEndsTheWorkersIfNoAgentReturns) {
  Come();
  Run(1);
  core_.OnAgentClosed(now_, 1, &effects_);
  Pass(kLease, false);
  EXPECT_FALSE(Took<StopWorkers>().empty());
}

TEST_F(SplitHostTest, WithoutASidecarItGivesUpAtTheCoordinatorTimeout) {
  Pass(kCoordinatorTimeout - kTick, false);
  EXPECT_FALSE(core_.finished());
  Pass(absl::Seconds(2), false);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, kExitUnavailable);
  EXPECT_EQ(Took<Finish>()[0].reason, "no agent from the sidecar has responded for 5m (--coordinator-timeout)");
}

TEST_F(LoneSplitHostTest, ItsWorkersNeedNoAgentBeforeTheyEnd) {
  Come();
  Run(1);
  core_.OnAgentClosed(now_, 1, &effects_);
  Forget();
  Pass(2 * kCoordinatorTimeout, false);
  EXPECT_TRUE(Took<StopWorkers>().empty());
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Pass(kCoordinatorTimeout / 2, false);
  EXPECT_FALSE(core_.finished()) << "it waits for the sidecar";
  Come();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
}

TEST_F(SplitHostTest, ASilentAgentLosesItsLink) {
  Come();
  Give(Directive());
  Forget();
  Pass(kLease / 2, false);
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
  EXPECT_TRUE(LastStatus().dismissed());
  EXPECT_TRUE(Took<StartAgent>().empty()) << "the sidecar brings the next one";
}

TEST_F(SplitHostTest, AHostThatHasToldItsEndTakesNoAgent) {
  Come();
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(9);
  directive.mutable_exit()->set_linger_ms(250);
  Give(directive);
  ASSERT_TRUE(LastStatus().flushed());
  Forget();
  Come();
  EXPECT_TRUE(effects_.empty());
  core_.OnAgentClosed(now_, 1, &effects_);
  Pass(absl::Seconds(2), false);
  ASSERT_TRUE(core_.finished());
  Forget();
  Come();
  EXPECT_TRUE(effects_.empty());
}

TEST_F(SplitHostTest, TheAgentThatIsReplacedIsTold) {
  Come();
  Forget();
  Come();
  ASSERT_EQ(effects_.size(), 4u);
  const auto* last = std::get_if<SendStatus>(&effects_[0]);
  ASSERT_NE(last, nullptr);
  EXPECT_TRUE(last->status.dismissed());
  EXPECT_EQ(last->status.agent_number(), 1u);
  EXPECT_FALSE(last->status.host_id().empty()) << "an agent obeys no status of another host";
  EXPECT_NE(std::get_if<StartAgent>(&effects_[1]), nullptr) << "after its last message";
}

TEST_F(SplitHostTest, TheSidecarHearsOfTheMemory) {
  Come();
  core_.OnMemoryUse(now_, {.used = 7, .limit = 9}, &effects_);
  Pass(absl::Seconds(1));
  EXPECT_EQ(LastStatus().memory_used(), 7u);
  EXPECT_EQ(LastStatus().memory_limit(), 9u);
}

// ---- the host's end

TEST_F(HostCoreTest, AnExitOrderStopsTheWorkersWithTheirGrace) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(9);
  directive.mutable_exit()->set_origin("worker");
  directive.mutable_exit()->set_reason("told");
  directive.mutable_exit()->mutable_verdict()->set_exit_code(9);
  directive.mutable_memory()->mutable_last()->mutable_id()->set_number(1);
  Give(directive);
  ASSERT_EQ(Took<StopWorkers>().size(), 1u);
  EXPECT_FALSE(LastStatus().flushed());
  Pass(kGrace - absl::Seconds(1));
  EXPECT_TRUE(Took<Sweep>().empty());
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  EXPECT_TRUE(LastStatus().flushed());
  EXPECT_FALSE(core_.finished()) << "the agent reports it first";
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_TRUE(core_.finished());
  const Finish finish = Took<Finish>().at(0);
  EXPECT_EQ(finish.exit_code, 9);
  EXPECT_EQ(finish.origin, "worker");
  EXPECT_EQ(finish.reason, "told");
  ASSERT_TRUE(finish.verdict.has_value());
  EXPECT_EQ(finish.verdict->exit_code(), 9);
  EXPECT_EQ(finish.signal, 0);
  EXPECT_FALSE(finish.asked_to_leave);
}

TEST_F(HostCoreTest, AnEndWithoutAVerdictHasNone) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_TRUE(core_.finished());
  EXPECT_FALSE(Took<Finish>()[0].verdict.has_value());
  EXPECT_TRUE(Took<Finish>()[0].asked_to_leave);
  EXPECT_EQ(Took<Finish>()[0].origin, "muster");
  EXPECT_EQ(Took<Finish>()[0].reason, "asked to leave by SIGTERM");
}

TEST_F(HostCoreTest, AnAgentThatDoesNotCloseIsKilledAfterALimit) {
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(9);
  Give(directive);
  Forget();
  Pass(kLeaveReportLimit - kTick, false);
  EXPECT_FALSE(core_.finished());
  Pass(kTick, false);
  EXPECT_TRUE(core_.finished());
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
}

// Other nodes' agents hear their RELEASE from the coordinator in its agent.
TEST_F(HostCoreTest, ThePrimarysHostLingersAfterItsAgent) {
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(0);
  directive.mutable_exit()->set_linger_ms(300);
  Give(directive);
  core_.OnAgentClosed(now_, 1, &effects_);
  Pass(absl::Milliseconds(200), false);
  EXPECT_FALSE(core_.finished());
  Pass(kTick, false);
  EXPECT_TRUE(core_.finished());
}

TEST_F(HostCoreTest, ALeavingHostIsNotFlushedBeforeItsRelease) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Pass(kBeat);
  EXPECT_FALSE(core_.finished());
  EXPECT_FALSE(LastStatus().flushed()) << "its agent would take it for ended";
}

// The coordinator hears that the workers have ended, and only then is the limit over.
TEST_F(HostCoreTest, TheTimeToReportALeaveCountsFromTheWorkersEnd) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  Pass(absl::Seconds(3));
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Pass(kLeaveReportLimit - kTick);
  EXPECT_FALSE(core_.finished());
  Pass(kTick);
  EXPECT_TRUE(core_.finished());
  EXPECT_EQ(Took<KillAgent>().size(), 1u);
}

TEST_F(HostCoreTest, TheTimeToReportALeaveCountsFromTheLeaveOfAnIdleHost) {
  Pass(absl::Minutes(1));
  core_.OnSignal(now_, SIGTERM, &effects_);
  Pass(kLeaveReportLimit - kTick);
  EXPECT_FALSE(core_.finished());
  Pass(kTick);
  EXPECT_TRUE(core_.finished());
}

TEST_F(HostCoreTest, ASecondSignalsEndHasItsReason) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  Forget();
  core_.OnSignal(now_ + kOneSignal, SIGHUP, &effects_);
  EXPECT_EQ(Took<Sweep>().size(), 1u) << "now, not at the next tick";
  Exit(0, 9);
  Exit(1, 9);
  Swept();
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].reason, "stopped immediately by a second SIGHUP");
  EXPECT_EQ(Took<Finish>()[0].origin, "muster");
}

TEST_F(HostCoreTest, ASecondSignalToAnIdleHostFlushesAtOnce) {
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnSignal(now_ + kOneSignal, SIGTERM, &effects_);
  EXPECT_TRUE(LastStatus().flushed());
}

TEST_F(HostCoreTest, ASecondCtrlCExitsWith130) {
  Run(1);
  core_.OnSignal(now_, SIGINT, &effects_);
  core_.OnSignal(now_ + kOneSignal, SIGINT, &effects_);
  Exit(0, 9);
  Exit(1, 9);
  Swept();
  core_.OnAgentClosed(now_, 1, &effects_);
  ASSERT_TRUE(core_.finished());
  EXPECT_EQ(Took<Finish>()[0].exit_code, 130);
}

TEST_F(HostCoreTest, ANoticeIsLoggedWhenASignalConfirmsIt) {
  v1::HostDirective directive = Directive();
  directive.set_leave("preemption notice of gce");
  Give(directive);
  Forget();
  core_.OnSignal(now_, SIGTERM, &effects_);
  ASSERT_EQ(Took<Note>().size(), 1u);
  EXPECT_EQ(Took<Note>()[0].text, "SIGTERM: already leaving (preemption notice of gce)");
}

TEST_F(HostCoreTest, SignalsForWorkersNeedWorkers) {
  Forget();
  for (const int signal : {SIGUSR1, SIGUSR2, SIGCONT}) core_.OnSignal(now_, signal, &effects_);
  core_.OnSuspend(now_, false, &effects_);
  EXPECT_TRUE(Took<ForwardSignal>().empty());
  EXPECT_TRUE(Took<SignalWorkers>().empty());
  Run(1);
  core_.OnSignal(now_, SIGCONT, &effects_);
  ASSERT_EQ(Took<SignalWorkers>().size(), 1u);
  EXPECT_EQ(Took<SignalWorkers>()[0].signal, SIGCONT);
}

// ---- the lease and the offer

TEST_F(HostCoreTest, ARoundNeedsMoreThanAThirdOfTheLease) {
  v1::HostDirective directive = Directive(kLease / 3);
  *directive.mutable_start() = Round(1);
  Give(directive);
  EXPECT_TRUE(Took<SpawnWorkers>().empty());
  v1::HostDirective more = Directive(kLease / 3 + kTick);
  *more.mutable_start() = Round(1);
  Give(more);
  EXPECT_EQ(Took<SpawnWorkers>().size(), 1u);
}

TEST_F(HostCoreTest, TheLeasesEndIsLoggedWithItsReason) {
  Run(1);
  Forget();
  Pass(kLease * 2 / 3, true, false);
  ASSERT_EQ(Took<StopWorkers>().size(), 1u) << "two thirds of the lease have passed";
  EXPECT_EQ(
      Took<Note>().at(0).text,
      "the coordinator did not answer for 6.7s; stopping workers, which have 2.3s to exit, because other nodes "
      "may replace them once the lease ends (--lease 10s)");
}

TEST_F(HostCoreTest, TheLeasesEndIsLoggedOnceThoughWorkersOutliveTheirGrace) {
  Run(1);
  Pass(kLease, true, false);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  const std::vector<Note> notes = Took<Note>();
  EXPECT_EQ(std::count_if(notes.begin(), notes.end(),
                          [](const Note& note) { return note.subject.event == events::kLeaseEnded; }),
            1);
}

TEST_F(HostCoreTest, OnThePrimaryTheLeaseEndsForWantOfOtherNodes) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_memory()->set_served(true);
  Give(directive);
  Forget();
  for (const BootTime until = now_ + kLease * 2 / 3; now_ < until;) {
    now_ += kTick;
    v1::HostDirective beat = Directive();
    beat.mutable_memory()->set_served(true);
    beat.set_lease_deadline_boot_ns(1);
    Give(beat);
    core_.OnTick(now_, &effects_);
  }
  EXPECT_EQ(
      Took<Note>().at(0).text.find("no other node answered for 6.7s (all are stalled, or this node is cut off)"),
      0u)
      << Took<Note>()[0].text;
}

TEST_F(HostCoreTest, EachGrantMovesTheKernelTimer) {
  Run(1);
  Forget();
  now_ += absl::Seconds(1);
  Give(Directive());
  ASSERT_EQ(Took<SetKernelTimer>().size(), 1u);
  EXPECT_EQ(Took<SetKernelTimer>()[0].at, now_ + kLease);
  Give(Directive());
  EXPECT_EQ(Took<SetKernelTimer>().size(), 1u) << "the same end";
}

TEST_F(HostCoreTest, APortIsAskedForOnlyWhileARoundMayCome) {
  core_.OnOffer(now_, 0, &effects_);
  Forget();
  Pass(kOfferRetry - kTick);
  EXPECT_TRUE(Took<RenewOffer>().empty());
  Pass(kTick);
  EXPECT_EQ(Took<RenewOffer>().size(), 1u);
  Run(1);
  Forget();
  Pass(2 * kOfferRetry);
  EXPECT_TRUE(Took<RenewOffer>().empty()) << "a round runs";
  core_.OnSignal(now_, SIGTERM, &effects_);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  for (int i = 0; i < 7; ++i) {
    now_ += absl::Seconds(1);
    Serve(true);
  }
  EXPECT_FALSE(core_.finished());
  EXPECT_TRUE(Took<RenewOffer>().empty()) << "it leaves";
}

TEST_F(HostCoreTest, AnExitingHostAsksForNoPort) {
  core_.OnOffer(now_, 0, &effects_);
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_linger_ms(60'000);
  Give(directive);
  Forget();
  Pass(2 * kOfferRetry);
  EXPECT_FALSE(core_.finished());
  EXPECT_TRUE(Took<RenewOffer>().empty());
}

TEST_F(HostCoreTest, OnlyThePresentAgentsEndMatters) {
  Forget();
  core_.OnAgentClosed(now_, 7, &effects_);
  EXPECT_TRUE(effects_.empty());
}

// The end of an earlier agent does not shorten the time of the present one.
TEST_F(HostCoreTest, AnEarlierAgentsEndIsNotThatOfTheLast) {
  core_.OnAgentClosed(now_, 1, &effects_);
  Pass(absl::Seconds(2));
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(9);
  Give(directive);
  core_.OnTick(now_, &effects_);
  EXPECT_FALSE(core_.finished()) << "its agent has yet to report the end";
  core_.OnAgentClosed(now_, 2, &effects_);
  EXPECT_TRUE(core_.finished());
}

TEST_F(HostCoreTest, AWallClockWithoutADeadlineChangesNothing) {
  Run(1);
  Forget();
  core_.OnWallClock(now_, absl::FromUnixSeconds(1'700'000'000), &effects_);
  EXPECT_TRUE(effects_.empty());
}

class DeadlineWhileEndingTest : public HostCoreTest {
 protected:
  DeadlineWhileEndingTest() : HostCoreTest(WithDeadline()) {}
  static HostOptions WithDeadline() {
    HostOptions options = Options(false);
    options.stop_before = StopBefore{absl::FromUnixSeconds(1000), absl::Minutes(1), "--stop-before 1m"};
    return options;
  }
};

TEST_F(DeadlineWhileEndingTest, ANodeThatLeavesAlreadyKeepsItsReason) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  core_.OnWallClock(now_, absl::FromUnixSeconds(990), &effects_);
  EXPECT_EQ(LastStatus().leave().reason(), "");
}

TEST_F(DeadlineWhileEndingTest, ANodeThatExitsDoesNotLeave) {
  Run(1);
  v1::HostDirective directive = Directive();
  directive.mutable_exit()->set_exit_code(9);
  Give(directive);
  core_.OnWallClock(now_, absl::FromUnixSeconds(990), &effects_);
  EXPECT_FALSE(LastStatus().has_leave());
}

TEST_F(HostCoreTest, ACoordinatorThatStaysSaysSoOnce) {
  Run(1);
  core_.OnSignal(now_, SIGTERM, &effects_);
  Exit(0, 0);
  Exit(1, 0);
  Swept();
  Forget();
  for (int i = 0; i < 4; ++i) {
    now_ += absl::Seconds(1);
    Serve(true);
  }
  ASSERT_EQ(Took<Note>().size(), 1u);
  EXPECT_EQ(Took<Note>()[0].text,
            "the other nodes still need the coordinator on this node: it stays for at most 7s");
}

}  // namespace
}  // namespace muster::host
