// What the agent orders its host, what it learns from directives, and when its host or coordinator counts as
// silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "agent/process/core/agent_core.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "tests/unit/agent/process/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

TEST_F(AgentCoreTest, TheHostHearsFromItsAgentTwiceASecond) {
  Connected();
  Give(Directive(1));
  Forget();
  Pass(absl::Seconds(5));
  EXPECT_EQ(Took<SendToHost>().size(), 10u);
}

// A host takes an agent that is silent for half a lease for frozen.
TEST_F(AgentCoreTest, UnderAShortLeaseTheHostHearsMoreOften) {
  Connected();
  v1::Directive wait = Directive(1);
  wait.mutable_settings()->set_lease_ms(1600);
  Give(wait);
  EXPECT_EQ(LastOrder().lease_ms(), 1600);
  Forget();
  Pass(absl::Seconds(2));
  EXPECT_EQ(Took<SendToHost>().size(), 10u) << "an eighth of the lease";
}

TEST_F(AgentCoreTest, TheFirstOrderIsToHold) {
  Pass(kTick);
  EXPECT_TRUE(LastOrder().hold());
  EXPECT_EQ(LastOrder().agent_number(), 1u);
  EXPECT_EQ(LastOrder().lease_ms(), absl::ToInt64Milliseconds(kLease));
  EXPECT_EQ(LastOrder().lease_deadline_boot_ns(), 0) << "no lease is granted yet";
}

TEST_F(AgentCoreTest, ANewAgentKeepsTheLeaseOfTheOneBefore) {
  AgentCore next(8);
  v1::HostStatus first = host_;
  *first.mutable_config() = core_.config();
  first.set_lease_deadline_boot_ns(ToBootNanos(now_ + absl::Seconds(7)));
  Forget();
  next.OnHostStatus(now_, first, &effects_);
  next.OnTick(now_ + absl::Seconds(1), &effects_);
  EXPECT_EQ(FromBootNanos(LastOrder().lease_deadline_boot_ns()), now_ + absl::Seconds(7));
}

TEST_F(AgentCoreTest, AnotherNodeIsThePrimaryUnlessTheHostSaysSo) {
  const auto serves = [this](v1::NodeConfig::Serves serves, bool single, bool before) {
    AgentCore core(8);
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    first.mutable_config()->set_serves(serves);
    first.mutable_config()->set_single_node(single);
    first.mutable_memory()->set_served(before);
    core.OnHostStatus(now_, first, &effects_);
    return core.memory().served();
  };
  EXPECT_TRUE(serves(v1::NodeConfig::SERVES_YES, false, false));
  EXPECT_TRUE(serves(v1::NodeConfig::SERVES_NO, true, false));
  EXPECT_FALSE(serves(v1::NodeConfig::SERVES_NO, false, false));
  EXPECT_FALSE(serves(v1::NodeConfig::SERVES_NO, false, true));
}

// Its next message would be taken for a sign of life.
TEST_F(AgentCoreTest, AHostThatIsBeingEndedIsNoLongerHeard) {
  Connected();
  core_.OnHostClosed(now_, &effects_);
  host_.set_flushed(true);
  Host();
  EXPECT_FALSE(core_.finished());
  core_.OnHostClosed(now_, &effects_);
  EXPECT_EQ(Took<EndHost>().size(), 1u);
  Forget();
  Pass(absl::Seconds(2));
  EXPECT_TRUE(Took<SendToHost>().empty());
}

TEST_F(AgentCoreTest, AnOlderHostStatusIsIgnored) {
  Connected();
  v1::HostStatus old = host_;
  Host();
  Forget();
  old.set_seq(host_.seq());
  old.set_phase(v1::HOST_PHASE_RUNNING);
  core_.OnHostStatus(now_, old, &effects_);
  Pass(kTick, false);
  EXPECT_TRUE(Took<SendToCoordinator>().empty());
}

TEST_F(AgentCoreTest, AnAgentWithoutConfigurationDoesNothing) {
  AgentCore core(8);
  v1::HostStatus first = host_;
  first.clear_config();
  Forget();
  core.OnHostStatus(now_, first, &effects_);
  core.OnConnected(now_, "10.0.0.2", &effects_);
  core.OnDirective(now_, Directive(1), &effects_);
  core.OnNotice(now_, "a notice", &effects_);
  core.OnServesOthers(now_, true, &effects_);
  core.OnHostClosed(now_, &effects_);
  core.OnTick(now_ + absl::Minutes(1), &effects_);
  EXPECT_TRUE(effects_.empty());
}

TEST_F(AgentCoreTest, AHostIsSilentAfterHalfALease) {
  Connected();
  Pass(kLease / 2 - kTick, false);
  EXPECT_TRUE(Took<EndHost>().empty());
  Pass(kTick, false);
  EXPECT_EQ(Took<EndHost>().size(), 1u);
  Pass(kLease, false);
  EXPECT_EQ(Took<EndHost>().size(), 1u);
}

TEST_F(AgentCoreTest, TheHostsEndIsAwaitedAfterItsLinkHasClosed) {
  core_.OnHostLinkClosed(now_, &effects_);
  Pass(kHostEndWait);
  core_.OnHostLinkClosed(now_, &effects_);
  EXPECT_FALSE(core_.finished());
  Pass(kTick);
  EXPECT_TRUE(core_.finished());
}

TEST_F(AgentCoreTest, AnUnheardReportOfADeadHostEndsAfterALimit) {
  Connected();
  core_.OnHostClosed(now_, &effects_);
  core_.OnHostSwept(now_, &effects_);
  Pass(kGoneLimit - kTick);
  EXPECT_FALSE(core_.finished());
  core_.OnHostSwept(now_, &effects_);  // said once more: the limit stays
  Pass(kTick);
  EXPECT_TRUE(core_.finished());
  EXPECT_EQ(Took<Disconnect>().size(), 1u);
  ASSERT_EQ(Took<ExitAgent>().size(), 1u);
  EXPECT_EQ(Took<ExitAgent>()[0].reason, "the coordinator could not be told that the main process has ended");
}

// It told the coordinator that it leaves, and nothing of it runs.
TEST_F(AgentCoreTest, AHostThatLeftInOrderIsNotReportedAsGone) {
  for (const bool idle : {true, false}) {
    AgentCore core(8);
    v1::HostStatus left = host_;
    *left.mutable_config() = core_.config();
    left.mutable_leave()->set_signal(15);
    left.set_phase(idle ? v1::HOST_PHASE_IDLE : v1::HOST_PHASE_STOPPING);
    core.OnHostStatus(now_, left, &effects_);
    core.OnConnected(now_, "10.0.0.2", &effects_);
    core.OnHostClosed(now_, &effects_);
    Forget();
    core.OnHostSwept(now_, &effects_);
    EXPECT_EQ(core.finished(), idle);
    EXPECT_EQ(Took<SendToCoordinator>().size(), idle ? 0u : 1u);
  }
}

TEST_F(AgentCoreTest, ASweptHostIsNotSweptInVainAfterwards) {
  Connected();
  core_.OnHostClosed(now_, &effects_);
  core_.OnHostSwept(now_, &effects_);
  core_.OnHostNotSwept(now_, "2 processes", &effects_);
  EXPECT_FALSE(core_.finished());
}

// A closed stream alone does not tell the coordinator that its RELEASE was applied.
TEST_F(AgentCoreTest, TheLastStatusSaysThatTheReleaseIsApplied) {
  Connected();
  v1::Directive release = Directive(6);
  release.mutable_release()->set_exit_code(3);
  Give(release);
  *host_.mutable_memory() = LastOrder().memory();
  host_.set_flushed(true);
  Host();
  EXPECT_EQ(LastStatus().applied().seq(), 6u);
  ASSERT_TRUE(core_.finished());
  Forget();
  core_.OnTick(now_ + absl::Minutes(1), &effects_);
  core_.OnConnected(now_, "10.0.0.2", &effects_);
  core_.OnDirective(now_, Directive(7), &effects_);
  core_.OnNotice(now_, "a notice", &effects_);
  core_.OnServesOthers(now_, true, &effects_);
  core_.OnDisconnected(now_, "away", 0, &effects_);
  core_.OnHostClosed(now_, &effects_);
  core_.OnHostSwept(now_, &effects_);
  core_.OnHostNotSwept(now_, "2 processes", &effects_);
  EXPECT_TRUE(effects_.empty()) << "it has finished";
}

TEST_F(AgentCoreTest, TheHostHearsWhetherOtherNodesUseItsCoordinator) {
  Connected();
  Forget();
  core_.OnServesOthers(now_, false, &effects_);
  EXPECT_TRUE(Took<SendToHost>().empty()) << "it knows that";
  core_.OnServesOthers(now_, true, &effects_);
  ASSERT_EQ(Took<SendToHost>().size(), 1u);
  EXPECT_TRUE(LastOrder().serves_others());
  core_.OnServesOthers(now_, false, &effects_);
  EXPECT_FALSE(LastOrder().serves_others());
}

TEST_F(AgentCoreTest, AnExitHasTheVerdictAndItsOrigin) {
  Connected();
  v1::Directive verdict = Directive(5);
  verdict.mutable_verdict()->set_exit_code(3);
  verdict.mutable_verdict()->set_origin("worker");
  verdict.mutable_verdict()->set_reason("rank 0 failed");
  Give(verdict);
  EXPECT_TRUE(LastOrder().has_stop());
  EXPECT_EQ(LastOrder().stop().cause(), "the verdict");
  HostApplies();
  v1::Directive release = Directive(6);
  release.mutable_release()->set_exit_code(3);
  release.mutable_release()->set_reason("rank 0 failed");
  Give(release);
  const v1::Exit exit = LastOrder().exit();
  EXPECT_EQ(exit.origin(), "worker");
  EXPECT_EQ(exit.reason(), "rank 0 failed");
  EXPECT_EQ(exit.verdict().exit_code(), 3);
  EXPECT_EQ(exit.linger_ms(), 0);
  EXPECT_FALSE(exit.tells_all());
  v1::Directive another = Directive(7);
  another.mutable_release()->set_exit_code(4);
  Give(another);
  Give(Run(8, 1));
  EXPECT_EQ(LastOrder().exit().exit_code(), 3) << "the first exit is obeyed";
}

// A second agent with the configuration of core_, except for what is given; connected.
class AgentOfAnotherRoleTest : public AgentCoreTest {
 protected:
  template <typename Change>
  void ConnectAs(AgentCore* core, bool serves, Change change) {
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    first.mutable_config()->set_serves(serves ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO);
    change(first.mutable_config());
    core->OnHostStatus(now_, first, &effects_);
    core->OnConnected(now_, "10.0.0.2", &effects_);
  }
};

// The primary's agent holds the coordinator, which still has to answer the agents of the other nodes.
TEST_F(AgentOfAnotherRoleTest, OnlyThePrimarysHostOfManyNodesLingers) {
  const auto linger = [this](bool serves, bool single) {
    AgentCore core(8);
    ConnectAs(&core, serves, [&](v1::NodeConfig* config) { config->set_single_node(single); });
    v1::Directive release = Directive(1);
    release.mutable_release()->set_exit_code(0);
    core.OnDirective(now_, release, &effects_);
    return LastOrder().exit().linger_ms();
  };
  EXPECT_EQ(linger(true, false), absl::ToInt64Milliseconds(kLinger));
  EXPECT_EQ(linger(false, false), 0);
  EXPECT_EQ(linger(true, true), 0);
}

TEST_F(AgentCoreTest, AnObserverThatLosesTheCoordinatorExitsWithZero) {
  for (const bool joined : {true, false}) {
    AgentCore core(8);
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    first.mutable_config()->set_role(v1::ROLE_OBSERVER);
    first.mutable_config()->set_lease_ms(0);
    if (joined) first.mutable_memory()->mutable_epoch()->set_number(1);
    Forget();
    core.OnHostStatus(now_, first, &effects_);
    for (BootTime at = now_; at < now_ + absl::Minutes(16); at += kTick) core.OnTick(at, &effects_);
    ASSERT_TRUE(LastOrder().has_exit());
    EXPECT_EQ(LastOrder().exit().exit_code(), joined ? 0 : 69);
  }
}

TEST_F(AgentCoreTest, AnObserverThatKnowsTheVerdictExitsWithZero) {
  for (const v1::Role role : {v1::ROLE_OBSERVER, v1::ROLE_TRAINER}) {
    AgentCore core(8);
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    first.mutable_config()->set_role(role);
    first.mutable_memory()->mutable_epoch()->set_number(1);
    first.mutable_memory()->mutable_verdict()->set_exit_code(7);
    core.OnHostStatus(now_, first, &effects_);
    core.OnDisconnected(now_, "the token is wrong", 77, &effects_);
    EXPECT_EQ(LastOrder().exit().exit_code(), role == v1::ROLE_OBSERVER ? 0 : 7);
    EXPECT_TRUE(LastOrder().exit().tells_all());
  }
}

TEST_F(AgentCoreTest, AMuteConnectionIsReplacedAfterHalfALease) {
  Connected();
  Give(Directive(1));
  Forget();
  Pass(kLease / 2);
  EXPECT_TRUE(Took<Disconnect>().empty());
  Pass(kTick);
  EXPECT_EQ(Took<Disconnect>().size(), 1u);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Took<Connect>().size(), 1u);
}

// The shell answers an attempt within kConnectLimit; an attempt that is not answered at all is given up.
TEST_F(AgentCoreTest, AnAttemptWithoutAnAnswerIsRepeated) {
  const absl::Duration limit = kConnectLimit + absl::Seconds(1);
  Pass(limit);
  EXPECT_EQ(Took<Connect>().size(), 1u);
  EXPECT_TRUE(Took<Disconnect>().empty());
  Pass(kTick);
  EXPECT_EQ(Took<Disconnect>().size(), 1u);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Took<Connect>().size(), 2u);
}

TEST_F(AgentCoreTest, ReconnectingIsLoggedOnce) {
  const auto said = [this] {
    int count = 0;
    for (const Note& note : Took<Note>()) count += note.subject.event == events::kCoordinatorFound ? 1 : 0;
    return count;
  };
  Connected();
  Give(Directive(1));
  EXPECT_EQ(said(), 0) << "it is the first connection";
  core_.OnDisconnected(now_, "away", 0, &effects_);
  Pass(absl::Seconds(1));
  Connected();
  Give(Directive(2));
  Give(Directive(3));
  EXPECT_EQ(said(), 1);
}

TEST_F(AgentCoreTest, OnlyTheLossOfAConnectionIsAWarning) {
  const auto warnings = [this] {
    int count = 0;
    for (const Note& note : Took<Note>()) count += note.severity == Severity::kWarning ? 1 : 0;
    return count;
  };
  core_.OnDisconnected(now_, "refused", 0, &effects_);
  EXPECT_EQ(warnings(), 0);
  Connected();
  core_.OnDisconnected(now_, "away", 0, &effects_);
  EXPECT_EQ(warnings(), 1);
}

TEST_F(AgentCoreTest, AProbeIsRepeatedAfterASecondUntilTheHolderIsDead) {
  Connected();
  uint64_t seq = 5;
  const auto held = [&](const std::string& by) {
    v1::Directive wait = Directive(seq++);
    wait.mutable_wait()->mutable_held_by()->set_process(by);
    Give(wait);
    return Took<Probe>().size();
  };
  EXPECT_EQ(held("old"), 1u);
  now_ += kProbeInterval;
  EXPECT_EQ(held("old"), 1u) << "the first one is not answered";
  core_.OnProbed(now_, "another", true, &effects_);
  EXPECT_EQ(LastStatus().predecessor_dead(), "");
  core_.OnProbed(now_, "old", false, &effects_);
  EXPECT_EQ(held("old"), 2u);
  core_.OnProbed(now_, "old", false, &effects_);
  EXPECT_EQ(held("old"), 2u) << "a second has not passed";
  now_ += kProbeInterval;
  EXPECT_EQ(held("old"), 3u);
  core_.OnProbed(now_, "old", true, &effects_);
  EXPECT_EQ(LastStatus().predecessor_dead(), "old");
  now_ += kProbeInterval;
  EXPECT_EQ(held("old"), 3u);
}

TEST_F(AgentCoreTest, AHolderElsewhereIsNotProbed) {
  Connected();
  v1::Directive wait = Directive(5);
  wait.mutable_wait()->mutable_held_by()->set_hostname("worker-1");
  Give(wait);
  EXPECT_TRUE(Took<Probe>().empty());
}

TEST_F(AgentCoreTest, AStopOfARoundThatNobodyToldOfForbidsNoRound) {
  Connected();
  v1::Directive stop = Directive(5);
  stop.mutable_stop()->mutable_round()->set_number(uint64_t{1} << 60);
  Give(stop);
  Give(Run(6, 1));
  EXPECT_EQ(LastOrder().start().id().number(), 1u);
}

TEST_F(AgentCoreTest, ACoordinatorThatComesAndGoesDoesNotFillTheLog) {
  int lines = 0;
  for (int i = 0; i < 1000; ++i) {
    Connected();
    Give(Directive(static_cast<uint64_t>(i) + 1));
    core_.OnDisconnected(now_, "away", 0, &effects_);
    Pass(kTick);
    for (const Note& note : Took<Note>()) {
      lines += note.subject.event == events::kCoordinatorLost || note.subject.event == events::kCoordinatorFound;
    }
    Forget();
  }
  EXPECT_GE(lines, 10);
  EXPECT_LE(lines, kLinkLinesBurst + 100 * kLinkLinesPerSecond + 1) << "in 100 s";
}

TEST_F(AgentCoreTest, ATimeThatWasOldAlreadyStaysWithinItsRange) {
  Connected();
  v1::Directive run = Run(5, 1);
  run.mutable_run()->add_loss_ages_ms(kMaxAge);
  run.mutable_run()->add_failure_ages_ms(kMaxAge);
  run.mutable_run()->add_excluded()->set_left_ms(-kMaxAge);
  Give(run);
  HostApplies();
  Pass(absl::Seconds(5));
  const v1::AgentStatus status = Took<SendToCoordinator>().back().status;
  EXPECT_EQ(status.last().failure_ages_ms_size(), 1);
  EXPECT_EQ(OutOfRange(status), "");
}

TEST_F(AgentOfAnotherRoleTest, TheReasonForWaitingNamesWhoIsMissingOnThePrimaryOnly) {
  const auto said = [this](bool serves, bool alone) {
    AgentCore core(8);
    ConnectAs(&core, serves, [&](v1::NodeConfig* config) { config->set_coordinator_alone(alone); });
    v1::Directive wait = Directive(1);
    wait.mutable_wait()->set_reason("1 of 4 nodes ready");
    wait.mutable_wait()->add_absent("node 1");
    wait.mutable_wait()->add_absent("node 2");
    wait.mutable_wait()->set_absent_count(3);
    Forget();
    core.OnDirective(now_, wait, &effects_);
    for (int i = 1; i <= 20; ++i) core.OnTick(now_ + i * kTick, &effects_);
    std::string text;
    for (const Note& note : Took<Note>()) text += note.text + "\n";
    return text;
  };
  const std::string missing = "1 of 4 nodes ready; missing: node 1, node 2 and 1 more";
  EXPECT_NE(said(true, false).find(missing), std::string::npos);
  EXPECT_EQ(said(true, false).find("reported by"), std::string::npos);
  EXPECT_NE(said(false, true).find(missing + " (reported by the coordinator at primary:2222)"), std::string::npos);
  EXPECT_NE(said(false, false).find("1 of 4 nodes ready (reported by the primary (node rank 0) at primary:2222)"),
            std::string::npos);
}

TEST_F(AgentOfAnotherRoleTest, AWaitAsLongAsTheJobIsSaidOnce) {
  // The lines about waiting in the first 20 seconds, of which the job is over for the last `over`.
  const auto lines = [this](bool observer, int place_in_line, int over) {
    AgentCore core(8);
    ConnectAs(&core, false, [&](v1::NodeConfig* config) {
      if (observer) config->set_role(v1::ROLE_OBSERVER);
    });
    Forget();
    for (int second = 1; second <= 20; ++second) {
      v1::Directive wait = Directive(static_cast<uint64_t>(second));
      wait.mutable_wait()->set_reason(second <= 20 - over ? "round 1 runs" : "");
      wait.mutable_wait()->set_place_in_line(place_in_line);
      core.OnDirective(now_ + absl::Seconds(second), wait, &effects_);
      core.OnTick(now_ + absl::Seconds(second), &effects_);
    }
    const std::vector<Note> notes = Took<Note>();
    return std::count_if(notes.begin(), notes.end(),
                         [](const Note& note) { return note.subject.event == events::kWaiting; });
  };
  EXPECT_EQ(lines(true, 0, 0), 1);
  EXPECT_EQ(lines(false, 1, 0), 1);
  EXPECT_EQ(lines(false, 0, 0), 3);
  EXPECT_EQ(lines(false, 0, 12), 2) << "nothing is waited for once the job is over";
}

TEST_F(AgentCoreTest, StoppingIsLoggedOnceForEachRound) {
  Connected();
  Give(Run(5, 1));
  for (uint64_t seq = 6; seq < 9; ++seq) {
    v1::Directive stop = Directive(seq);
    *stop.mutable_stop()->mutable_round() = Run(5, 1).run().id();
    stop.mutable_stop()->set_cause("a worker failed");
    stop.mutable_stop()->set_grace_ms(2000);
    Give(stop);
  }
  EXPECT_EQ(LastOrder().stop().cause(), "a worker failed");
  EXPECT_EQ(LastOrder().stop().grace_ms(), 2000);
  int said = 0;
  for (const Note& note : Took<Note>()) said += note.text == "stopping workers: a worker failed" ? 1 : 0;
  EXPECT_EQ(said, 1);
}

// A directive names a round before this node gets the RUN of it.
TEST_F(AgentCoreTest, AMembersRankIsLearnedAfterTheRound) {
  Connected();
  v1::Directive wait = Directive(5);
  *wait.mutable_greatest() = Run(5, 1).run();
  wait.mutable_greatest()->clear_node_rank();
  Give(wait);
  EXPECT_FALSE(core_.memory().last().has_node_rank());
  Give(Run(6, 1));
  EXPECT_EQ(core_.memory().last().node_rank(), 1);
  wait.mutable_id()->set_seq(7);
  Give(wait);
  EXPECT_TRUE(core_.memory().last().has_node_rank()) << "the same round without a rank says less";
}

TEST_F(AgentCoreTest, AbsentNodesAreCountedOnlyBeyondTheNamedOnes) {
  const auto said = [this](int absent, const std::string& name = "node 1") {
    AgentCore core(8);
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    first.mutable_config()->set_serves(v1::NodeConfig::SERVES_YES);
    core.OnHostStatus(now_, first, &effects_);
    core.OnConnected(now_, "10.0.0.2", &effects_);
    v1::Directive wait = Directive(1);
    wait.mutable_wait()->set_reason("a reason");
    if (absent > 0) wait.mutable_wait()->add_absent(name);
    wait.mutable_wait()->set_absent_count(absent);
    Forget();
    core.OnDirective(now_, wait, &effects_);
    for (int i = 1; i <= 20; ++i) core.OnTick(now_ + i * kTick, &effects_);
    std::string text;
    for (const Note& note : Took<Note>()) text += note.text + "\n";
    return text;
  };
  EXPECT_EQ(said(0).find("missing"), std::string::npos);
  EXPECT_NE(said(1).find("; missing: node 1"), std::string::npos);
  EXPECT_EQ(said(1).find(" more"), std::string::npos);
  EXPECT_LT(said(1, std::string(kMaxLongText, 'x')).size(), 4 * kMaxReasonShown) << "at most three lines";
}

TEST_F(AgentCoreTest, ASpareIsToldItsPlaceInLine) {
  Connected();
  v1::Directive wait = Directive(1);
  wait.mutable_wait()->set_place_in_line(2);
  Forget();
  Give(wait);
  Pass(absl::Seconds(2));
  std::string text;
  for (const Note& note : Took<Note>()) text += note.text;
  EXPECT_NE(text.find("waiting; this node is spare 2 in line"), std::string::npos) << text;
}

// The lease counts from the sending of the echoed status, so that status must be known.
TEST_F(AgentCoreTest, ALeaseForAnUnknownStatusIsNotCounted) {
  Connected();
  for (const uint64_t seq : {uint64_t{0}, uint64_t{99}}) {
    v1::Directive run = Run(5 + seq, 1);
    run.mutable_echo()->set_seq(seq);
    Give(run);
    EXPECT_EQ(LastOrder().lease_deadline_boot_ns(), 0) << seq;
  }
  v1::Directive run = Run(200, 1);
  run.mutable_echo()->set_agent_number(9);
  Give(run);
  EXPECT_EQ(LastOrder().lease_deadline_boot_ns(), 0) << "a status of another agent";
}

TEST_F(AgentCoreTest, AnAnswerWithoutALeaseGrantsNone) {
  Connected();
  Give(Directive(1));
  EXPECT_EQ(LastOrder().lease_deadline_boot_ns(), 0);
}

TEST_F(AgentCoreTest, TheLeaseNeverMovesBack) {
  Connected();
  Give(Run(5, 1));
  const int64_t before = LastOrder().lease_deadline_boot_ns();
  v1::Directive run = Run(6, 1);
  run.mutable_lease()->set_duration_ms(1000);
  Give(run);
  EXPECT_EQ(LastOrder().lease_deadline_boot_ns(), before);
}

TEST_F(AgentCoreTest, AFarewellBelongsToItsRound) {
  Connected();
  Give(Run(5, 1));
  const auto farewell = [this](uint64_t seq, uint64_t round, int64_t age_ms) {
    v1::Directive wait = Directive(seq);
    *wait.mutable_greatest() = Run(seq, round).run();
    wait.mutable_greatest()->clear_node_rank();
    wait.mutable_greatest()->mutable_primary_ended()->set_known_to(3);
    wait.mutable_greatest()->mutable_primary_ended()->set_age_ms(age_ms);
    return wait;
  };
  Give(farewell(6, 0, 50));
  EXPECT_FALSE(core_.memory().last().has_primary_ended()) << "of an older round";
  v1::Directive unknown = farewell(7, 1, 50);
  unknown.mutable_echo()->set_seq(99);
  Give(unknown);
  EXPECT_FALSE(core_.memory().last().has_primary_ended()) << "how old it is cannot be known";
  Forget();
  Host();
  Pass(absl::Seconds(1));
  Give(farewell(8, 1, 50));
  EXPECT_TRUE(core_.memory().last().has_primary_ended());
  const int64_t ended = core_.memory().primary_ended_boot_ns();
  Give(farewell(9, 1, 5000));
  EXPECT_EQ(core_.memory().primary_ended_boot_ns(), ended) << "the latest of the earliest possible times";
  Give(Run(10, 2));
  EXPECT_FALSE(core_.memory().last().has_primary_ended()) << "it was of the earlier round";
}

TEST_F(AgentCoreTest, TheAgeOfARoundCountsFromItsFirstMention) {
  Connected();
  v1::Directive wait = Directive(5);
  *wait.mutable_greatest() = Run(5, 1).run();
  wait.mutable_greatest()->clear_node_rank();
  Give(wait);
  const int64_t told = core_.memory().last_told_boot_ns();
  now_ += absl::Seconds(1);
  wait.mutable_id()->set_seq(6);
  Give(wait);
  EXPECT_EQ(core_.memory().last_told_boot_ns(), told);
}

TEST_F(AgentCoreTest, ABriefVerdictIsStoredUnlessTheSameIsHeld) {
  Connected();
  v1::Directive verdict = Directive(5);
  verdict.mutable_verdict()->set_exit_code(3);
  verdict.mutable_verdict()->set_digest(5);
  verdict.mutable_verdict()->set_brief(true);
  Give(verdict);
  EXPECT_EQ(core_.memory().verdict().exit_code(), 3);
  verdict.mutable_id()->set_seq(6);
  verdict.mutable_verdict()->set_exit_code(4);
  verdict.mutable_verdict()->set_digest(6);
  Give(verdict);
  EXPECT_EQ(core_.memory().verdict().exit_code(), 4);
}

TEST_F(AgentCoreTest, AVerdictStopsTheWorkersWithTheirGrace) {
  AgentCore core(8);
  v1::HostStatus first = host_;
  *first.mutable_config() = core_.config();
  first.mutable_config()->set_shutdown_grace_ms(7000);
  core.OnHostStatus(now_, first, &effects_);
  core.OnConnected(now_, "10.0.0.2", &effects_);
  v1::Directive verdict = Directive(5);
  verdict.mutable_verdict()->set_exit_code(3);
  core.OnDirective(now_, verdict, &effects_);
  EXPECT_EQ(LastOrder().stop().grace_ms(), 7000);
}

TEST_F(AgentCoreTest, ASilentHostsEndIsDatedAtItsKill) {
  Connected();
  Pass(kLease / 2, false);
  ASSERT_EQ(Took<EndHost>().size(), 1u);
  now_ += absl::Milliseconds(300);
  core_.OnHostSwept(now_, &effects_);
  EXPECT_EQ(LastStatus().host_gone_ms(), 300);
}

TEST_F(AgentCoreTest, EachOrderToTheHostHasAGreaterNumber) {
  Connected();
  Give(Directive(1));
  const uint64_t before = LastOrder().seq();
  Give(Directive(2));
  EXPECT_EQ(LastOrder().seq(), before + 1);
}

// What was revoked must not return with the next agent, which begins with what its host gives it.
TEST_F(AgentCoreTest, TheHostKeepsTheNewestCredentials) {
  core_.OnCredentials(now_, {"the next token"}, &effects_);
  EXPECT_THAT(LastOrder().memory().credentials(), ::testing::ElementsAre("the next token"));
  HostApplies();
  Connected();
  EXPECT_THAT(LastOrder().memory().credentials(), ::testing::ElementsAre("the next token"));
}

TEST_F(AgentCoreTest, ARefusedNodesExitIsMustersOwn) {
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  Pass(kRefusalPatience);
  core_.OnDisconnected(now_, "the token is wrong", 77, &effects_);
  EXPECT_EQ(LastOrder().exit().origin(), "muster");
  EXPECT_EQ(LastOrder().exit().reason(), "the token is wrong");
  EXPECT_FALSE(LastOrder().exit().has_verdict());
}

// Counted from the last directive, not from the first connection.
TEST_F(AgentCoreTest, TheCoordinatorTimeoutCountsFromTheLastDirective) {
  Connected();
  uint64_t seq = 1;
  for (int second = 0; second < 1000; ++second) {
    Give(Directive(seq++));
    Pass(absl::Seconds(1));
  }
  core_.OnDisconnected(now_, "away", 0, &effects_);
  const BootTime lost = now_ - absl::Seconds(1);
  const auto away = [this](BootTime until) {
    while (now_ < until) {
      Pass(kTick);
      if (!Took<Connect>().empty()) core_.OnDisconnected(now_, "refused", 0, &effects_);
      if (!LastOrder().has_exit()) Forget();
      if (Took<SendToHost>().empty()) core_.OnServesOthers(now_, flip_ = !flip_, &effects_);
    }
  };
  away(lost + absl::Milliseconds(900'000) - kTick);
  EXPECT_FALSE(LastOrder().has_exit());
  away(lost + absl::Milliseconds(900'000));
  EXPECT_TRUE(LastOrder().has_exit());
}

TEST_F(AgentCoreTest, ARunOrAVerdictEndsTheWaiting) {
  for (const bool run : {true, false}) {
    Connected();
    Give(Directive(run ? 1 : 1001));
    v1::Directive next = Run(run ? 2 : 1002, 1);
    if (!run) next.mutable_verdict()->set_exit_code(3);
    Give(next);
    Forget();
    for (uint64_t seq = next.id().seq() + 1;
         now_ < FromBootNanos(1'000'000'000'000) + absl::Seconds(run ? 40 : 80); ++seq) {
      next.mutable_id()->set_seq(seq);
      *next.mutable_echo() = v1::StatusId();
      Give(next);
      Pass(absl::Seconds(1));
    }
    for (const Note& note : Took<Note>()) EXPECT_EQ(note.text.find("waiting"), std::string::npos) << note.text;
  }
}

TEST_F(AgentCoreTest, TheGivenUpCoordinatorIsNamedWithWhatItDid) {
  const auto reason = [this](bool connects) {
    AgentCore core(8);
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    Forget();
    core.OnHostStatus(now_, first, &effects_);
    if (connects) core.OnConnected(now_, "10.0.0.2", &effects_);
    for (int i = 1; i < 9500 && (Took<SendToHost>().empty() || !LastOrder().has_exit()); ++i) {
      Forget();
      first.set_seq(first.seq() + 1);
      core.OnHostStatus(now_ + i * kTick, first, &effects_);
      core.OnTick(now_ + i * kTick, &effects_);
    }
    return LastOrder().exit().reason();
  };
  EXPECT_EQ(reason(false),
            "gave up after 10m (--join-timeout): no answer from the primary (node rank 0) at primary:2222");
  EXPECT_EQ(reason(true),
            "gave up after 15m (--coordinator-timeout): no answer from the primary (node rank 0) at primary:2222 "
            "on an open connection");
}

TEST_F(AgentCoreTest, TheJoinTimeoutIsExact) {
  const BootTime end = now_ + absl::Milliseconds(600'000);
  Pass(end - now_ - kTick);
  EXPECT_FALSE(LastOrder().has_exit());
  Pass(kTick);
  EXPECT_TRUE(LastOrder().has_exit());
}

}  // namespace
}  // namespace muster::agent
