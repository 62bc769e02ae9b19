// The agent core, step by step.
#include "agent/process/core/agent_core.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "base/wire/ids.h"
#include "tests/unit/agent/process/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

TEST_F(AgentCoreTest, AConfiguredAgentConnectsAndSendsItsIdentity) {
  EXPECT_EQ(Took<Connect>().size(), 1u);
  Connected();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_READY);
  EXPECT_EQ(LastStatus().place(), 1);
  EXPECT_EQ(LastStatus().offer().host(), "10.0.0.2");
  EXPECT_EQ(LastStatus().offer().port(), 4000u);
}

TEST_F(AgentCoreTest, NodeFactsAreSentOnceInEachSession) {
  Connected();
  EXPECT_EQ(LastStatus().facts().at("NCCL_DEBUG"), "INFO");
  Pass(absl::Seconds(1));
  EXPECT_EQ(LastStatus().facts_size(), 1) << "no answer yet";
  Give(Directive(1));
  HostApplies();
  Forget();
  Pass(absl::Seconds(3));
  ASSERT_FALSE(Took<SendToCoordinator>().empty());
  for (const SendToCoordinator& sent : Took<SendToCoordinator>()) EXPECT_EQ(sent.status.facts_size(), 0);
  core_.OnDisconnected(now_, "away", 0, &effects_);
  Pass(absl::Seconds(1));
  Connected();
  EXPECT_EQ(LastStatus().facts_size(), 1);
  EXPECT_GE(LastStatus().coordinator_silent_ms(), 1000) << "the status has the time without a coordinator";
}

// A stopped agent made no attempt meanwhile, and finds its connection dead when it continues.
TEST_F(AgentCoreTest, AStoppedAgentRetriesBeforeGivingUp) {
  Connected();
  Give(Directive(1));
  HostApplies();
  now_ += absl::Hours(1);
  Pass(absl::Minutes(10));
  EXPECT_FALSE(LastOrder().has_exit());
  Pass(absl::Minutes(6));
  EXPECT_TRUE(LastOrder().has_exit());
  EXPECT_EQ(LastOrder().exit().exit_code(), 69);
}

TEST_F(AgentCoreTest, AnAgentThatTheHostHasReplacedExits) {
  core_.OnHostClosed(now_, &effects_);
  core_.OnHostLives(now_, &effects_);
  ASSERT_EQ(Took<ExitAgent>().size(), 1u);
  EXPECT_EQ(Took<ExitAgent>()[0].exit_code, 0);
}

TEST_F(AgentCoreTest, ThePrimaryOffersLoopbackUntilARemoteMemberJoins) {
  core_.OnConnected(now_, "", &effects_);
  EXPECT_EQ(LastStatus().offer().host(), "");
  EXPECT_NE(LastStatus().offer().port(), 0u) << "the address alone is missing";
  core_.OnLocalAddress(now_, "127.0.0.1", &effects_);
  EXPECT_EQ(LastStatus().offer().host(), "127.0.0.1");
  core_.OnLocalAddress(now_, "10.0.0.1", &effects_);
  EXPECT_EQ(LastStatus().offer().host(), "10.0.0.1");
  core_.OnLocalAddress(now_, "127.0.0.1", &effects_);
  core_.OnLocalAddress(now_, "10.0.0.9", &effects_);
  EXPECT_EQ(LastStatus().offer().host(), "10.0.0.1");
}

TEST_F(AgentCoreTest, OnlyConfirmedDirectivesCountAsApplied) {
  Connected();
  Give(Directive(5));
  EXPECT_EQ(LastStatus().applied().seq(), 0u);
  HostApplies();
  EXPECT_EQ(LastStatus().applied().seq(), 5u);
}

TEST_F(AgentCoreTest, AnAnswerToAHeartbeatSendsNoHeartbeat) {
  Connected();
  Give(Directive(5));
  HostApplies();
  Forget();
  Give(Directive(6));
  HostApplies();
  EXPECT_TRUE(Took<SendToCoordinator>().empty());
}

TEST_F(AgentCoreTest, TheLeaseCountsFromWhenTheEchoedStatusWasSent) {
  Connected();
  const BootTime sent = now_;
  const v1::Directive run = Run(5, 1);
  now_ += absl::Seconds(3);
  Give(run);
  EXPECT_EQ(FromBootNanos(LastOrder().lease_deadline_boot_ns()), sent + kLease);
}

TEST_F(AgentCoreTest, ThePrimarysOwnLeaseHasItsOwnEnd) {
  Connected();
  v1::Directive run = Run(5, 1);
  const BootTime end = now_ + absl::Seconds(4);
  run.mutable_lease()->set_not_after_boot_ns(ToBootNanos(end));
  Give(run);
  EXPECT_EQ(FromBootNanos(LastOrder().lease_deadline_boot_ns()), end);
}

TEST_F(AgentCoreTest, OlderDirectivesAndOlderEpochsAreDropped) {
  Connected();
  Give(Directive(5, 2));
  Forget();
  Give(Run(4, 1));
  v1::Directive old_epoch = Run(99, 1);
  Give(old_epoch);
  EXPECT_TRUE(Took<SendToHost>().empty());
}

TEST_F(AgentCoreTest, ANewAgentDropsItsPredecessorsDirectives) {
  host_.mutable_memory()->mutable_epoch()->set_number(1);
  host_.mutable_memory()->mutable_applied()->mutable_epoch()->set_number(1);
  host_.mutable_memory()->mutable_applied()->set_seq(10);
  AgentCore next(8);
  v1::HostStatus first = host_;
  first.set_agent_number(2);
  first.set_seq(1);
  first.mutable_config()->set_run_id("job");
  first.mutable_config()->set_lease_ms(10'000);
  next.OnHostStatus(now_, first, &effects_);
  Forget();
  next.OnDirective(now_, Run(10, 1), &effects_);
  EXPECT_TRUE(Took<SendToHost>().empty());
  next.OnDirective(now_, Run(11, 1), &effects_);
  EXPECT_FALSE(Took<SendToHost>().empty());
}

TEST_F(AgentCoreTest, RunStopAndTheFailureBetweenAreReported) {
  Connected();
  Give(Run(5, 1));
  EXPECT_TRUE(LastOrder().has_start());
  host_.set_phase(v1::HOST_PHASE_RUNNING);
  *host_.mutable_started() = Run(5, 1).run().id();
  host_.set_outcome(v1::OUTCOME_RAN);
  HostApplies();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_RUNNING);
  host_.set_phase(v1::HOST_PHASE_IDLE);
  host_.set_outcome(v1::OUTCOME_FAILED);
  host_.mutable_failure()->set_exit_code(7);
  host_.set_failure_boot_ns(ToBootNanos(now_));
  now_ += absl::Seconds(2);
  Host();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_FAILED);
  EXPECT_EQ(LastStatus().failure().age_ms(), 2000);
  v1::Directive stop = Directive(6);
  *stop.mutable_stop()->mutable_round() = Run(5, 1).run().id();
  Give(stop);
  EXPECT_TRUE(LastOrder().has_stop());
  HostApplies();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_READY) << "after its STOP a failed node is ready for the next";
  EXPECT_EQ(LastStatus().failure().exit_code(), 7) << "and still says what happened";
}

TEST_F(AgentCoreTest, TheFarewellIsKeptWithTheCurrentRound) {
  Connected();
  Give(Run(5, 1));
  v1::Directive stop = Directive(6);
  *stop.mutable_stop()->mutable_round() = Run(5, 1).run().id();
  *stop.mutable_greatest() = Run(5, 1).run();
  stop.mutable_greatest()->clear_node_rank();
  stop.mutable_greatest()->mutable_primary_ended()->set_known_to(3);
  stop.mutable_greatest()->mutable_primary_ended()->set_age_ms(50);
  now_ += absl::Seconds(2);
  Give(stop);
  HostApplies();
  EXPECT_EQ(LastStatus().last().primary_ended().known_to(), 3);
  EXPECT_EQ(LastStatus().last().node_rank(), 1);
  EXPECT_EQ(LastStatus().last().primary_ended().age_ms(), 2050) << "it may have been that long on its way";
  now_ += absl::Seconds(1);
  core_.OnDisconnected(now_, "away", 0, &effects_);
  Connected();
  EXPECT_EQ(LastStatus().last().primary_ended().age_ms(), 3050);
}

TEST_F(AgentCoreTest, WaitDoesNotStopARunningRound) {
  Connected();
  Give(Run(5, 1));
  Give(Directive(6, 2));
  EXPECT_TRUE(LastOrder().hold());
}

TEST_F(AgentCoreTest, AVerdictIsAcknowledgedOnceTheHostHasStoredIt) {
  Connected();
  v1::Directive verdict = Directive(5);
  verdict.mutable_verdict()->set_exit_code(3);
  Give(verdict);
  EXPECT_FALSE(LastStatus().has_verdict());
  HostApplies();
  EXPECT_EQ(LastStatus().verdict().exit_code(), 3);
  v1::Directive release = Directive(6);
  release.mutable_release()->set_exit_code(3);
  Give(release);
  EXPECT_EQ(LastOrder().exit().exit_code(), 3);
  host_.set_flushed(true);
  Host();
  EXPECT_EQ(Took<Disconnect>().size(), 1u);
  EXPECT_TRUE(core_.finished());
}

// What other threads and the coordinator in this process report may arrive after the agent's end.
TEST_F(AgentCoreTest, AnAgentThatHasLeftSendsNothing) {
  core_.OnConnected(now_, "", &effects_);
  v1::Directive wait = Directive(5);
  wait.mutable_wait()->mutable_held_by()->set_process("old");
  Give(wait);
  ASSERT_EQ(Took<Probe>().size(), 1u);
  core_.OnHostLives(now_, &effects_);
  ASSERT_TRUE(core_.finished());
  Forget();
  core_.OnProbed(now_, "old", true, &effects_);
  core_.OnLocalAddress(now_, "10.0.0.1", &effects_);
  EXPECT_TRUE(effects_.empty());
}

TEST_F(AgentCoreTest, ANoticeMakesTheHostLeaveAndIsRepeated) {
  core_.OnNotice(now_, "preemption notice of gce", &effects_);
  EXPECT_EQ(LastOrder().leave(), "preemption notice of gce");
  Forget();
  core_.OnNotice(now_, "preemption notice of gce: maintenance", &effects_);
  EXPECT_TRUE(effects_.empty()) << "the first is the reason";
  Connected();
  core_.OnDirective(now_, Run(1, 1), &effects_);
  EXPECT_EQ(LastOrder().leave(), "preemption notice of gce");
}

TEST_F(AgentCoreTest, WhatPeopleOrderGoesToTheHost) {
  Connected();
  v1::Directive run = Run(5, 1);
  run.mutable_signal()->set_number(7);
  Give(run);
  EXPECT_EQ(LastOrder().signal().number(), 7u);
  EXPECT_EQ(LastOrder().leave(), "");
  host_.mutable_signalled()->set_number(7);
  *host_.mutable_memory() = LastOrder().memory();
  *host_.mutable_started() = run.run().id();
  Host();
  EXPECT_EQ(LastStatus().signalled().number(), 7u);
  v1::Directive next = Run(6, 1);
  next.set_leave("muster drain by root@gpu-1");
  Give(next);
  EXPECT_FALSE(LastOrder().has_signal());
  EXPECT_EQ(LastOrder().leave(), "muster drain by root@gpu-1");
  Give(Run(7, 1));
  EXPECT_EQ(LastOrder().leave(), "muster drain by root@gpu-1") << "it is not withdrawn";
}

TEST_F(AgentCoreTest, TheStatusHasTheHostsReasonForLeaving) {
  Connected();
  host_.mutable_leave()->set_signal(15);
  host_.mutable_leave()->set_reason("preemption notice of gce");
  Host();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_LEAVING);
  EXPECT_EQ(LastStatus().trouble(), "preemption notice of gce");
}

TEST_F(AgentCoreTest, WaitingIsLoggedEverMoreRarely) {
  Connected();
  int told = 0;
  for (uint64_t seq = 5; seq < 5 + 1300; ++seq) {  // ten answers a second for 130 s
    Give(Directive(seq));
    Pass(kTick);
    for (const Note& note : Took<Note>()) told += note.text.find("still waiting") == 0 ? 1 : 0;
    Forget();
  }
  EXPECT_EQ(told, 6) << "after 1, 5, 10, 30, 60 and 120 seconds";
}

TEST_F(AgentCoreTest, AStoppedRoundIsNotStartedAgain) {
  Connected();
  Give(Run(5, 1));
  v1::Directive stop = Directive(6);
  *stop.mutable_stop()->mutable_round() = Run(5, 1).run().id();
  Give(stop);
  Give(Run(7, 1));
  EXPECT_FALSE(LastOrder().has_start());
  EXPECT_TRUE(LastOrder().hold()) << "the STOP of a round is over once another order came";
  Give(Run(8, 2));
  EXPECT_TRUE(LastOrder().has_start());
}

// A coordinator that has just started may not know the newest round.
TEST_F(AgentCoreTest, TheGreatestRoundIsNotForgotten) {
  Connected();
  Give(Run(5, 2));
  v1::Directive wait = Directive(6);
  *wait.mutable_greatest() = Run(6, 1).run();
  Give(wait);
  HostApplies();
  EXPECT_EQ(LastStatus().last().id().number(), 2u);
}

}  // namespace
}  // namespace muster::agent
