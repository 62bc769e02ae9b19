// When a sidecar calls its host, starts and kills agents, and ends.
#include "agent/process/core/sidecar_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/one_signal.h"
#include "base/exit_codes.h"
#include "tests/unit/effects.h"

namespace muster::agent {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kFirstWait = absl::Minutes(5);
constexpr absl::Duration kTick = absl::Milliseconds(100);

class SidecarCoreTest : public ::testing::Test {
 protected:
  SidecarCoreTest() { core_.Begin(now_, &effects_); }

  template <typename T>
  size_t Count() {
    return AllOf<T>(effects_).size();
  }
  void Forget() { effects_.clear(); }
  void Pass(absl::Duration time) {
    for (const BootTime until = now_ + time; now_ < until;) {
      now_ += kTick;
      core_.OnTick(now_, &effects_);
    }
  }
  // The host cannot be reached for that long.
  void PassAlone(absl::Duration time, const std::optional<HostResult>& left = std::nullopt) {
    for (const BootTime until = now_ + time; now_ < until && !core_.finished();) {
      now_ += kTick;
      Forget();
      core_.OnTick(now_, &effects_);
      if (Count<CallHost>() > 0) core_.OnNotReached(now_, "no socket", left, &effects_);
    }
  }
  void Miss(const std::optional<HostResult>& left = std::nullopt) {
    core_.OnNotReached(now_, "no socket", left, &effects_);
  }
  void Welcome(const std::string& host = "h1", int retryable = 0) {
    core_.OnWelcome(now_, host, retryable, &effects_);
  }
  void LoseAgent() { core_.OnAgentEnded(now_, &effects_); }
  void LoseLink() { core_.OnLinkClosed(now_, &effects_); }
  std::optional<int> Code() {
    const auto ends = AllOf<EndSidecar>(effects_);
    return ends.empty() ? std::nullopt : std::optional(ends.back().exit_code);
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  SidecarCore core_{"/run/host.sock", kFirstWait};
  SidecarEffects effects_;
};

TEST_F(SidecarCoreTest, TheHostIsCalledAtOnceAndThenAgainAndAgain) {
  EXPECT_EQ(Count<CallHost>(), 1u);
  Miss();
  Forget();
  Pass(kConnectRetry);
  EXPECT_EQ(Count<CallHost>(), 1u);
  Pass(absl::Seconds(10));
  EXPECT_EQ(Count<CallHost>(), 1u) << "the answer may take a while";
}

TEST_F(SidecarCoreTest, AHostThatNeverAnswersIsCalledAgain) {
  Forget();
  Pass(kAnswerLimit);
  EXPECT_EQ(Count<CallHost>(), 1u);
}

TEST_F(SidecarCoreTest, AWelcomeStartsAnAgent) {
  Welcome();
  EXPECT_EQ(Count<StartAgentOver>(), 1u);
  Forget();
  Pass(absl::Minutes(10));
  EXPECT_TRUE(effects_.empty()) << "nothing else is to be done";
}

TEST_F(SidecarCoreTest, WithoutAHostItGivesUp) {
  Miss();
  PassAlone(kFirstWait - 2 * kTick);
  EXPECT_FALSE(core_.finished());
  PassAlone(3 * kTick);
  EXPECT_EQ(Code(), kExitUnavailable);
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "gave up after 5m: no socket");
}

TEST_F(SidecarCoreTest, AHostThatWasThereIsWaitedForLess) {
  Welcome();
  LoseAgent();
  Miss();
  PassAlone(kReturnLimit + 2 * kTick);
  EXPECT_EQ(Code(), kExitUnavailable);
}

TEST_F(SidecarCoreTest, ARefusalIsTheEnd) {
  core_.OnRefused(now_, 64, "it differs", &effects_);
  EXPECT_EQ(Code(), 64);
  EXPECT_EQ(AllOf<Note>(effects_).back().text, "refused by the host at /run/host.sock: it differs");
}

// ---- results

TEST_F(SidecarCoreTest, TheHostsResultIsItsOwn) {
  Welcome();
  LoseAgent();
  Miss(HostResult{"h1", 7});
  EXPECT_EQ(Code(), 7);
}

TEST_F(SidecarCoreTest, AResultOfAnotherStartIsNot) {
  Miss(HostResult{"h0", 7});
  EXPECT_FALSE(Code());
  Welcome();
  LoseAgent();
  Miss(HostResult{"h0", 7});
  EXPECT_FALSE(Code());
}

TEST_F(SidecarCoreTest, AResultWaitsForTheAgent) {
  Welcome();
  LoseLink();
  Miss(HostResult{"h1", 7});
  EXPECT_FALSE(Code()) << "it has its last words to send";
  LoseAgent();
  PassAlone(kConnectRetry, HostResult{"h1", 7});
  EXPECT_EQ(Code(), 7);
}

TEST_F(SidecarCoreTest, APlatformsCodeReplacesThoseThatMayBeRetried) {
  Welcome("h1", 143);
  LoseAgent();
  Miss();
  PassAlone(kReturnLimit + 2 * kTick);
  EXPECT_EQ(Code(), 143);
}

TEST_F(SidecarCoreTest, AWorkersCodeIsNotReplaced) {
  Welcome("h1", 143);
  LoseAgent();
  Miss(HostResult{"h1", 7});
  EXPECT_EQ(Code(), 7);
}

// ---- agents

TEST_F(SidecarCoreTest, AnAgentThatEndsIsReplacedAtOnce) {
  Welcome();
  Pass(kQuickEnd);
  Forget();
  LoseAgent();
  EXPECT_EQ(Count<CallHost>(), 1u);
  Welcome();
  EXPECT_EQ(Count<StartAgentOver>(), 1u);
}

TEST_F(SidecarCoreTest, AgentsThatEndAtOnceAreReplacedAfterAPause) {
  for (int i = 0; i < kQuickEndsInARow; ++i) {
    Welcome();
    Forget();
    LoseAgent();
    EXPECT_EQ(Count<CallHost>(), i + 1 < kQuickEndsInARow ? 1u : 0u) << i;
  }
  Pass(kAgentRetry - kTick);
  EXPECT_EQ(Count<CallHost>(), 0u);
  Pass(kTick);
  EXPECT_EQ(Count<CallHost>(), 1u);
  Welcome();
  Pass(kQuickEnd);
  Forget();
  LoseAgent();
  EXPECT_EQ(Count<CallHost>(), 1u) << "this one has lived";
}

TEST_F(SidecarCoreTest, AnAgentThatCannotBeStartedIsTriedAgain) {
  Welcome();
  Forget();
  core_.OnAgentNotStarted(now_, "no process", &effects_);
  EXPECT_THAT(AllOf<Note>(effects_).back().text, HasSubstr("no process"));
  EXPECT_EQ(Count<CallHost>(), 0u);
  Pass(kAgentRetry);
  EXPECT_EQ(Count<CallHost>(), 1u);
  Welcome();
  EXPECT_EQ(Count<StartAgentOver>(), 1u);
}

// ---- an agent whose link is closed

TEST_F(SidecarCoreTest, AnAgentMayWaitForTheProofOfItsHostsEnd) {
  Welcome();
  Pass(kQuickEnd);
  Forget();
  LoseLink();
  EXPECT_EQ(Count<CallHost>(), 1u) << "perhaps a host lives";
  Miss();
  PassAlone(kReturnLimit / 2);
  EXPECT_EQ(Count<KillOwnAgent>(), 0u);
  EXPECT_FALSE(core_.finished());
}

TEST_F(SidecarCoreTest, AnAgentThatAnsweringHostHasDroppedMustEnd) {
  Welcome();
  Pass(kQuickEnd);
  LoseLink();
  Welcome();
  Forget();
  Pass(kLeaveLimit - kTick);
  EXPECT_EQ(Count<KillOwnAgent>(), 0u);
  Pass(kTick);
  EXPECT_EQ(Count<KillOwnAgent>(), 1u);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Count<KillOwnAgent>(), 1u) << "once";
  EXPECT_EQ(Count<StartAgentOver>(), 0u) << "not beside it";
  LoseAgent();
  EXPECT_EQ(Count<StartAgentOver>(), 1u);
}

TEST_F(SidecarCoreTest, AnAgentThatReportsItsHostsEndHasMoreTime) {
  Welcome();
  Pass(kQuickEnd);
  LoseLink();
  core_.OnHostEnded(now_, &effects_);
  Welcome("h2");
  Forget();
  Pass(kReportLimit - kTick);
  EXPECT_EQ(Count<KillOwnAgent>(), 0u);
  Pass(kTick);
  EXPECT_EQ(Count<KillOwnAgent>(), 1u);
}

// ---- signals

TEST_F(SidecarCoreTest, WithoutAHostASignalIsTheEnd) {
  core_.OnEndSignal(now_, "SIGTERM", &effects_);
  EXPECT_EQ(Code(), kExitLeft);
}

TEST_F(SidecarCoreTest, WithAHostTheFirstSignalWaitsForItAndTheSecondDoesNot) {
  Welcome();
  core_.OnEndSignal(now_, "SIGTERM", &effects_);
  EXPECT_FALSE(core_.finished());
  now_ += kOneSignal / 2;
  core_.OnEndSignal(now_, "SIGTERM", &effects_);
  EXPECT_FALSE(core_.finished()) << "the same request, passed on by process 1";
  now_ += kOneSignal;
  core_.OnEndSignal(now_, "SIGTERM", &effects_);
  EXPECT_EQ(Code(), kExitLeft);
  EXPECT_EQ(Count<KillOwnAgent>(), 1u);
}

TEST_F(SidecarCoreTest, AfterASignalAHostThatIsGoneIsNotWaitedFor) {
  Welcome();
  core_.OnEndSignal(now_, "SIGTERM", &effects_);
  LoseAgent();
  Miss();
  EXPECT_EQ(Code(), kExitLeft);
}

TEST_F(SidecarCoreTest, AfterASignalAHostThatLivesKeepsItsAgent) {
  Welcome();
  core_.OnEndSignal(now_, "SIGTERM", &effects_);
  Pass(kQuickEnd);
  LoseAgent();
  Forget();
  Welcome();
  EXPECT_EQ(Count<StartAgentOver>(), 1u) << "the host needs it to leave the job";
}

// ---- a job that was over when the sidecar was started again

TEST_F(SidecarCoreTest, AStrangersSuccessCountsOnceNoHostHasComeForAWhile) {
  const HostResult success{"h0", 0, true};
  Miss(success);
  PassAlone(kStrangersResultWait - kConnectRetry, success);
  EXPECT_FALSE(core_.finished());
  PassAlone(2 * kConnectRetry + 2 * kTick, success);
  EXPECT_EQ(Code(), 0);
}

TEST_F(SidecarCoreTest, AStrangersFailureDoesNotCount) {
  Miss(HostResult{"h0", 7, true});
  PassAlone(kFirstWait - 2 * kTick, HostResult{"h0", 7, true});
  EXPECT_FALSE(core_.finished()) << "its container may be started again";
}

TEST_F(SidecarCoreTest, ASuccessOfAnotherPodDoesNotCount) {
  Miss(HostResult{"h0", 0});
  PassAlone(kFirstWait - 2 * kTick, HostResult{"h0", 0});
  EXPECT_FALSE(core_.finished()) << "it lies in a volume that both pods have used";
}

TEST_F(SidecarCoreTest, AStrangersSuccessIsNothingToASidecarThatHasMetItsHost) {
  Welcome();
  LoseAgent();
  PassAlone(kReturnLimit, HostResult{"h0", 0, true});
  EXPECT_NE(Code(), 0);
}

}  // namespace
}  // namespace muster::agent
