// Each check of invariants.cc fires: a lawful history, one step that breaks a rule, and exactly its report.
#include "tests/simulation/invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/admission.h"
#include "tests/simulation/cluster.h"

namespace muster::simulation {
namespace {

using ::testing::StartsWith;

constexpr int kSlots = 2;
constexpr int kNodes = 2;
constexpr uint64_t kRandom = 0xabcd;

host::Ending Exit(int code) {
  host::Ending ending;
  ending.number = code;
  return ending;
}

v1::Verdict VerdictOf(int code, const std::string& origin) {
  v1::Verdict verdict;
  verdict.set_exit_code(code);
  verdict.set_origin(origin);
  verdict.mutable_root_cause()->set_error_text("not executable");
  return verdict;
}

v1::Round MakeRound(uint64_t number, int node_rank) {
  v1::Round round;
  round.mutable_id()->set_number(number);
  round.mutable_id()->mutable_epoch()->set_number(1);
  round.mutable_id()->mutable_epoch()->set_random(kRandom);
  round.set_node_rank(node_rank);
  round.set_node_count(kNodes);
  round.set_first_rank(node_rank * kSlots);
  round.set_world_size(kNodes * kSlots);
  round.mutable_master()->set_host("10.0.0.1");
  round.mutable_master()->set_port(1234);
  round.set_restart_count(static_cast<int>(number) - 1);
  return round;
}

host::HostOptions Named(const std::string& id) {
  host::HostOptions options;
  options.host_id = id;
  return options;
}

// One place of the job: a host with its agent.
struct Node {
  explicit Node(const std::string& id, int place) : host(Named(id)), agent(&host, 1, 0) {
    host.name = id;
    host.place = place;
    host.agent = &agent;
    agent.name = id + "/a1";
  }
  HostProcess host;
  AgentProcess agent;
};

class InvariantsTest : public ::testing::Test {
 protected:
  static Scenario TwoNodes() {
    Scenario s;
    s.job.nodes = s.job.min_nodes = s.job.max_nodes = kNodes;
    s.job.slots = kSlots;
    s.policy.max_restarts = 3;
    s.policy.max_node_losses = 1;
    s.faults.only_agents_die = true;
    return s;
  }

  void Send(const CoordinatorHome& home, const Node& to, v1::Directive directive, uint64_t epoch = 1) {
    directive.mutable_id()->mutable_epoch()->set_number(epoch);
    directive.mutable_id()->mutable_epoch()->set_random(kRandom);
    invariants_.OnDirectiveSent(home, to.host, directive);
  }
  void Run(const Node& to, const v1::Round& round) { Run(*home_, to, round); }
  void Run(const CoordinatorHome& home, const Node& to, const v1::Round& round) {
    v1::Directive directive;
    *directive.mutable_run() = round;
    Send(home, to, directive);
  }
  void Announce(const Node& to, const v1::Verdict& verdict) {
    v1::Directive directive;
    *directive.mutable_verdict() = verdict;
    Send(*home_, to, directive);
  }
  // Both hosts get the RUN of round `number`.
  void RunBoth(uint64_t number) {
    Run(a_, MakeRound(number, 0));
    Run(b_, MakeRound(number, 1));
  }
  WorkerProcess WorkerOf(Node& node, uint64_t number, int rank) {
    WorkerProcess worker;
    worker.host = &node.host;
    worker.round = KeyOf(MakeRound(number, 0).id());
    worker.rank = rank;
    worker.local_rank = rank % kSlots;
    worker.world_size = kNodes * kSlots;
    return worker;
  }
  void Execute(WorkerProcess* worker) {
    worker->executing = true;
    invariants_.OnExec(*worker);
  }
  // A worker of that round fails by itself.
  void FailWorkerOf(uint64_t number, int code) {
    WorkerProcess worker = WorkerOf(a_, number, 0);
    Execute(&worker);
    invariants_.OnDeath(worker, Exit(code), true);
  }
  void SucceedIn(uint64_t number) {
    for (int rank = 0; rank < kNodes * kSlots; ++rank) {
      WorkerProcess worker = WorkerOf(rank < kSlots ? a_ : b_, number, rank);
      Execute(&worker);
      invariants_.OnDeath(worker, Exit(0), true);
    }
    for (int node = 0; node < kNodes; ++node) HearSuccess(number, node);
  }
  void HearSuccess(uint64_t number, int node_rank, const v1::AgentStatus& rest = {}) {
    v1::AgentStatus status = rest;
    *status.mutable_last() = MakeRound(number, node_rank);
    status.set_outcome(v1::OUTCOME_SUCCEEDED);
    invariants_.OnStatusHeard(*home_, status);
  }
  Session SessionOf(Node& node) {
    Session session;
    session.agent = &node.agent;
    session.home = home_.get();
    return session;
  }
  host::Finish FinishOf(int code, const std::string& reason) {
    host::Finish finish;
    finish.exit_code = code;
    finish.origin = "muster";
    finish.reason = reason;
    return finish;
  }
  void Finish(const Node& node, int code, const v1::Verdict& verdict) {
    host::Finish finish = FinishOf(code, "verdict");
    finish.verdict = verdict;
    invariants_.OnFinish(node.host, finish);
  }
  // No violation so far.
  void ExpectLawful() { ASSERT_EQ(invariants_.message(), ""); }
  void ExpectReport(const std::string& report) { EXPECT_EQ(invariants_.message(), report); }

  Scenario scenario_ = TwoNodes();
  Environment env_{scenario_};  // its clock stands at 0
  Cluster cluster_{&env_};      // without any hosts
  Invariants invariants_{scenario_, &env_, &cluster_};
  Node a_{"a", 0};
  Node b_{"b", 1};
  Node c_{"c", 1};
  std::unique_ptr<CoordinatorHome> home_ =
      std::make_unique<CoordinatorHome>(&a_.agent, &a_.host, rendezvous::CoordinatorOptions{}, BootTime{}, 0);
  std::unique_ptr<CoordinatorHome> second_ = [this] {
    auto home =
        std::make_unique<CoordinatorHome>(&a_.agent, &a_.host, rendezvous::CoordinatorOptions{}, BootTime{}, 0);
    home->id = 1;
    return home;
  }();
};

TEST_F(InvariantsTest, ALawfulHistoryIsNotReported) {
  RunBoth(1);
  invariants_.OnSpawn(a_.host, MakeRound(1, 0));
  invariants_.OnSpawn(b_.host, MakeRound(1, 1));
  FailWorkerOf(1, 7);
  v1::Round next = MakeRound(2, 0);
  next.set_failures(1);
  Run(a_, next);
  next = MakeRound(2, 1);
  next.set_failures(1);
  Run(b_, next);
  SucceedIn(2);
  Announce(a_, VerdictOf(0, "muster"));
  Finish(a_, 0, VerdictOf(0, "muster"));
  Finish(b_, 0, VerdictOf(0, "muster"));
  invariants_.OnSettled();
  ExpectReport("");
}

TEST_F(InvariantsTest, OnlyTheFirstViolationIsReported) {
  invariants_.Fail(2, "first");
  invariants_.Fail(3, "second");
  ExpectReport("invariant 2: first");
}

// ---- invariant 1: ranks, sizes, master endpoints

class InvariantOneTest : public InvariantsTest {
 protected:
  void SetUp() override {
    Run(a_, MakeRound(1, 0));
    ExpectLawful();
  }
  v1::Round second_told_ = MakeRound(1, 1);
};

TEST_F(InvariantOneTest, AnotherWorldSizeIsReported) {
  second_told_.set_world_size(6);
  Run(b_, second_told_);
  ExpectReport("invariant 1: round 1@1.abcd, told to b: world size is 6, was told as 4");
}

TEST_F(InvariantOneTest, AnotherNodeCountIsReported) {
  second_told_.set_node_count(3);
  Run(b_, second_told_);
  ExpectReport("invariant 1: round 1@1.abcd, told to b: node count is 3, was told as 2");
}

TEST_F(InvariantOneTest, AnotherMasterIsReported) {
  second_told_.mutable_master()->set_port(4321);
  Run(b_, second_told_);
  ExpectReport(
      "invariant 1: round 1@1.abcd, told to b: master endpoint is 10.0.0.1:4321, was told as 10.0.0.1:1234");
}

TEST_F(InvariantOneTest, AnotherRestartCountIsReported) {
  second_told_.set_restart_count(1);
  Run(b_, second_told_);
  ExpectReport("invariant 1: round 1@1.abcd, told to b: restart count is 1, was told as 0");
}

TEST_F(InvariantOneTest, ANodeRankBeyondTheCountIsReported) {
  second_told_.set_node_rank(2);
  Run(b_, second_told_);
  ExpectReport("invariant 1: round 1@1.abcd, told to b: node rank 2 of 2");
}

TEST_F(InvariantOneTest, ANodeRankHeldTwiceIsReported) {
  second_told_.set_node_rank(0);
  Run(b_, second_told_);
  ExpectReport("invariant 1: round 1@1.abcd, told to b: node rank 0 is held by a");
}

TEST_F(InvariantOneTest, ARankBeyondTheWorldIsReported) {
  second_told_.set_first_rank(3);
  Run(b_, second_told_);
  ExpectReport("invariant 1: round 1@1.abcd, told to b: rank 4 of 4");
}

TEST_F(InvariantOneTest, ARankHeldTwiceIsReported) {
  second_told_.set_first_rank(1);
  Run(b_, second_told_);
  ExpectReport("invariant 1: round 1@1.abcd, told to b: rank 1 is held by a");
}

TEST_F(InvariantOneTest, MoreRanksThanSlotsAreReported) {
  v1::Round again = MakeRound(1, 0);
  again.set_first_rank(2);
  Run(a_, again);
  ExpectReport("invariant 1: round 1@1.abcd, told to a: this host holds 4 ranks");
}

TEST_F(InvariantOneTest, StartingAChangedRoundIsReported) {
  invariants_.OnSpawn(b_.host, MakeRound(1, 0));
  ExpectReport("invariant 1: round 1@1.abcd, told to b: node rank 0 is held by a");
}

TEST_F(InvariantOneTest, StartingAnUnknownRoundIsReported) {
  invariants_.OnSpawn(b_.host, MakeRound(2, 1));
  ExpectReport("invariant 1: b starts round 2@1.abcd that nobody made");
}

TEST_F(InvariantsTest, ARoundOutsideMinAndMaxIsReported) {
  v1::Round round = MakeRound(1, 0);
  round.set_node_count(3);
  round.set_world_size(6);
  Run(a_, round);
  ExpectReport("invariant 1: round 1@1.abcd, told to a: 3 nodes, not within MIN:MAX");
}

TEST_F(InvariantsTest, AWorldSizeUnlikeTheSumOfSlotsIsReported) {
  v1::Round round = MakeRound(1, 0);
  round.set_world_size(5);
  Run(a_, round);
  ExpectReport("invariant 1: round 1@1.abcd, told to a: world size 5 is not the sum of its nodes' slots");
}

// ---- invariant 2: workers of two rounds never run at once

TEST_F(InvariantsTest, WorkersOfTwoRoundsAtOnceAreReported) {
  WorkerProcess old = WorkerOf(a_, 1, 0);
  WorkerProcess young = WorkerOf(b_, 2, 2);
  Execute(&old);
  ExpectLawful();
  Execute(&young);
  ExpectReport(
      "invariant 2: workers of two rounds execute at once: 1@1.abcd (1) and 2@1.abcd; b:0 has just begun round "
      "2@1.abcd");
}

TEST_F(InvariantsTest, ADescendantCountsUntilItIsSwept) {
  WorkerProcess worker = WorkerOf(a_, 1, 0);
  WorkerProcess descendant = WorkerOf(a_, 1, 0);
  descendant.parent = &worker;
  Execute(&worker);
  Execute(&descendant);
  invariants_.OnDeath(worker, Exit(0), true);
  WorkerProcess young = WorkerOf(b_, 2, 2);
  ExpectLawful();
  Execute(&young);
  EXPECT_THAT(invariants_.message(),
              StartsWith("invariant 2: workers of two rounds execute at once: 1@1.abcd (1)"));
}

TEST_F(InvariantsTest, SweptAndExemptDescendantsDoNotCount) {
  WorkerProcess worker = WorkerOf(a_, 1, 0);
  WorkerProcess descendant = WorkerOf(a_, 1, 0);
  descendant.parent = &worker;
  Execute(&worker);
  Execute(&descendant);
  invariants_.OnDeath(descendant, Exit(0), false);
  worker.exempt = true;
  invariants_.OnExempt(worker);
  WorkerProcess young = WorkerOf(b_, 2, 2);
  Execute(&young);
  invariants_.OnDeath(worker, Exit(9), false);
  ExpectReport("");
}

TEST_F(InvariantsTest, ARoundThatAHostStartsTwiceIsReported) {
  Run(a_, MakeRound(1, 0));
  invariants_.OnSpawn(a_.host, MakeRound(1, 0));
  ExpectLawful();
  invariants_.OnSpawn(a_.host, MakeRound(1, 0));
  ExpectReport("invariant 2: a starts round 1@1.abcd a second time");
}

// ---- invariant 3: numbers only grow, counts neither shrink nor pass their budgets

TEST_F(InvariantsTest, AnOlderEpochIsReported) {
  Send(*home_, a_, v1::Directive(), 2);
  ExpectLawful();
  Send(*home_, a_, v1::Directive(), 1);
  ExpectReport("invariant 3: coordinator 0 went back to an older epoch");
}

TEST_F(InvariantsTest, AnOlderRoundFromACoordinatorIsReported) {
  RunBoth(2);
  ExpectLawful();
  Run(b_, MakeRound(1, 1));
  ExpectReport("invariant 3: coordinator 0 tells round 1@1.abcd after round 2@1.abcd");
}

TEST_F(InvariantsTest, AnOlderRoundSentToAHostIsReported) {
  Run(*home_, b_, MakeRound(1, 1));
  Run(*home_, a_, MakeRound(2, 0));
  ExpectLawful();
  Run(*second_, a_, MakeRound(1, 0));
  ExpectReport("invariant 3: round 1@1.abcd, told to a: after round 2@1.abcd");
}

TEST_F(InvariantsTest, AHostThatStartsAnOlderRoundIsReported) {
  RunBoth(1);
  RunBoth(2);
  invariants_.OnSpawn(a_.host, MakeRound(2, 0));
  ExpectLawful();
  invariants_.OnSpawn(a_.host, MakeRound(1, 0));
  ExpectReport("invariant 3: a starts round 1@1.abcd after round 2@1.abcd");
}

TEST_F(InvariantsTest, MoreFailuresThanTheBudgetAreReported) {
  for (uint64_t number = 1; number <= 4; ++number) FailWorkerOf(number, 1);
  v1::Round round = MakeRound(5, 0);
  round.set_failures(4);
  Run(a_, round);
  ExpectReport("invariant 3: round 5@1.abcd, told to a: 4 failures, --max-restarts is 3");
}

TEST_F(InvariantsTest, MoreLossesThanTheBudgetAreReported) {
  v1::Round round = MakeRound(3, 0);
  round.add_loss_ages_ms(1);
  round.add_loss_ages_ms(2);
  Run(a_, round);
  ExpectReport("invariant 3: round 3@1.abcd, told to a: 2 losses, --max-node-losses is 1");
}

TEST_F(InvariantsTest, ARoundThatIsChargedTwiceIsReported) {
  FailWorkerOf(1, 1);
  v1::Round round = MakeRound(2, 0);
  round.set_failures(1);
  round.add_loss_ages_ms(1);
  Run(a_, round);
  ExpectReport(
      "invariant 3: round 2@1.abcd, told to a: 1 failures and 1 losses in 1 restarts: a round was charged twice");
}

TEST_F(InvariantsTest, MoreRestartsThanRoundsAreReported) {
  v1::Round round = MakeRound(2, 0);
  round.set_restart_count(2);
  Run(a_, round);
  ExpectReport("invariant 3: round 2@1.abcd, told to a: 2 restarts before round number 2");
}

TEST_F(InvariantsTest, AChargeWithoutAFailureIsReported) {
  v1::Round round = MakeRound(2, 0);
  round.set_failures(1);
  Run(a_, round);
  ExpectReport(
      "invariant 3: round 2@1.abcd, told to a: 1 failures charged, but only 0 rounds had a worker that failed");
}

TEST_F(InvariantsTest, CountsThatShrinkAreReported) {
  RunBoth(3);
  ExpectLawful();
  v1::Round round = MakeRound(4, 0);
  round.set_restart_count(1);
  Run(a_, round);
  ExpectReport("invariant 3: round 4@1.abcd, told to a: counts shrank: 1 restarts after 2, 0 failures after 0");
}

// ---- invariant 4: one verdict, and 0 only if all exited 0

TEST_F(InvariantsTest, SuccessIsReportedWhereAWorkerIsMissing) {
  RunBoth(1);
  for (int rank = 0; rank < 3; ++rank) {
    WorkerProcess worker = WorkerOf(a_, 1, rank);
    Execute(&worker);
    invariants_.OnDeath(worker, Exit(0), true);
  }
  ExpectLawful();
  Announce(a_, VerdictOf(0, "muster"));
  ExpectReport("invariant 4: the verdict is 0, but in no round did every worker exit 0 by itself");
}

TEST_F(InvariantsTest, SuccessIsReportedWhereAWorkerWasStopped) {
  RunBoth(1);
  for (int rank = 0; rank < kNodes * kSlots; ++rank) {
    WorkerProcess worker = WorkerOf(a_, 1, rank);
    Execute(&worker);
    invariants_.OnDeath(worker, Exit(0), rank > 0);
  }
  Announce(a_, VerdictOf(0, "muster"));
  ExpectReport("invariant 4: the verdict is 0, but in no round did every worker exit 0 by itself");
}

TEST_F(InvariantsTest, AHostThatExitsZeroWithoutSuccessIsReported) {
  Finish(b_, 0, VerdictOf(0, "muster"));
  ExpectReport("invariant 4: b exits 0 (verdict): 0, but in no round did every worker exit 0 by itself");
}

TEST_F(InvariantsTest, AnExitCodeOfNoWorkerIsReported) {
  FailWorkerOf(1, 7);
  Announce(a_, VerdictOf(7, "worker"));
  ExpectLawful();
  Announce(a_, VerdictOf(8, "worker"));
  ExpectReport("invariant 4: the verdict's code 8 is no failed worker's");
}

TEST_F(InvariantsTest, AnInventedCancellationIsReported) {
  Announce(a_, VerdictOf(130, "muster"));
  ExpectReport("invariant 4: the verdict is 130, but nobody cancelled the job");
}

TEST_F(InvariantsTest, ANodeOfTheNextJobHoldsNoReleaseUp) {
  Session session = SessionOf(b_);
  session.last_heard = 0;
  session.refused = true;
  home_->sessions[1] = &session;
  Announce(a_, VerdictOf(69, "muster"));
  v1::Directive release;
  release.mutable_release()->set_exit_code(69);
  Send(*home_, a_, release);
  ExpectLawful();
}

TEST_F(InvariantsTest, AReleaseBeforeAllHaveAcknowledgedIsReported) {
  Session session = SessionOf(b_);
  session.last_heard = 0;
  home_->sessions[1] = &session;
  Announce(a_, VerdictOf(69, "muster"));
  ExpectLawful();
  v1::Directive release;
  release.mutable_release()->set_exit_code(69);
  Send(*home_, a_, release);
  ExpectReport("invariant 4: coordinator 0 releases, but b, which attends, has not acknowledged the verdict");
}

TEST_F(InvariantsTest, AnExitWithAnotherCodeThanTheVerdictsIsReported) {
  Finish(b_, 1, VerdictOf(69, "muster"));
  ExpectReport("invariant 4: b exits 1 (verdict): the verdict's code is 69");
}

TEST_F(InvariantsTest, TwoVerdictsAreReported) {
  Finish(a_, 69, VerdictOf(69, "muster"));
  ExpectLawful();
  Finish(b_, 70, VerdictOf(70, "muster"));
  ExpectReport("invariant 4: b exits 70 (verdict): verdict 70 of muster, but a saw 69 of muster");
}

TEST_F(InvariantsTest, TwoStoredVerdictsAreReported) {
  invariants_.OnVerdictStored(a_.host, VerdictOf(69, "muster"));
  invariants_.OnVerdictStored(a_.host, VerdictOf(69, "muster"));
  ExpectLawful();
  invariants_.OnVerdictStored(b_.host, VerdictOf(70, "muster"));
  ExpectReport("invariant 4: b is told: verdict 70 of muster, but a saw 69 of muster");
}

TEST_F(InvariantsTest, ASuccessThatOnlyTheAgentOfADeadHostKnowsDoesNotCount) {
  v1::AgentStatus dead;
  dead.set_phase(v1::PHASE_HOST_GONE);
  dead.mutable_verdict()->set_exit_code(0);
  RunBoth(1);
  for (int node = 0; node < kNodes; ++node) HearSuccess(1, node, dead);
  Run(a_, MakeRound(2, 0));
  ExpectLawful();
}

TEST_F(InvariantsTest, ARoundAfterAKnownSuccessIsReported) {
  RunBoth(1);
  SucceedIn(1);
  ExpectLawful();
  Run(a_, MakeRound(2, 0));
  ExpectReport(
      "invariant 4: coordinator 0 starts round 2@1.abcd, but has heard that every node of round 1@1.abcd "
      "succeeded");
}

TEST_F(InvariantsTest, SuccessOfAReplacedRoundIsReported) {
  RunBoth(1);
  FailWorkerOf(1, 7);
  HearSuccess(1, 0);
  v1::Round next = MakeRound(2, 0);
  next.set_failures(1);
  Run(a_, next);
  SucceedIn(1);
  ExpectLawful();
  Announce(a_, VerdictOf(0, "muster"));
  ExpectReport(
      "invariant 4: coordinator 0 concludes 0, but has not heard that every node of round 2@1.abcd succeeded");
}

// Allowed once every node that knew the first verdict has ended.
TEST_F(InvariantsTest, ARevivedPrimaryMayReachAnotherVerdict) {
  Announce(a_, VerdictOf(69, "muster"));
  Finish(b_, 69, VerdictOf(69, "muster"));
  Node late("late", 0);
  late.host.born = 1;
  CoordinatorHome home(&late.agent, &late.host, rendezvous::CoordinatorOptions{}, BootTime{}, 0);
  home.id = 2;
  v1::Directive directive;
  *directive.mutable_verdict() = VerdictOf(70, "muster");
  Send(home, late, directive);
  Finish(late, 70, VerdictOf(70, "muster"));
  ExpectLawful();
  Finish(c_, 71, VerdictOf(71, "muster"));
  ExpectReport("invariant 4: c exits 71 (verdict): verdict 71 of muster, but late saw 70 of muster");
}

TEST_F(InvariantsTest, TheSamePrimaryMayNotReachAnotherVerdict) {
  Announce(a_, VerdictOf(69, "muster"));
  Finish(b_, 69, VerdictOf(69, "muster"));
  v1::Directive directive;
  *directive.mutable_verdict() = VerdictOf(70, "muster");
  Send(*second_, a_, directive);
  Finish(a_, 70, VerdictOf(70, "muster"));
  ExpectReport("invariant 4: a exits 70 (verdict): verdict 70 of muster, but b saw 69 of muster");
}

// ---- invariant 5: every job ends, and no node exits before it

TEST_F(InvariantsTest, ARefusalIsReported) {
  v1::Directive directive;
  directive.mutable_refused()->set_reason("run id");
  Send(*home_, b_, directive);
  ExpectReport("invariant 5: b was refused: run id");
}

TEST_F(InvariantsTest, AVerdictThatOnlyTheAgentsOfDeadHostsKnowMayBeRefused) {
  HostProcess* const other = cluster_.NewHost(Named("other"));
  *other->memory.mutable_verdict() = VerdictOf(0, "muster");
  other->alive = b_.host.alive = false;
  v1::Directive directive;
  for (const char* reason : {rendezvous::kIsOfTheFormerJob, rendezvous::kRunsStill}) {
    directive.mutable_refused()->set_reason(reason);
    Send(*home_, b_, directive);
    ExpectLawful();
  }
  other->alive = true;
  Send(*home_, b_, directive);
  ExpectReport(absl::StrCat("invariant 5: b was refused: ", rendezvous::kRunsStill));
}

TEST_F(InvariantsTest, ASuccessThatALivingHostReportsMayNotBeRefused) {
  v1::Directive directive;
  directive.mutable_refused()->set_reason(rendezvous::kRunsStill);
  Send(*home_, b_, directive);
  ExpectReport(absl::StrCat("invariant 5: b was refused: ", rendezvous::kRunsStill));
}

TEST_F(InvariantsTest, OnlyANodeThatCannotStartIsRefused) {
  b_.host.options.config.mutable_cannot_start();
  v1::Directive directive;
  directive.mutable_refused()->set_exit_code(127);
  directive.mutable_refused()->set_reason("no program");
  Send(*home_, b_, directive);
  b_.host.fate.refused = true;
  invariants_.OnFinish(b_.host, FinishOf(127, "no program"));
  ExpectLawful();
  Send(*home_, a_, directive);
  ExpectReport("invariant 5: a was refused: no program");
}

TEST_F(InvariantsTest, AFailedStartAfterARoundEndsNoJob) {
  Session session = SessionOf(b_);
  session.first_heard = 0;
  home_->sessions[1] = &session;
  *b_.host.memory.mutable_last() = MakeRound(1, 1);
  Announce(a_, VerdictOf(127, "muster"));
  ExpectReport("invariant 5: a node that cannot start ends the job, but b was in round 1@1.abcd");
}

TEST_F(InvariantsTest, ALatecomerMayHaveBeenInARound) {
  Session session = SessionOf(b_);
  session.first_heard = 0;
  home_->sessions[1] = &session;
  Announce(a_, VerdictOf(127, "muster"));
  *b_.host.memory.mutable_last() = MakeRound(1, 1);
  Announce(a_, VerdictOf(127, "muster"));
  ExpectLawful();
}

TEST_F(InvariantsTest, AStrangerThatMovesTheCoordinatorIsReported) {
  v1::Directive refusal;
  refusal.mutable_refused();
  const rendezvous::Effects lawful = {rendezvous::SendDirective{7, refusal}};
  invariants_.OnStranger(*home_, home_->core.state(), 7, lawful);
  ExpectLawful();
  invariants_.OnStranger(*home_, home_->core.state(), 8, lawful);
  ExpectReport("invariant 5: a stranger moves coordinator 0");
}

TEST_F(InvariantsTest, AStrangerThatChangesTheEpochIsReported) {
  v1::Directive directive;
  directive.mutable_wait();
  Send(*home_, b_, directive, kStrangersEpoch);
  ExpectReport("invariant 5: coordinator 0 follows a stranger's epoch");
}

TEST_F(InvariantsTest, RefusingTheNeededPrimaryIsReported) {
  scenario_.job.min_nodes = 1;
  a_.host.options.config.mutable_cannot_start();
  v1::Directive directive;
  directive.mutable_refused()->set_exit_code(127);
  directive.mutable_refused()->set_reason("no program");
  Send(*home_, a_, directive);
  ExpectReport("invariant 5: a was refused: no program");
}

TEST_F(InvariantsTest, TheAgentOfADeadPrimaryMayBeRefusedByTheNextPrimaryAlone) {
  scenario_.job.min_nodes = 1;
  a_.host.options.config.mutable_cannot_start();
  a_.host.alive = false;
  Node next("next", 0);
  const CoordinatorHome home(&next.agent, &next.host, rendezvous::CoordinatorOptions{}, BootTime{}, 0);
  v1::Directive directive;
  directive.mutable_refused()->set_exit_code(127);
  directive.mutable_refused()->set_reason("no program");
  Send(home, a_, directive);
  ExpectLawful();
  Send(*home_, a_, directive);
  ExpectReport("invariant 5: a was refused: no program");
}

TEST_F(InvariantsTest, AnUnansweredStrangerIsReported) {
  invariants_.OnStranger(*home_, home_->core.state(), 7, {});
  ExpectReport("invariant 5: coordinator 0 answers a stranger 0 times");
}

TEST_F(InvariantsTest, AnUnboundedReasonIsReported) {
  v1::Directive directive;
  directive.mutable_wait()->set_reason(std::string(1000, 'x'));
  Send(*home_, b_, directive);
  ExpectLawful();
  directive.mutable_wait()->set_reason(std::string(10000, 'x'));
  Send(*home_, b_, directive);
  ExpectReport("invariant 5: b gets a reason of 10000 bytes");
}

TEST_F(InvariantsTest, ADirectiveThatNoAgentObeysIsReported) {
  v1::Directive directive;
  directive.mutable_wait();
  directive.mutable_greatest()->add_loss_ages_ms(kMaxAge);
  Send(*home_, b_, directive);
  ExpectLawful();
  directive.mutable_greatest()->add_loss_ages_ms(kMaxAge + 1);
  Send(*home_, b_, directive);
  ExpectReport(absl::StrCat("invariant 5: b gets what no agent obeys: Round.loss_ages_ms is ", kMaxAge + 1,
                            ", not 0 to ", kMaxAge));
}

TEST_F(InvariantsTest, AnExitWithoutAVerdictIsReported) {
  invariants_.OnFinish(b_.host, FinishOf(1, "no reason"));
  ExpectReport("invariant 5: b exits 1 (no reason) without a verdict");
}

TEST_F(InvariantsTest, GivingUpTheCoordinatorTooEarlyIsReported) {
  b_.host.contact.last_directive = 0;
  invariants_.OnFinish(b_.host, FinishOf(69, "not reached"));
  ExpectReport(
      "invariant 5: b exits 69 (not reached) without a verdict, though its coordinator was heard 0 ms ago");
}

TEST_F(InvariantsTest, Exit70AfterTooFewAgentDeathsIsReported) {
  b_.host.agent_starts.resize(host::kMaxAgentRestarts - 1);
  invariants_.OnFinish(b_.host, FinishOf(70, "the agent died"));
  ExpectReport("invariant 5: b exits 70 (the agent died) without a verdict");
}

TEST_F(InvariantsTest, Exit70WithoutStruckAgentsIsReported) {
  b_.host.agent_starts.resize(host::kMaxAgentRestarts);
  b_.host.fate.agents_struck = host::kMaxAgentRestarts;
  invariants_.OnFinish(b_.host, FinishOf(70, "the agent died"));
  ExpectLawful();
  b_.host.fate.agents_struck = 1;
  invariants_.OnFinish(b_.host, FinishOf(70, "the agent died"));
  ExpectReport("invariant 5: b exits 70 (the agent died) without a verdict");
}

TEST_F(InvariantsTest, Exit70WithSilentAgentsIsLawfulIfAllWereStruck) {
  b_.host.agent_starts.resize(3);
  b_.host.fate.agents_struck = 3;
  invariants_.OnFinish(b_.host, FinishOf(70, "no agent has responded for 20s"));
  ExpectLawful();
  b_.host.fate.agents_struck = 2;
  invariants_.OnFinish(b_.host, FinishOf(70, "no agent has responded for 20s"));
  ExpectReport("invariant 5: b exits 70 (no agent has responded for 20s) without a verdict");
}

TEST_F(InvariantsTest, Exit70WithoutAFirstAgentIsLawfulOnlyThen) {
  b_.host.agent = nullptr;
  b_.host.agent_starts.resize(1);
  b_.host.fate.agents_struck = 1;
  invariants_.OnFinish(b_.host, FinishOf(70, "cannot start the first agent"));
  ExpectLawful();
  b_.host.agent_starts.resize(2);
  invariants_.OnFinish(b_.host, FinishOf(70, "cannot start the first agent"));
  ExpectReport("invariant 5: b exits 70 (cannot start the first agent) without a verdict");
}

TEST_F(InvariantsTest, Exit77WithoutARefusalElsewhereIsReported) {
  b_.host.fate.refused_elsewhere = true;
  invariants_.OnFinish(b_.host, FinishOf(77, "run id"));
  ExpectLawful();
  b_.host.fate.refused_elsewhere = false;
  invariants_.OnFinish(b_.host, FinishOf(77, "run id"));
  ExpectReport("invariant 5: b exits 77 (run id) without a verdict");
}

TEST_F(InvariantsTest, ANodeThatGaveUpItsPortMayExitWith69) {
  b_.host.fate.gave_up_port = true;
  invariants_.OnFinish(b_.host, FinishOf(69, "the port is in use"));
  ExpectLawful();
  invariants_.OnFinish(b_.host, FinishOf(70, "the port is in use"));
  ExpectReport("invariant 5: b exits 70 (the port is in use) without a verdict");
}

TEST_F(InvariantsTest, AJobThatEndsWithoutAVerdictIsReported) {
  invariants_.OnSettled();
  ExpectReport("invariant 5: every host has ended, and none with a verdict");
}

TEST_F(InvariantsTest, NodesKilledAfterTheVerdictAreLawful) {
  *b_.host.memory.mutable_verdict() = VerdictOf(0, "muster");
  invariants_.OnHostDeath(b_.host);
  invariants_.OnSettled();
  ExpectLawful();
}

TEST_F(InvariantsTest, ANodeAskedToLeaveAfterTheVerdictIsLawful) {
  *b_.host.memory.mutable_verdict() = VerdictOf(130, "muster");
  b_.host.finish = FinishOf(75, "asked to leave");
  invariants_.OnHostDeath(b_.host);
  invariants_.OnSettled();
  ExpectLawful();
}

TEST_F(InvariantsTest, AFailedJobWithoutAFailureIsReported) {
  Finish(a_, 69, VerdictOf(69, "muster"));
  ExpectLawful();
  invariants_.OnSettled();
  ExpectReport("invariant 5: nothing failed, but the verdict is 69");
}

TEST_F(InvariantsTest, NodesThatAScriptCutsOffMayBeTooFew) {
  scenario_.script.kind = Script::kCutOffTogether;
  scenario_.faults.only_agents_die = false;
  Finish(a_, 69, VerdictOf(69, "muster"));
  invariants_.OnSettled();
  ExpectLawful();
}

TEST_F(InvariantsTest, AJobThatDoesNotEndIsReported) {
  invariants_.OnNotSettled();
  ExpectReport("invariant 5: no end within the bound after faults had ended; still there:");
}

// ---- invariant 6: the death of an agent ends no worker

TEST_F(InvariantsTest, SignallingWorkersAfterAgentDeathsIsReported) {
  invariants_.OnSignal(b_.host, SIGTERM);
  ExpectReport("invariant 6: b signals its workers (15) though only agents have died");
}

// ---- invariant 7: a wrapper's training has the grace

TEST_F(InvariantsTest, ATrainingKilledWithinTheGraceIsReported) {
  WorkerProcess training;
  training.host = &b_.host;
  training.pid = 71;
  invariants_.OnSparedKilled(training);
  ExpectReport("invariant 7: b kills pid 71 within the grace: its wrapper ended after our signal");
}

}  // namespace
}  // namespace muster::simulation
