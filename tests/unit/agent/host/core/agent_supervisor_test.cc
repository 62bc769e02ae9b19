#include "agent/host/core/agent_supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/effects.h"

namespace muster::host {
namespace {

constexpr absl::Duration kGiveUpAfter = absl::Minutes(5);
constexpr absl::Duration kNano = absl::Nanoseconds(1);
constexpr AgentSupervisor::Need kLeased{.lease = absl::Seconds(40)};
constexpr AgentSupervisor::Need kAlone{.waits_for_it = true};
constexpr AgentSupervisor::Need kAloneAndBusy{.waits_for_it = false};

class AgentSupervisorTest : public ::testing::Test {
 protected:
  AgentSupervisorTest() { EXPECT_FALSE(Start()); }

  AgentSupervisor::GivesUp Start(bool exiting = false) { return agent_.Start(now_, exiting, &effects_); }
  void Wait(absl::Duration duration) {
    now_ += duration;
    agent_.OnTick(duration, kLeased);
  }
  void StartAnother() {
    agent_.OnClosed(now_);
    EXPECT_FALSE(Start());
  }
  AgentSupervisor::GivesUp Fail() { return agent_.OnFailed(now_, "no process", false, &effects_); }
  AgentSupervisor::GivesUp Kill(const AgentSupervisor::Need& need = kLeased, bool exiting = false) {
    return agent_.KillSilent(now_, need, exiting, &effects_);
  }
  bool Hear(uint64_t number, uint64_t seq) {
    v1::HostDirective directive;
    directive.set_agent_number(number);
    directive.set_seq(seq);
    return agent_.Admit(directive);
  }
  v1::HostStatus Stamp(bool expects_config) {
    v1::HostStatus status;
    EXPECT_EQ(agent_.Stamp(&status), expects_config);
    return status;
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  AgentSupervisor agent_{kGiveUpAfter, false};
  Effects effects_;
};

TEST_F(AgentSupervisorTest, AgentsAreNumberedFromOne) {
  EXPECT_EQ(agent_.number(), 1u);
  agent_.OnClosed(now_);
  EXPECT_FALSE(Start());
  EXPECT_EQ(AllOf<StartAgent>(effects_).back().number, 2u);
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "agent 2 takes over");
}

TEST_F(AgentSupervisorTest, OnlyNewDirectivesOfTheNewestAgentAreObeyed) {
  EXPECT_TRUE(Hear(1, 7));
  EXPECT_FALSE(Hear(1, 7));
  EXPECT_FALSE(Hear(2, 8));
  EXPECT_FALSE(Start());
  EXPECT_FALSE(Hear(1, 8)) << "of the older agent";
  EXPECT_TRUE(Hear(2, 1)) << "each agent counts anew";
  agent_.OnClosed(now_);
  EXPECT_FALSE(Hear(2, 2)) << "there is no link";
}

TEST_F(AgentSupervisorTest, EachAgentGetsTheConfigurationOnce) {
  EXPECT_EQ(Stamp(true).seq(), 1u);
  EXPECT_TRUE(Hear(1, 5));
  EXPECT_EQ(Stamp(false).applied_seq(), 5u);
  EXPECT_FALSE(Start());
  const v1::HostStatus status = Stamp(true);
  EXPECT_EQ(status.agent_number(), 2u);
  EXPECT_EQ(status.seq(), 3u) << "counts on";
  EXPECT_EQ(status.applied_seq(), 0u);
}

TEST_F(AgentSupervisorTest, TooManyDeathsWithinTheWindowAreAFault) {
  for (int i = 1; i < kMaxAgentRestarts; ++i) EXPECT_FALSE(Start());
  const auto gives_up = Start();
  ASSERT_TRUE(gives_up);
  EXPECT_EQ(*gives_up, "the agent process died 5 times within 10s");
  EXPECT_EQ(AllOf<StartAgent>(effects_).size(), static_cast<size_t>(kMaxAgentRestarts));
  EXPECT_FALSE(Start(true)) << "an exiting host starts another one";
  now_ += kAgentRestartWindow + kNano;
  EXPECT_FALSE(Start());
}

TEST_F(AgentSupervisorTest, IfTheFirstCannotBeStartedTheHostGivesUp) {
  const auto gives_up = Fail();
  ASSERT_TRUE(gives_up);
  EXPECT_EQ(*gives_up, "cannot start the first agent: no process");
  EXPECT_FALSE(agent_.TakeRetry(now_ + kAgentRetry));
}

TEST_F(AgentSupervisorTest, AFailedStartIsRetriedAfterAPause) {
  StartAnother();
  EXPECT_FALSE(Fail());
  EXPECT_FALSE(agent_.attached());
  EXPECT_EQ(agent_.gone_at(), now_);
  EXPECT_FALSE(agent_.TakeRetry(now_ + kAgentRetry - kNano));
  EXPECT_TRUE(agent_.TakeRetry(now_ + kAgentRetry));
  EXPECT_FALSE(agent_.TakeRetry(now_ + kAgentRetry)) << "once";
}

TEST_F(AgentSupervisorTest, FailuresToStartEndWithTheTimeout) {
  StartAnother();
  EXPECT_FALSE(Fail());
  Wait(kGiveUpAfter - kNano);
  EXPECT_FALSE(Fail());
  Wait(kNano);
  const auto gives_up = Fail();
  ASSERT_TRUE(gives_up);
  EXPECT_EQ(*gives_up, "no agent could be started for 5m: no process");
}

TEST_F(AgentSupervisorTest, AHostThatWasStoppedHasNotTriedMeanwhile) {
  StartAnother();
  EXPECT_FALSE(Fail());
  now_ += kGiveUpAfter;
  EXPECT_FALSE(Fail());
}

TEST_F(AgentSupervisorTest, AnAgentThatSpeaksEndsTheFailures) {
  StartAnother();
  EXPECT_FALSE(Fail());
  Wait(kGiveUpAfter);
  EXPECT_FALSE(Start());
  EXPECT_TRUE(Hear(3, 1));
  EXPECT_FALSE(Fail()) << "counted anew";
}

TEST_F(AgentSupervisorTest, SilenceIsTooLongAfterHalfALease) {
  EXPECT_TRUE(Hear(1, 1));
  EXPECT_FALSE(agent_.OnTick(absl::Seconds(20) - kNano, kLeased));
  EXPECT_TRUE(agent_.OnTick(kNano, kLeased));
  EXPECT_FALSE(Hear(1, 1)) << "even a repetition is a sign of life";
  EXPECT_FALSE(agent_.OnTick(kNano, kLeased));
}

TEST_F(AgentSupervisorTest, TheFirstMessageMayTakeLonger) {
  const AgentSupervisor::Need short_lease{.lease = absl::Seconds(4)};
  EXPECT_FALSE(agent_.OnTick(kFirstWordLimit - kNano, short_lease));
  EXPECT_TRUE(agent_.OnTick(kNano, short_lease));
  EXPECT_TRUE(Hear(1, 1));
  EXPECT_TRUE(agent_.OnTick(absl::Seconds(2), short_lease));
}

TEST_F(AgentSupervisorTest, AnAgentWithoutALinkIsNotSilent) {
  agent_.OnClosed(now_);
  EXPECT_FALSE(agent_.OnTick(kGiveUpAfter, kLeased));
}

TEST_F(AgentSupervisorTest, WithoutALeaseOnlyAWaitCounts) {
  EXPECT_FALSE(agent_.OnTick(kLoneAgentSilence - kNano, kAlone));
  EXPECT_FALSE(agent_.OnTick(kLoneAgentSilence, kAloneAndBusy));
  EXPECT_FALSE(agent_.OnTick(kLoneAgentSilence - kNano, kAlone)) << "counted anew";
  EXPECT_TRUE(agent_.OnTick(kNano, kAlone));
}

TEST_F(AgentSupervisorTest, AgentsThatNeverSpeakEndWithTheTimeout) {
  EXPECT_FALSE(Kill());
  EXPECT_EQ(AllOf<KillAgent>(effects_).size(), 1u);
  EXPECT_FALSE(agent_.attached());
  Wait(kGiveUpAfter);
  EXPECT_FALSE(Start());
  const auto gives_up = Kill();
  ASSERT_TRUE(gives_up);
  EXPECT_EQ(*gives_up, "no agent has responded for 5m");
}

TEST_F(AgentSupervisorTest, SilenceAfterAMessageIsNoFailureToRespond) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Hear(agent_.number(), 1));
    EXPECT_FALSE(Kill());
    Wait(kGiveUpAfter);
    EXPECT_FALSE(Start());
  }
}

TEST_F(AgentSupervisorTest, ALoneNodeGoesOnTrying) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Kill(kAlone));
    Wait(kGiveUpAfter);
    EXPECT_FALSE(Start());
  }
}

TEST_F(AgentSupervisorTest, AnExitingHostCountsFromTheKill) {
  EXPECT_FALSE(agent_.gone_at());
  EXPECT_FALSE(Kill(kLeased, true));
  EXPECT_EQ(agent_.gone_at(), now_);
}

TEST_F(AgentSupervisorTest, TheMessageSaysWhatFollowsFromSilence) {
  agent_.SaySilent(kLeased, &effects_);
  EXPECT_THAT(AllOf<Note>(effects_).back().text, testing::EndsWith("stopping the workers and killing the agent"));
  agent_.SaySilent(kAlone, &effects_);
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "agent 1 has been silent for 10s: starting another");
}

// ---- agents that come by themselves

class ComingAgentsTest : public ::testing::Test {
 protected:
  void Come() { agent_.Take(&effects_); }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  AgentSupervisor agent_{kGiveUpAfter, true};
  Effects effects_;
};

TEST_F(ComingAgentsTest, TheNewestCountsHoweverManyCame) {
  for (uint64_t i = 1; i <= 3 * kMaxAgentRestarts; ++i) {
    Come();
    EXPECT_TRUE(agent_.Is(i));
    EXPECT_EQ(AllOf<StartAgent>(effects_).back().number, i);
  }
  agent_.OnClosed(now_);
  EXPECT_FALSE(agent_.attached());
  Come();
  EXPECT_TRUE(agent_.attached());
}

TEST_F(ComingAgentsTest, AnAbsenceMattersWhileAnAgentIsNeeded) {
  EXPECT_FALSE(agent_.OnTick(kGiveUpAfter, kAloneAndBusy));
  EXPECT_FALSE(agent_.StaysAway());
  EXPECT_FALSE(agent_.OnTick(kGiveUpAfter - kNano, kAlone));
  EXPECT_FALSE(agent_.StaysAway());
  EXPECT_FALSE(agent_.OnTick(kNano, kAlone));
  EXPECT_EQ(agent_.StaysAway(), "no agent from the sidecar has responded for 5m (--coordinator-timeout)");
}

TEST_F(ComingAgentsTest, AnAgentThatSpeaksEndsTheAbsence) {
  EXPECT_FALSE(agent_.OnTick(kGiveUpAfter, kAlone));
  Come();
  EXPECT_TRUE(agent_.StaysAway()) << "it may end without a word, like those before";
  v1::HostDirective directive;
  directive.set_agent_number(1);
  EXPECT_FALSE(agent_.Admit(directive)) << "nothing new";
  EXPECT_FALSE(agent_.StaysAway());
  agent_.OnClosed(now_);
  EXPECT_FALSE(agent_.OnTick(kGiveUpAfter - kNano, kAlone)) << "counted anew";
  EXPECT_FALSE(agent_.StaysAway());
}

TEST_F(ComingAgentsTest, TheMessageSaysThatTheLinkIsClosed) {
  Come();
  agent_.SaySilent(kLeased, &effects_);
  EXPECT_THAT(AllOf<Note>(effects_).back().text, testing::EndsWith("stopping the workers and closing its link"));
  agent_.SaySilent(kAlone, &effects_);
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "agent 1 has been silent for 10s: closing its link");
}

TEST(StartedAgentsTest, StayAwayOnlyBecauseTheyCannotBeStarted) {
  AgentSupervisor agent{kGiveUpAfter, false};
  EXPECT_FALSE(agent.OnTick(2 * kGiveUpAfter, kAlone));
  EXPECT_FALSE(agent.StaysAway());
}

}  // namespace
}  // namespace muster::host
