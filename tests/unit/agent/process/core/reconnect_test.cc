// When an agent tries again, and what it knows of the statuses that it has sent.
#include "agent/process/core/reconnect.h"

#include <gtest/gtest.h>

#include "agent/process/core/sent_statuses.h"
#include "base/crypto/held.h"

namespace muster::agent {
namespace {

const BootTime kStart = absl::UnixEpoch();

v1::Round RoundOf(int nodes, int rank) {
  v1::Round round;
  round.set_node_count(nodes);
  if (rank >= 0) round.set_node_rank(rank);
  return round;
}

NodeTurn NodeOf(const v1::Round& last) {
  return {.last = &last,
          .lease = absl::Seconds(9),
          .lease_deadline = kStart,
          .give_up_after = absl::Minutes(10),
          .reconnect_grace = absl::Seconds(2)};
}

TEST(ReconnectDelaysTest, TheyGrowToALimitAndAreShortAgainAfterADirective) {
  const v1::Round alone = RoundOf(1, 0);
  const NodeTurn node = NodeOf(alone);
  ReconnectDelays delays(1);
  EXPECT_LE(delays.Next(node), kMinReconnectDelay);
  for (int i = 0; i < 10; ++i) delays.NoteAttempt();
  const absl::Duration late = delays.Next(node);
  EXPECT_GE(late, kMaxReconnectDelay * 2 / 3);
  EXPECT_LE(late, kMaxReconnectDelay);
  delays.NoteAnswer();
  EXPECT_LE(delays.Next(node), kMinReconnectDelay);
}

TEST(ReconnectDelaysTest, FirstAttemptsOfAVeryLargeJobAreSpreadWithinHalfTheGrace) {
  const v1::Round first = RoundOf(100'000, 0), last = RoundOf(100'000, 99'999);
  ReconnectDelays delays(1);
  EXPECT_LE(delays.Next(NodeOf(first)), kMinReconnectDelay);
  const absl::Duration turn = delays.Next(NodeOf(last));
  EXPECT_GT(turn, absl::Milliseconds(900));
  EXPECT_LE(turn, absl::Seconds(1));
}

TEST(ReconnectDelaysTest, FurtherAttemptsOfAVeryLargeJobTakeTurnsWithinAThirdOfTheLease) {
  const v1::Round last = RoundOf(100'000, 50'000);
  ReconnectDelays delays(1);
  delays.NoteAttempt();
  const absl::Duration first = delays.Next(NodeOf(last));
  EXPECT_GE(first, absl::Seconds(1.5)) << "the turn of the node in the middle";
  EXPECT_LE(first, absl::Seconds(1.5) + kMinReconnectDelay);
  delays.NoteAttempt();
  EXPECT_EQ(delays.Next(NodeOf(last)), absl::Seconds(3)) << "a whole period later";
}

// The turns of 250 nodes take as long as the longest delay.
TEST(ReconnectDelaysTest, ASmallJobsNodesAwaitNoTurn) {
  for (const int nodes : {250, 251}) {
    const v1::Round last = RoundOf(nodes, nodes - 1);
    ReconnectDelays delays(1);
    delays.NoteAttempt();
    EXPECT_EQ(delays.Next(NodeOf(last)) <= kMinReconnectDelay, nodes == 250) << nodes;
  }
}

TEST(ReconnectDelaysTest, ARefusalByAnotherJobIsFollowedByQuickAttemptsWhileTheLeaseLasts) {
  const v1::Round alone = RoundOf(1, 0);
  const NodeTurn node = NodeOf(alone);
  ReconnectDelays delays(1);
  for (int i = 0; i < 3; ++i) EXPECT_LE(delays.AfterRefusal(kStart - absl::Seconds(1), node), kRefusedRetry);
}

TEST(ReconnectDelaysTest, AfterTheLeaseADelayAfterARefusalDoublesToItsLimit) {
  const v1::Round alone = RoundOf(1, 0);
  const NodeTurn node = NodeOf(alone);
  ReconnectDelays delays(1);
  absl::Duration limit = kRefusedRetry;
  for (int i = 0; i < 6; ++i, limit = std::min(2 * limit, kMaxRefusedRetry)) {
    const absl::Duration delay = delays.AfterRefusal(kStart, node);
    EXPECT_GE(delay, limit * 2 / 3);
    EXPECT_LE(delay, limit);
  }
  delays.NoteNotRefused();
  EXPECT_LE(delays.AfterRefusal(kStart, node), kRefusedRetry);
}

TEST(CoordinatorLinkTest, ItIsSilentOnlyWhileItIsUp) {
  CoordinatorLink link;
  link.Begin(kStart, false);
  EXPECT_TRUE(link.IsDue(kStart));
  link.Connecting(kStart);
  EXPECT_FALSE(link.IsDue(kStart));
  EXPECT_FALSE(link.HasHungSince(kStart + absl::Seconds(5), absl::Seconds(5)));
  EXPECT_TRUE(link.HasHungSince(kStart + absl::Seconds(6), absl::Seconds(5)));
  link.Up(kStart + absl::Seconds(6));
  EXPECT_FALSE(link.IsSilent(kStart + absl::Seconds(8), absl::Seconds(2)));
  EXPECT_TRUE(link.IsSilent(kStart + absl::Seconds(9), absl::Seconds(2)));
  link.Heard(kStart + absl::Seconds(9));
  EXPECT_FALSE(link.IsSilent(kStart + absl::Seconds(11), absl::Seconds(2)));
  link.Down("cut", kStart + absl::Seconds(20));
  EXPECT_FALSE(link.IsSilent(kStart + absl::Minutes(1), absl::Seconds(2)));
  EXPECT_FALSE(link.IsDue(kStart + absl::Seconds(19)));
  EXPECT_TRUE(link.IsDue(kStart + absl::Seconds(20)));
  EXPECT_EQ(link.why_down(), "cut");
}

TEST(CoordinatorLinkTest, AReturnIsTakenOnceForEachConnectionAfterTheFirst) {
  CoordinatorLink link;
  link.Begin(kStart, false);
  link.Up(kStart);
  EXPECT_FALSE(link.TakeReturn());
  link.Up(kStart);
  EXPECT_TRUE(link.TakeReturn());
  EXPECT_FALSE(link.TakeReturn());
}

TEST(CoordinatorLinkTest, RefusalsGoOnUnlessTheyAreFarApart) {
  CoordinatorLink link;
  link.Begin(kStart, false);
  EXPECT_TRUE(link.NoteRefused(kStart)) << "the first one";
  const BootTime last = kStart + kRefusalGap;
  EXPECT_FALSE(link.NoteRefused(last));
  EXPECT_EQ(link.refused_since(), kStart);
  const BootTime later = last + kRefusalGap + absl::Nanoseconds(1);
  EXPECT_TRUE(link.NoteRefused(later));
  EXPECT_EQ(link.refused_since(), later);
  link.Up(later);
  EXPECT_TRUE(link.NoteRefused(later)) << "it was accepted in between";
}

TEST(SentStatusesTest, OnlyThisAgentsStatusesCount) {
  SentStatuses sent;
  v1::AgentStatus status;
  sent.BeginSession();
  sent.Stamp(kStart, 2, "digest", &status);
  EXPECT_EQ(status.id().seq(), 1u);
  EXPECT_EQ(status.id().agent_number(), 2u);
  EXPECT_FALSE(sent.SessionIsSeen());
  v1::Directive directive;
  directive.mutable_echo()->set_agent_number(1);
  directive.mutable_echo()->set_seq(1);
  sent.OnDirective(directive);
  EXPECT_FALSE(sent.SessionIsSeen()) << "another agent's";
  *directive.mutable_echo() = status.id();
  sent.OnDirective(directive);
  EXPECT_TRUE(sent.SessionIsSeen());
  EXPECT_EQ(sent.WhenSent(2, status.id()), kStart);
  EXPECT_EQ(sent.WhenSent(3, status.id()), std::nullopt);
  sent.BeginSession();
  EXPECT_FALSE(sent.SessionIsSeen()) << "the new session has seen nothing";
}

TEST(SentStatusesTest, AnEchoOfAStatusThatWasNotSentIsIgnored) {
  SentStatuses sent;
  v1::AgentStatus status;
  sent.BeginSession();
  sent.Stamp(kStart, 2, "digest", &status);
  v1::Directive directive;
  directive.mutable_echo()->set_agent_number(2);
  directive.mutable_echo()->set_seq(uint64_t{1} << 60);
  sent.OnDirective(directive);
  sent.BeginSession();
  EXPECT_FALSE(sent.SessionIsSeen());
  EXPECT_FALSE(sent.IsSeen(1));
}

TEST(SentStatusesTest, TextsAreLeftOutOnceTheSessionsCoordinatorHoldsThem) {
  SentStatuses sent;
  v1::AgentStatus status;
  status.mutable_failure()->set_error_text("why");
  const v1::AgentStatus whole = status;
  sent.BeginSession();
  sent.Stamp(kStart, 1, "", &status);
  EXPECT_EQ(status.failure().error_text(), "why");
  v1::Directive directive;
  directive.set_held_failure_texts(DigestOfTexts(whole.failure()));
  sent.OnDirective(directive);
  status = whole;
  sent.Stamp(kStart, 1, "", &status);
  EXPECT_EQ(status.failure().error_text(), "");
  sent.BeginSession();
  status = whole;
  sent.Stamp(kStart, 1, "", &status);
  EXPECT_EQ(status.failure().error_text(), "why");
}

}  // namespace
}  // namespace muster::agent
