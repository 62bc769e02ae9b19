// What an agent does when its host has died, or may have.
#include <gtest/gtest.h>

#include "agent/process/core/agent_core.h"
#include "base/wire/ids.h"
#include "tests/unit/agent/process/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

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
