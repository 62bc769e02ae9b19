// An agent that waits for its coordinator, or is refused by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "agent/process/core/agent_core.h"
#include "base/wire/ids.h"
#include "tests/unit/agent/process/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

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
  EXPECT_EQ(said(),
            "still waiting after 5s: connecting to the primary (node rank 0) at primary:2222; gives up after 10m "
            "(--join-timeout)");
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
            "gave up after 10s (--join-timeout, at least the lease): no answer from the primary (node rank 0) at "
            "primary:2222");
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

}  // namespace
}  // namespace muster::agent
