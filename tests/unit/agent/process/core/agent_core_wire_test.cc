// An agent and a coordinator of another version or protocol, and texts that are sent only once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/process/core/agent_core.h"
#include "base/crypto/held.h"
#include "base/wire/ids.h"
#include "base/wire/takeover.h"
#include "tests/unit/effects.h"

namespace muster::agent {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);
constexpr size_t kTextBytes = 4096;  // for each of a failure's three texts
constexpr int64_t kQuietBeatBytes = 1024;

// One node's agent, its host, and the coordinator that it is connected to.
class Node {
 public:
  explicit Node(absl::Duration lease = kLease, uint64_t entropy = 7, const std::string& cannot_start = "",
                absl::Duration coordinator_timeout = absl::Minutes(15))
      : core_(entropy) {
    host_.set_host_id("h");
    host_.set_agent_number(1);
    host_.set_offer_port(4000);
    host_.mutable_memory()->set_joined_boot_ns(ToBootNanos(now_));
    v1::NodeConfig* config = host_.mutable_config();
    config->set_run_id("job");
    config->set_role(v1::ROLE_TRAINER);
    config->set_lease_ms(absl::ToInt64Milliseconds(lease));
    config->set_reconnect_grace_ms(2000);
    config->set_join_timeout_ms(600'000);
    config->set_coordinator_timeout_ms(absl::ToInt64Milliseconds(coordinator_timeout));
    if (!cannot_start.empty()) {
      config->mutable_cannot_start()->set_exit_code(127);
      config->mutable_cannot_start()->set_error_text(cannot_start);
    }
    Host();
    host_.clear_config();
    core_.OnConnected(now_, "10.0.0.2", &effects_);
  }

  void Host() {
    host_.set_seq(host_.seq() + 1);
    core_.OnHostStatus(now_, host_, &effects_);
  }

  void HostApplies() {
    *host_.mutable_memory() = Newest<SendToHost>().directive.memory();
    Host();
  }

  v1::Directive Directive(uint64_t seq) {
    v1::Directive directive;
    directive.set_protocol(kProtocol);
    directive.mutable_id()->mutable_epoch()->set_number(1);
    directive.mutable_id()->set_seq(seq);
    *directive.mutable_echo() = Status().id();
    directive.mutable_lease()->set_duration_ms(absl::ToInt64Milliseconds(kLease));
    directive.mutable_wait()->set_reason("waiting");
    return directive;
  }

  v1::Directive Run(uint64_t seq, int rank, int nodes) {
    v1::Directive directive = Directive(seq);
    v1::Round* run = directive.mutable_run();
    run->mutable_id()->set_number(1);
    run->mutable_id()->mutable_epoch()->set_number(1);
    if (rank >= 0) run->set_node_rank(rank);
    run->set_node_count(nodes);
    return directive;
  }

  void Give(const v1::Directive& directive) {
    core_.OnDirective(now_, directive, &effects_);
    HostApplies();
  }

  // Its worker of round 1 fails, with all three texts at full length.
  void Fail() {
    *host_.mutable_started() = host_.memory().last().id();
    host_.set_outcome(v1::OUTCOME_FAILED);
    v1::Failure* failure = host_.mutable_failure();
    *failure->mutable_round() = host_.started();
    failure->set_exit_code(1);
    failure->set_error_text(std::string(kTextBytes, 'e'));
    failure->set_callstack(std::string(kTextBytes, 'c'));
    failure->set_last_output(std::string(kTextBytes, 'o'));
    Host();
  }

  void Beat() { Pass(absl::Seconds(1)); }

  void Pass(absl::Duration duration) {
    const BootTime until = now_ + duration;
    while (now_ < until && !core_.finished()) {
      now_ += kTick;
      Host();
      core_.OnTick(now_, &effects_);
    }
  }

  void Reconnect() {
    core_.OnDisconnected(now_, "away", 0, &effects_);
    Pass(absl::Seconds(1));
    core_.OnConnected(now_, "10.0.0.2", &effects_);
  }

  template <typename T>
  T Newest() {
    return AllOf<T>(effects_).back();
  }
  template <typename T>
  size_t Count() {
    return AllOf<T>(effects_).size();
  }
  v1::AgentStatus Status() { return Newest<SendToCoordinator>().status; }
  v1::HostDirective Order() { return Newest<SendToHost>().directive; }
  int Said(const std::string& text) {
    const auto notes = AllOf<Note>(effects_);
    return static_cast<int>(
        std::count_if(notes.begin(), notes.end(), [&](const Note& n) { return absl::StrContains(n.text, text); }));
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  v1::HostStatus host_;
  AgentCore core_;
  Effects effects_;
};

TEST(OtherProtocols, ANewNodeEndsWithBothNumbersNamed) {
  Node node;
  v1::Directive foreign = node.Run(1, 0, 1);
  foreign.set_protocol(kProtocol + 1);
  node.Give(foreign);
  EXPECT_FALSE(node.Order().has_start());
  ASSERT_TRUE(node.Order().has_exit());
  EXPECT_EQ(node.Order().exit().exit_code(), 77);
  EXPECT_TRUE(absl::StrContains(node.Order().exit().reason(), absl::StrCat("protocol ", kProtocol + 1)));
}

TEST(OtherProtocols, AMemberKeepsItsLeaseAndTriesAgain) {
  Node node;
  node.Give(node.Run(1, 0, 2));
  const int64_t deadline = node.Order().lease_deadline_boot_ns();
  node.Pass(absl::Seconds(1));
  v1::Directive foreign = node.Directive(2);
  foreign.mutable_stop()->mutable_round()->set_number(1);
  foreign.set_protocol(kProtocol + 1);
  const size_t connects = node.Count<Connect>();
  node.Give(foreign);
  EXPECT_FALSE(node.Order().has_stop());
  EXPECT_FALSE(node.Order().has_exit());
  EXPECT_EQ(node.Order().lease_deadline_boot_ns(), deadline);
  EXPECT_EQ(node.Count<Disconnect>(), 1u);
  node.Pass(absl::Seconds(1));
  EXPECT_GT(node.Count<Connect>(), connects);
}

TEST(OtherProtocols, ARefusalIsUnderstoodInAnyProtocol) {
  Node node;
  v1::Directive refused = node.Directive(1);
  refused.set_protocol(kProtocol + 1);
  refused.mutable_refused()->set_exit_code(77);
  refused.mutable_refused()->set_reason("use one version");
  node.Give(refused);
  EXPECT_EQ(node.Order().exit().reason(), "use one version");
}

// The order of a later version is an unknown field, so the directive seems to have none.
TEST(OtherProtocols, AnUnknownOrderIsNeitherAppliedNorGrantsALease) {
  Node node;
  node.Give(node.Run(1, 0, 2));
  const int64_t deadline = node.Order().lease_deadline_boot_ns();
  node.Pass(absl::Seconds(1));
  for (uint64_t seq = 2; seq < 5; ++seq) {
    v1::Directive unknown = node.Directive(seq);
    unknown.clear_order();
    node.Give(unknown);
  }
  node.Beat();
  EXPECT_EQ(node.Status().applied().seq(), 1u);
  EXPECT_EQ(node.Order().lease_deadline_boot_ns(), deadline);
  EXPECT_TRUE(node.Order().has_start()) << "the earlier directive still applies";
  EXPECT_EQ(node.Said("does not know"), 1) << "logged once";
}

TEST(HeldDetails, FailureTextsTravelUntilTheCoordinatorHasThem) {
  Node node;
  node.Give(node.Run(1, 0, 2));
  node.Fail();
  node.Beat();
  EXPECT_GT(node.Status().ByteSizeLong(), 3 * kTextBytes) << "no directive has confirmed the texts";
  v1::Directive held = node.Directive(2);
  held.set_held_failure_texts(node.Status().failure().texts_digest());
  node.Give(held);
  node.Beat();
  EXPECT_LT(node.Status().ByteSizeLong(), kQuietBeatBytes);
  EXPECT_EQ(node.Status().failure().exit_code(), 1);
  EXPECT_TRUE(node.Status().failure().texts_left_out());
  node.host_.mutable_failure()->set_last_output("more of it");
  node.Beat();
  EXPECT_EQ(node.Status().failure().last_output(), "more of it") << "the new texts have another digest";
}

TEST(HeldDetails, AForgetfulCoordinatorGetsTheTextsAgain) {
  Node node;
  node.Give(node.Run(1, 0, 2));
  node.Fail();
  v1::Directive held = node.Directive(2);
  held.set_held_failure_texts(node.Status().failure().texts_digest());
  node.Give(held);
  node.Give(node.Directive(3));
  node.Beat();
  EXPECT_FALSE(node.Status().failure().texts_left_out());
}

TEST(HeldDetails, AnotherCoordinatorGetsEverything) {
  Node node;
  node.Give(node.Run(1, 0, 2));
  node.Fail();
  v1::Directive verdict = node.Directive(2);
  verdict.set_held_failure_texts(node.Status().failure().texts_digest());
  verdict.mutable_verdict()->set_exit_code(1);
  *verdict.mutable_verdict()->mutable_root_cause() = node.Status().failure();
  verdict.mutable_verdict()->set_digest(DigestOf(verdict.verdict()));
  verdict.set_held_verdict(verdict.verdict().digest());
  node.Give(verdict);
  node.Beat();
  EXPECT_TRUE(node.Status().has_verdict());
  EXPECT_LT(node.Status().ByteSizeLong(), kQuietBeatBytes);
  node.Reconnect();
  EXPECT_GT(node.Status().ByteSizeLong(), 6 * kTextBytes);
  EXPECT_EQ(node.Status().verdict().root_cause().error_text().size(), kTextBytes);
}

TEST(HeldDetails, StartErrorsTravelUntilTheCoordinatorHasThem) {
  Node node(kLease, 7, std::string(kTextBytes, 'e'));
  EXPECT_EQ(node.Status().cannot_start().error_text().size(), kTextBytes);
  v1::Directive held = node.Directive(1);
  held.set_held_cannot_start_texts(node.Status().cannot_start().texts_digest());
  node.Give(held);
  node.Beat();
  EXPECT_LT(node.Status().ByteSizeLong(), kQuietBeatBytes);
  EXPECT_EQ(node.Status().cannot_start().exit_code(), 127);
  node.Reconnect();
  EXPECT_EQ(node.Status().cannot_start().error_text().size(), kTextBytes) << "another one may answer";
}

TEST(HeldDetails, ABriefVerdictKeepsTheStoredDetails) {
  Node node;
  v1::Directive verdict = node.Directive(1);
  verdict.mutable_verdict()->set_exit_code(3);
  verdict.mutable_verdict()->mutable_root_cause()->set_error_text("why");
  verdict.mutable_verdict()->set_digest(5);
  node.Give(verdict);
  v1::Directive again = node.Directive(2);
  *again.mutable_verdict() = Brief(verdict.verdict());
  node.Give(again);
  EXPECT_EQ(node.core_.memory().verdict().root_cause().error_text(), "why");
}

// ---- many agents that reconnect to one coordinator

// Times of the connection attempts of a member, or of a spare at that place in line, after the coordinator's end,
// if nobody answers.
std::vector<absl::Duration> Attempts(int rank, int place_in_line, int nodes, absl::Duration lease,
                                     absl::Duration coordinator_timeout = absl::Minutes(15)) {
  Node node(lease, static_cast<uint64_t>(rank + place_in_line), "", coordinator_timeout);
  v1::Directive told = node.Directive(1);
  if (rank < 0) {
    told.mutable_wait()->set_place_in_line(place_in_line);
    *told.mutable_greatest() = node.Run(1, -1, nodes).run();
  } else {
    told = node.Run(1, rank, nodes);
  }
  node.Give(told);
  node.effects_.clear();
  const BootTime end = node.now_;
  node.core_.OnDisconnected(node.now_, "away", 0, &node.effects_);
  std::vector<absl::Duration> attempts;
  while (attempts.size() < 3 && node.now_ < end + absl::Minutes(2)) {
    node.now_ += kTick;
    node.Host();
    node.core_.OnTick(node.now_, &node.effects_);
    if (node.Count<Connect>() == 0) continue;
    attempts.push_back(node.now_ - end);
    node.effects_.clear();
    node.core_.OnDisconnected(node.now_, "refused", 0, &node.effects_);
  }
  return attempts;
}

TEST(Reconnects, AFewNodesReconnectWithinASecond) {
  for (const int rank : {0, 100, 199}) {
    const std::vector<absl::Duration> attempts = Attempts(rank, 0, 200, kLease);
    ASSERT_EQ(attempts.size(), 3u);
    EXPECT_LE(attempts[2], absl::Seconds(1)) << rank;
  }
}

TEST(Reconnects, ThousandsReconnectBeforeTheLeaseEnds) {
  constexpr int kNodes = 10'000;
  constexpr int kStep = 100;  // one node in a hundred stands for all of them
  const absl::Duration lease = LeaseForNodes(kNodes);
  std::map<int64_t, int> in_second;
  absl::Duration last;
  for (int rank = 0; rank < kNodes; rank += kStep) {
    const std::vector<absl::Duration> attempts = Attempts(rank, 0, kNodes, lease);
    ASSERT_EQ(attempts.size(), 3u);
    EXPECT_LE(attempts[0], absl::Milliseconds(1200))
        << "a lost connection alone must be restored within the reconnect grace";
    in_second[absl::ToInt64Seconds(attempts[1])] += kStep;
    last = std::max(last, attempts[1]);
    EXPECT_LE(attempts[2] - attempts[1], lease / 3 + absl::Seconds(1))
        << "an agent that missed its turn tries again";
  }
  for (const auto& [second, agents] : in_second) EXPECT_LE(agents, 2 * kNodes / (lease / 3 / absl::Seconds(1)));
  EXPECT_LT(last, lease * 2 / 3) << "then its workers get their first signal";
}

TEST(Reconnects, SparesReconnectAfterTheMembers) {
  constexpr int kNodes = 2000;
  const absl::Duration lease = LeaseForNodes(kNodes);
  const std::vector<absl::Duration> member = Attempts(kNodes - 1, 0, kNodes, lease);
  const std::vector<absl::Duration> spare = Attempts(-1, 1000, kNodes, lease);
  ASSERT_EQ(member.size(), 3u);
  ASSERT_EQ(spare.size(), 3u);
  EXPECT_GT(spare[1], member[1] + absl::Seconds(1));
}

// No agent may give up before its turn to reconnect.
TEST(Reconnects, AShortTimeoutAllowsTwoMoreAttempts) {
  constexpr int kNodes = 5000;
  constexpr absl::Duration kTimeout = absl::Seconds(10);
  std::map<int64_t, int> in_tenth;
  for (int place = 1; place <= kNodes; place += 50) {
    const std::vector<absl::Duration> spare = Attempts(-1, place, kNodes, LeaseForNodes(kNodes), kTimeout);
    ASSERT_EQ(spare.size(), 3u) << place;
    EXPECT_LT(spare[2], kTimeout) << place;
    ++in_tenth[spare[1] / absl::Milliseconds(100)];
  }
  EXPECT_GE(in_tenth.size(), 8u) << "and they are spread all the same";
  const std::vector<absl::Duration> member = Attempts(kNodes - 1, 0, kNodes, LeaseForNodes(kNodes), kTimeout);
  ASSERT_EQ(member.size(), 3u);
  EXPECT_LT(member[2], kTimeout);
}

// Number of a member's connection attempts within `time` while another job's coordinator refuses each of them.
size_t AttemptsAtAnotherJob(int nodes, absl::Duration lease, absl::Duration time) {
  Node node(lease);
  node.Give(node.Run(1, 0, nodes));
  node.core_.OnDisconnected(node.now_, "away", 0, &node.effects_);
  const BootTime end = node.now_ + time;
  size_t connects = node.Count<Connect>();
  const size_t before = connects;
  while (node.now_ < end) {
    node.Pass(kTick);
    if (node.Count<Connect>() == connects) continue;
    connects = node.Count<Connect>();
    node.core_.OnDisconnected(node.now_, "the token is not this job's", 77, &node.effects_);
  }
  EXPECT_FALSE(node.Order().has_exit());
  return connects - before;
}

TEST(Reconnects, RetriesSlowDownOnceTheLeaseHasEnded) {
  EXPECT_GE(AttemptsAtAnotherJob(2, kLease, kLease), 9u)
      << "its own coordinator may return in time for its workers";
  const size_t in_minutes = AttemptsAtAnotherJob(2, kLease, absl::Minutes(5));
  EXPECT_LE(in_minutes, 60u) << "the other job's coordinator must not be flooded";
  EXPECT_GE(in_minutes, 30u) << "its own coordinator must be found soon";
  EXPECT_LE(AttemptsAtAnotherJob(10'000, LeaseForNodes(10'000), LeaseForNodes(10'000)), 5u)
      << "thousands of them take turns";
}

TEST(Reconnects, TheLeaseGrowsFromAFewThousandNodes) {
  EXPECT_EQ(LeaseForNodes(1), kDefaultLease);
  EXPECT_EQ(LeaseForNodes(2000), kDefaultLease);
  EXPECT_EQ(LeaseForNodes(5000), absl::Seconds(20));
  EXPECT_EQ(LeaseForNodes(10'000), absl::Seconds(35));
  EXPECT_EQ(LeaseForNodes(1'000'000), LeaseForNodes(kMostAgents)) << "no coordinator admits more";
}

}  // namespace
}  // namespace muster::agent
