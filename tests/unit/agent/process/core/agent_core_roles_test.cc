// Which node is the primary, and what its agent does about the port.
#include <gtest/gtest.h>

#include "agent/process/core/agent_core.h"
#include "base/wire/ids.h"
#include "tests/unit/agent/process/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

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

}  // namespace
}  // namespace muster::agent
