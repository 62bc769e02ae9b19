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

TEST_F(AgentCoreTest, TheNodeThatServesIsThePrimary) {
  for (const bool found : {false, true}) {
    AgentCore core(8);
    v1::HostStatus first = host_;
    first.set_seq(1);
    first.mutable_config()->set_serves(v1::NodeConfig::SERVES_IF_LOCAL);
    first.mutable_memory()->set_served(found);
    core.OnHostStatus(now_, first, &effects_);
    core.OnConnected(now_, "10.0.0.2", &effects_);
    EXPECT_EQ(LastStatus().at_primary(), found);
    EXPECT_EQ(core.memory().served(), found) << "the next agent of this host serves again";
  }
}

class RoleTest : public AgentCoreTest {
 protected:
  RoleTest() {
    first_ = host_;
    first_.set_seq(1);
    v1::NodeConfig* config = first_.mutable_config();
    config->set_serves(v1::NodeConfig::SERVES_IF_LOCAL);
    config->set_join_timeout_ms(600'000);
    config->set_coordinator_timeout_ms(900'000);
    Forget();
  }
  // The primary's address is this machine's, and nobody listens there.
  void Refuse(AgentCore* agent) {
    agent->OnDisconnected(now_, "connection refused", 0, &effects_);
    agent->OnUnanswered(now_, true, true, &effects_);
  }

  bool AgentServesAgain(const v1::Memory& memory) {
    Forget();
    v1::HostStatus first = first_;
    *first.mutable_memory() = memory;
    AgentCore next(9);
    next.OnHostStatus(now_, first, &effects_);
    return Took<TakeRole>().size() == 1 && Took<TakeRole>()[0].serves;
  }

  v1::HostStatus first_;
  AgentCore agent_{8};
};

TEST_F(RoleTest, TheProcessThatGetsThePortIsThePrimary) {
  for (const bool used_by_other : {false, true}) {
    Forget();
    AgentCore agent(8);
    agent.OnHostStatus(now_, first_, &effects_);
    ASSERT_EQ(Took<TakeRole>().size(), 1u);
    EXPECT_FALSE(Took<TakeRole>()[0].serves);
    ASSERT_EQ(Took<Connect>().size(), 1u);
    Refuse(&agent);
    ASSERT_EQ(Took<ClaimPort>().size(), 1u);
    Forget();
    agent.OnPortClaimed(now_, used_by_other, &effects_);
    EXPECT_EQ(agent.memory().served(), !used_by_other);
    if (used_by_other) {
      EXPECT_TRUE(effects_.empty());
    } else {
      ASSERT_EQ(Took<TakeRole>().size(), 1u);
      EXPECT_TRUE(Took<TakeRole>()[0].serves);
      EXPECT_EQ(Took<Connect>().size(), 1u) << "to itself, at once";
      EXPECT_TRUE(Took<SendToHost>().back().directive.memory().served());
    }
  }
}

// Its name did not resolve, or still led to another machine.
TEST_F(RoleTest, ANameThatLeadsHereLateMakesThePrimary) {
  agent_.OnHostStatus(now_, first_, &effects_);
  for (int i = 0; i < 5; ++i) {
    Forget();
    agent_.OnDisconnected(now_, "its name does not resolve", 0, &effects_);
    agent_.OnUnanswered(now_, false, false, &effects_);
    now_ += absl::Seconds(1);
    agent_.OnTick(now_, &effects_);
    EXPECT_EQ(Took<Connect>().size(), 1u);
    EXPECT_TRUE(Took<ClaimPort>().empty());
  }
  Refuse(&agent_);
  EXPECT_EQ(Took<ClaimPort>().size(), 1u);
}

// The agent of the primary's dead host had the port still when this node was started again.
TEST_F(RoleTest, AMemberOnThePrimarysMachineTakesOver) {
  first_.mutable_memory()->mutable_epoch()->set_number(3);
  agent_.OnHostStatus(now_, first_, &effects_);
  agent_.OnConnected(now_, "127.0.0.1", &effects_);
  now_ += absl::Seconds(1);
  Refuse(&agent_);
  ASSERT_EQ(Took<ClaimPort>().size(), 1u);
  Forget();
  agent_.OnPortClaimed(now_, false, &effects_);
  ASSERT_EQ(Took<TakeRole>().size(), 1u);
  EXPECT_TRUE(Took<TakeRole>()[0].was_in_job);
  agent_.OnConnected(now_, "", &effects_);
  EXPECT_TRUE(LastStatus().at_primary());
  EXPECT_EQ(LastStatus().epoch().number(), 3u);
  EXPECT_TRUE(AgentServesAgain(agent_.memory())) << "the next agent of this host";
}

TEST_F(RoleTest, AnAgentWhoseHostIsDeadServesNobody) {
  agent_.OnHostStatus(now_, first_, &effects_);
  agent_.OnHostClosed(now_, &effects_);
  Refuse(&agent_);
  EXPECT_TRUE(Took<ClaimPort>().empty());
}

// Its rank, or `muster coordinator`, decides.
TEST_F(RoleTest, ANodeThatMustNotServeLeavesThePortAlone) {
  first_.mutable_config()->set_serves(v1::NodeConfig::SERVES_NO);
  agent_.OnHostStatus(now_, first_, &effects_);
  Refuse(&agent_);
  EXPECT_TRUE(Took<ClaimPort>().empty());
}

// The address is that of a load balancer, say.
class CandidateTest : public RoleTest {
 protected:
  CandidateTest() {
    first_.mutable_config()->set_serves(v1::NodeConfig::SERVES_IF_REACHED);
    first_.mutable_config()->set_min_nodes(2);
    first_.mutable_config()->set_last_call_ms(30'000);
    first_.mutable_memory()->set_joined_boot_ns(ToBootNanos(now_));
  }
  void Begin() {
    agent_.OnHostStatus(now_, first_, &effects_);
    agent_.OnDisconnected(now_, "connection refused", 0, &effects_);
    agent_.OnUnanswered(now_, false, false, &effects_);
    ASSERT_EQ(Took<ClaimPort>().size(), 1u);
    agent_.OnPortClaimed(now_, false, &effects_);
    Forget();
  }
  bool BeganToServe() { return Took<TakeRole>().size() == 1 && Took<TakeRole>()[0].serves; }
};

TEST_F(CandidateTest, NodeZeroServesOnceTheAddressLeadsToIt) {
  Begin();
  now_ += absl::Minutes(5);
  agent_.OnTick(now_, &effects_);
  EXPECT_TRUE(Took<TakeRole>().empty()) << "the address may be another node's";
  agent_.OnReached(now_, &effects_);
  EXPECT_TRUE(BeganToServe());
  EXPECT_TRUE(agent_.memory().served());
}

// The agent itself is let in by its own coordinator.
TEST_F(CandidateTest, AConnectionThatComesBackHereIsReplaced) {
  Begin();
  agent_.OnConnected(now_, "10.0.0.2", &effects_);
  Forget();
  agent_.OnReached(now_, &effects_);
  EXPECT_TRUE(BeganToServe());
  EXPECT_EQ(Took<Connect>().size(), 1u);
}

TEST_F(CandidateTest, AnotherPrimaryThatAnswersIsFollowed) {
  Begin();
  agent_.OnConnected(now_, "10.0.0.2", &effects_);
  agent_.OnDirective(now_, Directive(1), &effects_);
  EXPECT_EQ(Took<FreePort>().size(), 1u);
  agent_.OnReached(now_, &effects_);
  EXPECT_FALSE(agent_.memory().served());
  Forget();
  agent_.OnDisconnected(now_, "gone", 0, &effects_);
  agent_.OnUnanswered(now_, false, false, &effects_);
  EXPECT_TRUE(Took<ClaimPort>().empty()) << "it will be back there";
}

TEST_F(CandidateTest, AnotherNodeThanNodeZeroIsNoCandidate) {
  first_.mutable_config()->set_serves(v1::NodeConfig::SERVES_IF_LOCAL);
  agent_.OnHostStatus(now_, first_, &effects_);
  agent_.OnDisconnected(now_, "connection refused", 0, &effects_);
  agent_.OnUnanswered(now_, false, false, &effects_);
  EXPECT_TRUE(Took<ClaimPort>().empty());
}

// For messages: the coordinator was there.
TEST_F(RoleTest, AnAgentKnowsWhetherItsNodeWasInTheJob) {
  for (const bool before : {false, true}) {
    Forget();
    AgentCore agent(8);
    v1::HostStatus first = first_;
    if (before) first.mutable_memory()->mutable_epoch()->set_number(3);
    agent.OnHostStatus(now_, first, &effects_);
    ASSERT_EQ(Took<TakeRole>().size(), 1u);
    EXPECT_EQ(Took<TakeRole>()[0].was_in_job, before);
  }
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

TEST_F(AgentCoreTest, ADeadHostIsSweptAndReported) {
  Connected();
  v1::Worker* worker = host_.add_workers();
  worker->set_pid(123);
  Host();
  core_.OnHostClosed(now_, &effects_);
  ASSERT_EQ(Took<EndHost>().size(), 1u);
  EXPECT_FALSE(Took<EndHost>()[0].kill_first);
  EXPECT_EQ(Took<EndHost>()[0].workers[0].pid(), 123);
  core_.OnHostSwept(now_, &effects_);
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_HOST_GONE);
  Give(Directive(9));
  EXPECT_TRUE(core_.finished()) << "heard: nothing is left to do";
}

TEST_F(AgentCoreTest, AnUnsweptHostIsNotReportedAsGone) {
  Connected();
  core_.OnHostClosed(now_, &effects_);
  Forget();
  core_.OnHostNotSwept(now_, "2 processes", &effects_);
  EXPECT_TRUE(core_.finished());
  EXPECT_TRUE(Took<SendToCoordinator>().empty());
  EXPECT_EQ(Took<ExitAgent>().size(), 1u);
}

TEST_F(AgentCoreTest, ASilentHostIsKilledFirst) {
  Connected();
  Pass(kLease / 2 + absl::Seconds(1), false);
  ASSERT_EQ(Took<EndHost>().size(), 1u);
  EXPECT_TRUE(Took<EndHost>()[0].kill_first);
}

TEST_F(AgentCoreTest, AClosedLinkToALiveHostMeansANewerAgent) {
  core_.OnHostLinkClosed(now_, &effects_);
  Pass(kHostEndWait + absl::Seconds(1));
  EXPECT_TRUE(core_.finished());
  EXPECT_TRUE(Took<EndHost>().empty());
}

// ---- the host is in a container of its own

class SplitAgentTest : public AgentCoreTest {
 protected:
  SplitAgentTest() : AgentCoreTest([](v1::NodeConfig* config) { config->set_split(true); }) {}
};

TEST_F(SplitAgentTest, ASilentHostIsLeftToTheEndOfItsLease) {
  Connected();
  Pass(kLease / 2 + absl::Seconds(1), false);
  EXPECT_TRUE(Took<EndHost>().empty());
  ASSERT_EQ(Took<ExitAgent>().size(), 1u);
  EXPECT_EQ(Took<ExitAgent>()[0].reason, "the main process of this node does not respond");
}

TEST_F(SplitAgentTest, AClosedLinkProvesNothingAndTheAgentIsSilentUntilTheLeaseEnds) {
  Connected();
  Give(Run(1, 1));
  core_.OnHostLinkClosed(now_, &effects_);
  Forget();
  Pass(kLease - kTick, false);
  EXPECT_FALSE(core_.finished()) << "the proof may still come";
  EXPECT_TRUE(Took<SendToCoordinator>().empty()) << "or the coordinator would take the host for alive";
  Pass(2 * kTick, false);
  EXPECT_TRUE(core_.finished());
  EXPECT_TRUE(Took<SendToCoordinator>().empty());
  EXPECT_TRUE(Took<EndHost>().empty());
}

TEST_F(SplitAgentTest, WithoutALeaseAClosedLinkIsTheEnd) {
  Connected();
  core_.OnHostLinkClosed(now_, &effects_);
  Pass(kHostEndWait + kTick, false);
  EXPECT_TRUE(core_.finished());
}

TEST_F(SplitAgentTest, ALateProofIsReported) {
  Connected();
  Give(Run(1, 1));
  host_.set_memory_used(99);
  host_.set_memory_limit(100);
  Host();
  core_.OnHostLinkClosed(now_, &effects_);
  Pass(kLease - kTick, false);
  Forget();
  core_.OnHostClosed(now_, &effects_);
  EXPECT_TRUE(Took<EndHost>().empty()) << "the kernel has ended everything";
  Connected();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_HOST_GONE);
  EXPECT_NE(LastStatus().how_host_ended().find("the kernel probably killed it"), std::string::npos);
}

TEST_F(SplitAgentTest, AnAgentThatIsDismissedLeavesAtOnce) {
  Connected();
  v1::HostStatus last;
  last.set_dismissed(true);
  core_.OnHostStatus(now_, last, &effects_);
  EXPECT_TRUE(core_.finished());
}

TEST_F(SplitAgentTest, NoPidProvesAPredecessorDead) {
  Connected();
  v1::Directive wait = Directive(5);
  wait.mutable_wait()->mutable_held_by()->set_process("old");
  Give(wait);
  EXPECT_TRUE(Took<Probe>().empty());
}

TEST_F(AgentCoreTest, AnUnreachedCoordinatorIs69WithTheReason) {
  for (int i = 0; i < 601 * 10 && !(!Took<SendToHost>().empty() && LastOrder().has_exit()); ++i) {
    Forget();
    Pass(kTick);
    if (!Took<Connect>().empty()) core_.OnDisconnected(now_, "refused", 0, &effects_);
  }
  EXPECT_EQ(LastOrder().exit().exit_code(), 69);
  EXPECT_EQ(LastOrder().exit().reason(), "gave up after 10m (--join-timeout): refused");
}

TEST_F(AgentCoreTest, AWaitForTheCoordinatorNamesItsLimit) {
  const auto said = [this] {
    std::vector<std::string> lines;
    for (const Note& note : Took<Note>()) {
      if (note.subject.event == events::kWaiting) lines.push_back(note.text);
    }
    Forget();
    return lines.empty() ? "" : lines.back();
  };
  Pass(absl::Seconds(5));
  EXPECT_EQ(
      said(),
      "still waiting after 5s: connecting to the primary at primary:2222; gives up after 10m (--join-timeout)");
  core_.OnDisconnected(now_, "refused", 0, &effects_);
  Pass(absl::Seconds(5));
  EXPECT_EQ(said(), "still waiting after 10s: refused; gives up after 10m (--join-timeout)");
  Connected();
  Give(Run(1, 1));
  core_.OnDisconnected(now_, "away", 0, &effects_);
  Pass(absl::Seconds(1) + kTick);
  EXPECT_EQ(said(), "still waiting after 1s: away; gives up after 15m (--coordinator-timeout)");
}

// A new core with other settings, on the same node.
class JoiningTest : public AgentCoreTest {
 protected:
  void BeginWith(const std::function<void(v1::HostStatus*)>& change) {
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    change(&first);
    host_ = first;
    host_.clear_config();
    std::destroy_at(&core_);
    std::construct_at(&core_, 8);
    Forget();
    core_.OnHostStatus(now_, first, &effects_);
  }
  bool GaveUp() { return !Took<SendToHost>().empty() && LastOrder().has_exit(); }
};

// A coordinator that has just started decides nothing for a lease.
TEST_F(JoiningTest, NoAgentGivesUpJoiningWithinALease) {
  BeginWith([](v1::HostStatus* first) { first->mutable_config()->set_join_timeout_ms(2'000); });
  Pass(kLease - kTick);
  EXPECT_FALSE(GaveUp());
  Pass(kTick);
  EXPECT_TRUE(GaveUp());
  EXPECT_EQ(LastOrder().exit().reason(),
            "gave up after 10s (--join-timeout, at least the lease): no answer from the primary at primary:2222");
}

TEST_F(JoiningTest, ANodeThatCannotStartSaysHowItsWaitEnds) {
  BeginWith([](v1::HostStatus* first) { first->mutable_config()->mutable_cannot_start()->set_exit_code(127); });
  Pass(absl::Seconds(1) + kTick);
  EXPECT_NE(
      Took<Note>().back().text.find("gives up after 10m (--join-timeout); this node cannot start its program: "
                                    "a job that has not begun ends once the coordinator answers"),
      std::string::npos);
}

// Its coordinator lives in the agent: there is no primary to wait for, and no address.
TEST_F(JoiningTest, AJobOfOneNodeNeverWaitsForAPrimary) {
  for (const bool was_in_job : {false, true}) {
    BeginWith([&](v1::HostStatus* first) {
      first->mutable_config()->set_single_node(true);
      first->mutable_config()->set_lease_ms(0);
      first->mutable_config()->set_join_timeout_ms(0);
      first->mutable_config()->set_coordinator_timeout_ms(0);
      if (was_in_job) first->mutable_memory()->mutable_epoch()->set_number(1);
    });
    Pass(absl::Seconds(1));
    EXPECT_FALSE(GaveUp());
    Connected();
    Give(Directive(5, 2));
    for (const Note& note : Took<Note>()) EXPECT_EQ(note.text.find(" at "), std::string::npos) << note.text;
  }
}

TEST_F(AgentCoreTest, AMuteCoordinatorIsGivenUp) {
  for (int i = 0; i < 920 * 10 && !(!Took<SendToHost>().empty() && LastOrder().has_exit()); ++i) {
    const bool connect = i == 0 || !Took<Connect>().empty();
    Forget();
    if (connect) Connected();
    Pass(kTick);
  }
  ASSERT_FALSE(Took<SendToHost>().empty());
  EXPECT_EQ(LastOrder().exit().exit_code(), 69);
}

TEST_F(AgentCoreTest, AStoppingAgentDoesNotWaitForACoordinator) {
  core_.OnDisconnected(now_, "refused", 0, &effects_);
  Pass(absl::Seconds(2));
  Connected();
  v1::Directive stop = Directive(5);
  stop.mutable_stop()->mutable_round()->set_number(1);
  Give(stop);
  Forget();
  for (int second = 0; second < 40; ++second) {
    Pass(absl::Seconds(1));
    stop.mutable_id()->set_seq(stop.id().seq() + 1);
    Give(stop);
  }
  for (const Note& note : Took<Note>()) EXPECT_EQ(note.text.find("waiting"), std::string::npos) << note.text;
}

// Anybody who answers at the port can refuse: an earlier job's coordinator that is ending still, or a stranger.
TEST_F(AgentCoreTest, ARefusalThatGoesOnEndsANewNode) {
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  EXPECT_FALSE(IsToldToExit());
  EXPECT_EQ(Took<Note>().back().text, "the token is wrong; this node tries again for 5s");
  Forget();
  Pass(kRefusalPatience - kTick);
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  EXPECT_FALSE(IsToldToExit());
  EXPECT_FALSE(Took<Connect>().empty());
  Pass(kTick);
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  EXPECT_EQ(LastOrder().exit().exit_code(), 77);
}

TEST_F(AgentCoreTest, ARefusalThatDoesNotGoOnIsForgotten) {
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  Pass(kRefusalPatience);
  Connected();
  core_.OnDisconnected(now_, "gone", 0, &effects_);
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  EXPECT_FALSE(IsToldToExit());
}

TEST_F(AgentCoreTest, ANodeThatIsNotRefusedAnyMoreSaysWhenItGivesUp) {
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  Pass(kRefusalPatience);
  core_.OnDisconnected(now_, "connection refused", 0, &effects_);
  Forget();
  Pass(absl::Seconds(10));
  EXPECT_THAT(Took<Note>().back().text,
              testing::HasSubstr("connection refused; gives up after 10m (--join-timeout)"));
}

// A node with two tokens is refused for good at every second attempt.
TEST_F(AgentCoreTest, AnAttemptWithTheOtherTokenIsNoEndOfRefusals) {
  for (const BootTime until = now_ + kRefusalPatience + kTick; now_ <= until;) {
    core_.OnDisconnected(now_, "trying the next token", 0, &effects_);
    Pass(kTick);
    core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
    Pass(kTick);
  }
  EXPECT_TRUE(IsToldToExit());
}

TEST_F(AgentCoreTest, AFaultOfItsOwnEndsANodeAtOnce) {
  core_.OnDisconnected(now_, "the port is in use", 69, &effects_);
  EXPECT_EQ(LastOrder().exit().exit_code(), 69);
}

TEST_F(AgentCoreTest, AMemberRefusedByAnotherJobWaitsForItsOwn) {
  Connected();
  Give(Run(5, 1));
  HostApplies();
  const int64_t lease = LastOrder().lease_deadline_boot_ns();
  core_.OnDisconnected(now_, "gone", 0, &effects_);
  Pass(absl::Seconds(1));
  Connected();
  Forget();
  v1::Directive refused = Directive(1, 9);  // its epoch is greater than ours
  refused.mutable_refused()->set_exit_code(77);
  refused.mutable_refused()->set_reason("run id 'job' differs from this job's 'other'");
  Give(refused);
  EXPECT_EQ(Took<Disconnect>().size(), 1u);
  Pass(absl::Seconds(2));
  EXPECT_FALSE(Took<Connect>().empty()) << "its own may be back";
  EXPECT_FALSE(LastOrder().has_exit());
  EXPECT_TRUE(LastOrder().has_start()) << "its workers run on";
  EXPECT_EQ(LastOrder().lease_deadline_boot_ns(), lease);
  EXPECT_EQ(core_.memory().epoch().number(), 1u) << "it follows its own job's coordinator";
  Connected();
  Give(Directive(6));
  EXPECT_EQ(core_.memory().applied().seq(), 6u);
}

TEST_F(AgentCoreTest, AMemberRefusedByTokenKeepsTrying) {
  Connected();
  Give(Directive(5));
  HostApplies();
  core_.OnDisconnected(now_, "gone", 0, &effects_);
  const BootTime end = now_ + absl::Milliseconds(900'000);
  while (now_ < end - absl::Seconds(10)) {
    Pass(absl::Seconds(5));
    core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
    ASSERT_FALSE(LastOrder().has_exit());
    Forget();
  }
  Pass(absl::Seconds(20));
  EXPECT_EQ(LastOrder().exit().exit_code(), 69);
  EXPECT_EQ(LastOrder().exit().reason(), "gave up after 15m (--coordinator-timeout): the token is wrong");
}

TEST_F(AgentCoreTest, AMemberWithoutAProgramObeysItsRefusal) {
  Connected();
  Give(Directive(5));
  HostApplies();
  v1::Directive refused = Directive(6);
  refused.mutable_refused()->set_exit_code(127);
  refused.mutable_refused()->set_reason("it cannot start its program");
  Give(refused);
  EXPECT_EQ(LastOrder().exit().exit_code(), 127);
}

TEST_F(AgentCoreTest, ANewNodeThatIsRefusedEndsAtOnce) {
  Connected();
  v1::Directive refused = Directive(1);
  refused.mutable_refused()->set_exit_code(77);
  refused.mutable_refused()->set_reason("run id 'job' differs from this job's 'other'");
  Give(refused);
  EXPECT_EQ(LastOrder().exit().exit_code(), 77);
}

// Else the next coordinator would wait for a lease of the one that ends.
TEST_F(AgentCoreTest, ANodeOfTheNextJobTriesAgainAndRemembersNothing) {
  Connected();
  v1::Directive refused = Directive(1);
  refused.mutable_refused()->set_reason("the job at this address is ending; waiting for the next one");
  refused.mutable_refused()->set_later(true);
  Give(refused);
  EXPECT_EQ(Took<Disconnect>().size(), 1u);
  Pass(absl::Seconds(1));
  EXPECT_FALSE(Took<Connect>().empty());
  EXPECT_FALSE(LastOrder().has_exit());
  EXPECT_FALSE(IsSet(core_.memory().epoch()));
}

// By its age a coordinator tells the former job from its own.
TEST_F(AgentCoreTest, ANodeSaysHowOldItsVerdictIs) {
  Connected();
  v1::Directive verdict = Directive(1);
  verdict.mutable_verdict()->set_exit_code(0);
  Give(verdict);
  HostApplies();
  core_.OnDisconnected(now_, "gone", 0, &effects_);
  now_ += absl::Seconds(7);
  effects_.clear();
  Connected();
  EXPECT_EQ(Took<SendToCoordinator>().back().status.verdict_age_ms(), 7000);
}

// Any program may answer at the coordinator's address, and say anything.
class NonsensicalRefusal : public AgentCoreTest, public ::testing::WithParamInterface<int> {};

TEST_P(NonsensicalRefusal, IsAFailureWithAShortReason) {
  Connected();
  v1::Directive refused = Directive(1);
  refused.mutable_refused()->set_exit_code(GetParam());
  refused.mutable_refused()->set_reason(std::string(300'000, 'r'));
  Give(refused);
  EXPECT_EQ(LastOrder().exit().exit_code(), 77);
  EXPECT_LT(LastOrder().exit().reason().size(), 5000u);
}

INSTANTIATE_TEST_SUITE_P(Codes, NonsensicalRefusal, ::testing::Values(0, -1, 256, 300));

TEST_F(AgentCoreTest, AStoredVerdictOutranksAnotherJobsRefusal) {
  Connected();
  v1::Directive verdict = Directive(5);
  verdict.mutable_verdict()->set_exit_code(7);
  verdict.mutable_verdict()->set_origin("worker");
  Give(verdict);
  HostApplies();
  core_.OnDisconnected(now_, "gone", 0, &effects_);
  Connected();
  v1::Directive refused = Directive(1, 2);
  refused.mutable_refused()->set_exit_code(77);
  refused.mutable_refused()->set_reason("run id 'job' differs from this job's 'other'");
  Give(refused);
  EXPECT_EQ(LastOrder().exit().exit_code(), 7);
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

TEST_F(AgentCoreTest, ADeadHostIsReportedUntilAcknowledged) {
  Connected();
  const v1::Directive answer = Directive(9);  // an answer to an earlier status
  core_.OnHostClosed(now_, &effects_);
  core_.OnHostSwept(now_, &effects_);
  Give(answer);
  EXPECT_FALSE(core_.finished());
  Give(Directive(10));
  EXPECT_TRUE(core_.finished());
}

}  // namespace
}  // namespace muster::agent
