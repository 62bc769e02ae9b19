// A status that cannot be true changes nothing, and what one node can cause in log and memory is bounded.
#include "absl/strings/str_cat.h"
#include "base/crypto/held.h"
#include "rendezvous/core/admission.h"
#include "tests/unit/longest_texts.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

void StartThree(Cluster* c) {
  for (const char* name : {"a", "b", "c"}) c->Join(name);
  c->Pass(absl::Seconds(20), {"a", "b", "c"});
  for (const char* name : {"a", "b", "c"}) c->Apply(name);
  ASSERT_EQ(c->state(), State::kRunning);
}

// Everything that people read, as long as it may be; run id, host id and address stay what they are.
void FillTexts(v1::AgentStatus* status) {
  v1::AgentStatus texts;
  for (std::string* text : {texts.mutable_trouble(), texts.mutable_preparing(), texts.mutable_how_host_ended(),
                            texts.mutable_role_name(), texts.mutable_version(), texts.mutable_hostname()}) {
    *text = "x";
  }
  for (v1::Failure* failure :
       {texts.mutable_failure(), texts.mutable_cannot_start(), texts.mutable_verdict()->mutable_root_cause()}) {
    for (std::string* text :
         {failure->mutable_error_text(), failure->mutable_callstack(), failure->mutable_error_file(),
          failure->mutable_last_output(), failure->mutable_hint(), failure->mutable_host()}) {
      *text = "x";
    }
    failure->set_exit_code(1);
    *failure->mutable_round() = status->last().id();
  }
  texts.mutable_verdict()->set_reason("x");
  texts.mutable_verdict()->set_exit_code(1);
  texts.mutable_verdict()->set_digest(1);
  Lengthen(&texts);
  status->MergeFrom(texts);
}

TEST(CoordinatorNonsense, OnlyThisProcesssOwnAgentIsThePrimarys) {
  Cluster c(Fixed(2));
  c.Join("a");
  Cluster::Node& other = c.At("other");
  other.status = c.At("a").status;
  other.status.set_host_id("other");
  other.stream = 77;
  c.Say("other");
  EXPECT_EQ(c.Told("other").refused().reason(), "");
  other.status.set_at_primary(true);
  Effects effects;
  Coordinator core(Cluster::Tuned(Fixed(2)), FromBootNanos(1), 1);
  core.OnStatus(FromBootNanos(2), 78, other.status, &effects);
  const auto* refused = std::get_if<SendDirective>(&effects.back());
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->directive.refused().reason(),
            "invalid status: claims to come from the coordinator's own process");
  EXPECT_TRUE(core.job().hosts.empty());
}

TEST(CoordinatorNonsense, ANodeCannotReportTheSuccessOfAnother) {
  Cluster c(Fixed(3));
  StartThree(&c);
  const int ranks[] = {c.Told("a").run().node_rank(), c.Told("b").run().node_rank(),
                       c.Told("c").run().node_rank()};
  for (const int rank : ranks) {
    c.At("c").status.mutable_last()->set_node_rank(rank);
    c.Phase("c", v1::PHASE_SUCCEEDED);
  }
  EXPECT_EQ(c.core().greatest().node_count(), 3);
  EXPECT_EQ(c.core().job().greatest.successes.ranks, std::set<int>({ranks[2]}));
  EXPECT_FALSE(c.core().verdict().has_value());
}

TEST(CoordinatorNonsense, AStrangerToTheRoundCannotReportItsSuccess) {
  Cluster c(Fixed(2));
  c.Join("a");
  c.Join("b");
  c.Pass(absl::Seconds(20), {"a", "b"});
  c.Apply("a");
  c.Apply("b");
  c.Phase("a", v1::PHASE_SUCCEEDED);
  c.Join("x");
  *c.At("x").status.mutable_last() = c.At("b").status.last();
  c.Phase("x", v1::PHASE_SUCCEEDED);
  EXPECT_FALSE(c.core().verdict().has_value());
  EXPECT_FALSE(c.core().job().Claims(*c.core().job().hosts.Find("x")));
  c.Phase("b", v1::PHASE_SUCCEEDED);
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 0);
}

TEST(CoordinatorNonsense, ASuccessThatThisCoordinatorHasNotSeenIsNone) {
  Cluster c(Fixed(3));
  StartThree(&c);
  c.At("c").status.mutable_verdict()->set_exit_code(0);
  c.Say("c");
  EXPECT_EQ(c.Told("c").refused().reason(), "reports that the job has succeeded while its round still runs");
  EXPECT_FALSE(c.core().verdict().has_value());
  EXPECT_EQ(c.state(), State::kRunning);
}

TEST(CoordinatorNonsense, NumbersFarAboveTheJobsOwnAreNotBelieved) {
  const char kFar[] = "invalid status: an epoch or round far beyond those of this job";
  for (const bool is_epoch : {true, false}) {
    for (const uint64_t beyond : {uint64_t{0}, uint64_t{1}}) {
      Cluster c(Fixed(3));
      StartThree(&c);
      const uint64_t most =
          kMaxJump + beyond + (is_epoch ? c.core().epoch().number() : c.core().greatest().id().number());
      v1::AgentStatus& status = c.At("c").status;
      (is_epoch ? status.mutable_epoch()->set_number(most)
                : status.mutable_last()->mutable_id()->set_number(most));
      status.mutable_last()->mutable_id()->mutable_epoch()->set_random(7);  // another coordinator's
      c.Say("c");
      EXPECT_EQ(c.Told("c").refused().reason(), beyond > 0 ? kFar : "") << most;
    }
  }
}

// A greater epoch makes this coordinator learn its job anew, and then it knows less of its own numbers.
TEST(CoordinatorNonsense, NotAfterAGreaterEpochEither) {
  Cluster c(Fixed(3));
  StartThree(&c);
  v1::AgentStatus& other = c.At("other").status;
  other = c.At("c").status;
  other.set_host_id("other");
  other.clear_last();
  other.mutable_epoch()->set_number(c.core().epoch().number() + 1);
  c.Attach("other");
  const uint64_t epoch = c.core().epoch().number();
  for (const uint64_t number : {kMaxNumber, kMaxNumber / 2, epoch + kMaxJump + 1}) {
    other.mutable_epoch()->set_number(number);
    c.Say("other");
    EXPECT_EQ(c.Told("other").refused().reason(),
              "invalid status: an epoch or round far beyond those of this job");
  }
  EXPECT_EQ(c.core().epoch().number(), epoch);
}

// A host that reports an epoch greater than the job's. Returns why it is refused.
std::string BringGreaterEpoch(Cluster* c, const std::string& name) {
  c->At(name).status = c->At("c").status;
  c->At(name).status.set_host_id(name);
  c->At(name).status.clear_last();
  c->At(name).status.mutable_epoch()->set_number(c->core().epoch().number() + 1);
  c->Attach(name);
  return c->Told(name).refused().reason();
}

// It would replace a true round whose members are away, and what the other says of it would be all that is known.
TEST(CoordinatorNonsense, ARoundOfThisCoordinatorsThatItNeverStartedIsRefused) {
  const char kNever[] = "reports a round of this coordinator's that was never started";
  Cluster c(Fixed(3));
  StartThree(&c);
  const v1::Epoch first = c.core().epoch();
  v1::AgentStatus& other = c.At("other").status;
  ASSERT_EQ(BringGreaterEpoch(&c, "other"), "");
  ASSERT_NE(c.core().epoch().number(), first.number());
  for (const v1::Epoch& own : {first, c.core().epoch()}) {
    other.mutable_last()->mutable_id()->set_number(c.core().greatest().id().number() + 1);
    *other.mutable_last()->mutable_id()->mutable_epoch() = own;
    other.mutable_last()->set_node_count(1);
    c.Say("other");
    EXPECT_EQ(c.Told("other").refused().reason(), kNever) << ToString(own);
    EXPECT_EQ(c.core().greatest().node_count(), 3);
  }
}

TEST(CoordinatorNonsense, ACoordinatorThatStartsLeavesRoomToCountOn) {
  Cluster c(Fixed(3));
  for (const char* name : {"a", "b"}) c.Join(name);
  c.At("b").status.mutable_epoch()->set_number(kMaxNumber);
  c.Say("b");
  EXPECT_EQ(c.Told("b").refused().reason(), "invalid status: an epoch or round far beyond those of this job");
}

TEST(CoordinatorNonsense, NothingIsKeptOfTheDetailsOfAResult) {
  Cluster c(Fixed(3));
  StartThree(&c);
  FillTexts(&c.At("c").status);
  c.At("c").status.clear_cannot_start();
  c.Say("c");
  ASSERT_EQ(c.Told("c").refused().reason(), "");
  const v1::Verdict& kept = c.core().job().hosts.Find("c")->status.verdict();
  EXPECT_EQ(kept.exit_code(), 1);
  EXPECT_LT(kept.SpaceUsedLong(), size_t{1024});
}

// Agents ignore a directive with a text that is too long, and its lease (base/wire/ranges.h). The cluster checks
// each.
TEST(CoordinatorNonsense, TheLongestTextsOfANodeMakeNoDirectiveTooLong) {
  for (int phase = v1::PHASE_READY; phase <= v1::PHASE_HOST_GONE; ++phase) {
    for (const int with : {0, 1, 2, 3}) {
      CoordinatorOptions options = Fixed(3);
      options.max_node_losses = with % 2;
      Cluster c(options);
      StartThree(&c);
      v1::AgentStatus& status = c.At("c").status;
      FillTexts(&status);
      if (with < 3) status.clear_verdict();
      if (with < 2) status.clear_cannot_start();
      if (with < 1) status.clear_preparing();
      ASSERT_EQ(OutOfRange(status), "");
      c.Phase("c", static_cast<v1::Phase>(phase));
      c.Pass(absl::Seconds(5), {"a", "b", "c"});
      c.Join("d");
      c.Pass(absl::Seconds(5), {"a", "b", "c", "d"});
      c.Close("c");
      c.Pass(absl::Seconds(15), {"a", "b", "d"});
    }
  }
}

// Scripts find the address in MASTER_ADDR.
TEST(CoordinatorNonsense, AnAddressIsOne) {
  for (const char* host : {"a $(touch x)", "a\nMASTER_ADDR=evil", "a;b", "\x1b[2J"}) {
    Cluster c(Fixed(3));
    StartThree(&c);
    c.At("b").status.mutable_offer()->set_host(host);
    c.Say("b");
    EXPECT_EQ(c.Told("b").refused().reason(), "invalid status: an address with characters that none has") << host;
  }
}

TEST(CoordinatorNonsense, ANodeThatIsUnusableAgainAndAgainDoesNotFillTheLog) {
  Cluster c(Fixed(3));
  StartThree(&c);
  c.Join("spare");
  for (int i = 0; i < 1000; ++i) {
    c.At("spare").status.set_trouble(absl::StrCat("trouble ", i));
    c.Phase("spare", i % 2 == 0 ? v1::PHASE_UNUSABLE : v1::PHASE_READY);
  }
  EXPECT_GE(c.warnings().size(), 1u);
  EXPECT_LE(c.warnings().size(), static_cast<size_t>(kUseLinesBurst));
}

TEST(CoordinatorNonsense, ANodeThatComesBackWithoutEndDoesNotFillTheLog) {
  Cluster c(Fixed(3));
  StartThree(&c);
  for (int i = 0; i < 1000; ++i) {
    const std::string name = absl::StrCat("spare", i);
    c.Join(name);
    for (int j = 0; j < 10; ++j) c.Phase(name, j % 2 == 0 ? v1::PHASE_UNUSABLE : v1::PHASE_READY);
    c.Phase(name, v1::PHASE_HOST_GONE);
  }
  EXPECT_EQ(c.Said(" is usable again"), static_cast<int>(kNodeLinesBurst) / 2) << "as many are warnings";
  EXPECT_EQ(c.Said("some of these lines are left out"), 1);
}

// What others said of times has grown since, and goes to every node. The cluster checks each directive.
TEST(CoordinatorNonsense, TheOldestTimesOfANodeMakeNoDirectiveThatNobodyObeys) {
  Cluster c(Fixed(3));
  c.Join("a");
  c.Join("b");
  v1::AgentStatus& status = c.At("c").status;
  v1::Round& last = *status.mutable_last();
  last.mutable_id()->set_number(1);
  last.mutable_id()->mutable_epoch()->set_number(1);
  last.set_node_count(1);
  last.set_node_rank(0);
  last.set_age_ms(kMaxAge);
  last.add_loss_ages_ms(kMaxAge);
  last.add_failure_ages_ms(kMaxAge);
  last.add_excluded()->set_host_id("x");
  last.mutable_excluded(0)->set_left_ms(-kMaxAge);
  status.set_in_job_ms(kMaxAge);
  status.set_gathering_ms(kMaxAge);
  c.Join("c");
  ASSERT_EQ(c.Told("c").refused().reason(), "");
  for (int second = 0; second < 60; ++second) {
    c.Pass(absl::Seconds(1), {"a", "b", "c"});
    for (const char* name : {"a", "b", "c"}) c.Apply(name);
  }
  EXPECT_GE(c.Told("a").greatest().failure_ages_ms_size(), 1) << "else it shows nothing";
}

TEST(CoordinatorNonsense, AnInventedExclusionLastsNoLongerThanOthers) {
  for (const int exclude_after : {0, 2}) {
    CoordinatorOptions options = Fixed(3);
    options.exclude_after = exclude_after;
    options.exclude_for = absl::Hours(1);
    Cluster c(options);
    c.Join("a");
    v1::Round& last = *c.At("c").status.mutable_last();
    last.mutable_id()->set_number(1);
    last.set_node_count(1);
    last.add_excluded()->set_host_id("a");
    last.mutable_excluded(0)->set_left_ms(kMaxAge);
    c.Join("c");
    ASSERT_EQ(c.Told("c").refused().reason(), "");
    const auto& excluded = c.core().job().counts.excluded;
    EXPECT_EQ(excluded.size(), exclude_after == 0 ? 0u : 1u);
    for (const auto& [id, until] : excluded) EXPECT_LE(until, FromBootNanos(0) + absl::Hours(2)) << id;
  }
}

// Else it would exit with one code and report another.
TEST(CoordinatorNonsense, WhoHoldsAnotherResultIsNotReleasedBeforeItHasTheJobs) {
  Cluster c(Fixed(3));
  StartThree(&c);
  for (const char* name : {"b", "c"}) {
    v1::AgentStatus& status = c.At(name).status;
    status.mutable_verdict()->set_exit_code(1);
    status.mutable_verdict()->set_digest(name[0]);
    status.set_live_workers(0);
    c.Phase(name, v1::PHASE_READY);
  }
  ASSERT_EQ(c.core().verdict()->digest(), uint64_t{'b'});
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Say("c");
  EXPECT_FALSE(c.Told("c").has_release());
  c.Apply("c");
  c.Pass(absl::Seconds(1), {"a", "b", "c"});
  EXPECT_TRUE(c.Told("c").has_release());
}

TEST(CoordinatorNonsense, ANodeThatIsUnusableForNoReasonIsNamed) {
  Cluster c(Fixed(3));
  StartThree(&c);
  c.Join("spare");
  c.Phase("spare", v1::PHASE_UNUSABLE);
  EXPECT_EQ(c.warnings().back(), "spare is unusable");
}

// A token is enough for any number of nodes, each of which can say that it has followed the one before it.
TEST(CoordinatorNonsense, NodesThatDieWithoutEndDoNotFillTheLog) {
  Cluster c(Fixed(3));
  StartThree(&c);
  for (int i = 0; i < 3000; ++i) {
    const std::string name = absl::StrCat("spare", i);
    if (i > 0) c.At(name).status.set_predecessor_dead(absl::StrCat("spare", i - 1));
    c.Join(name, 3);
    c.Close(name);
  }
  EXPECT_LE(c.Said("is confirmed dead"), static_cast<int>(kNodeLinesBurst));
  EXPECT_GE(c.Said("is confirmed dead"), 1);
}

TEST(CoordinatorNonsense, AFailureHappenedOnTheNodeThatReportsIt) {
  Cluster c(Fixed(3));
  StartThree(&c);
  v1::Failure& failure = *c.At("c").status.mutable_failure();
  failure.set_host("a");
  failure.set_rank(0);
  failure.set_node_rank(c.Told("a").run().node_rank());
  failure.set_local_rank(1);
  failure.add_others()->set_host("b");
  c.Fail("c", 7);
  const v1::Round& run = c.core().job().hosts.Find("c")->part.round;
  const v1::Failure& learned = c.core().job().hosts.Find("c")->status.failure();
  EXPECT_EQ(learned.host(), "c");
  EXPECT_EQ(learned.node_rank(), run.node_rank());
  EXPECT_EQ(learned.rank(), run.first_rank() + 1);
  EXPECT_EQ(learned.others(0).host(), "c");
}

TEST(CoordinatorNonsense, AHostClaimsOnePlace) {
  Cluster c(Fixed(3));
  c.Join("a", 0);
  c.Join("b", 1);
  c.At("b").status.clear_place();
  c.Say("b");
  EXPECT_EQ(c.Told("b").refused().reason(), "claims several places") << "one after the other, too";
  c.At("b").status.set_place(2);
  c.Say("b");
  EXPECT_EQ(c.Told("b").refused().reason(), "claims several places");
  EXPECT_EQ(c.core().job().hosts.HolderOf(2), nullptr);
}

TEST(CoordinatorNonsense, ARoundHasMembers) {
  Cluster c(Fixed(3));
  c.Join("a");
  c.Join("b");
  v1::Round* last = c.At("b").status.mutable_last();
  last->mutable_id()->set_number(1);
  c.Say("b");
  EXPECT_EQ(c.Told("b").refused().reason(), "invalid status: a round without members, or a rank beyond them");
}

// Whatever code a node reports, its failure never counts as a success.
TEST(CoordinatorNonsense, AFailureWithTheCodeZeroEndsTheJobAsFailed) {
  Cluster c(Fixed(3, 0));
  StartThree(&c);
  c.Fail("c", 0);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 1);
}

TEST(CoordinatorNonsense, ANodeThatCannotStartWithTheCodeZeroEndsTheJobAsFailed) {
  Cluster c(Fixed(2));
  c.Join("a");
  c.At("b").status.mutable_cannot_start();
  c.Join("b");
  c.Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 1);
}

// A node that leaves writes its last checkpoint for as long as its own options allow.
TEST(CoordinatorNonsense, ANodeThatLeavesHasItsLeaseForLonger) {
  CoordinatorOptions options = Elastic(2, 3);
  options.lease = absl::Seconds(10);
  Cluster c(options);
  StartThree(&c);
  c.Phase("c", v1::PHASE_LEAVING);
  ASSERT_EQ(c.state(), State::kDraining);
  for (const char* name : {"a", "b"}) c.Apply(name);
  for (absl::Duration t; t < options.shutdown_grace + 2 * kStopLimit; t += absl::Seconds(1)) {
    c.Pass(absl::Seconds(1), {"a", "b"});
    c.Say("c");
  }
  EXPECT_EQ(c.state(), State::kDraining);
  EXPECT_TRUE(c.Told("c").has_lease());
}

// Its lease is not renewed any more, so its workers, if it has any, end with that.
TEST(CoordinatorNonsense, ANodeThatNeverEndsItsStopIsAwaitedForALimitedTime) {
  CoordinatorOptions options = Elastic(2, 3);
  options.lease = absl::Seconds(10);
  Cluster c(options);
  StartThree(&c);
  c.Fail("a", 1);
  ASSERT_EQ(c.state(), State::kDraining);
  c.Apply("a");
  c.Apply("b");
  const auto beat_for = [&](absl::Duration duration) {
    for (absl::Duration t; t < duration && c.state() == State::kDraining; t += absl::Seconds(1)) {
      c.Pass(absl::Seconds(1), {"a", "b"});
      c.Say("c");
    }
  };
  beat_for(options.shutdown_grace + kStopLimit);
  EXPECT_EQ(c.state(), State::kDraining);
  EXPECT_TRUE(c.Told("c").has_lease());
  beat_for(absl::Seconds(2));
  EXPECT_EQ(c.state(), State::kDraining);
  EXPECT_FALSE(c.Told("c").has_lease());
  beat_for(options.lease + options.margin());
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.core().greatest().node_count(), 2);
}

TEST(CoordinatorNonsense, ANodeThatNeverAcknowledgesTheVerdictIsAwaitedForALimitedTime) {
  CoordinatorOptions options = Fixed(3, 0);
  Cluster c(options);
  StartThree(&c);
  for (const char* name : {"a", "b", "c"}) c.Phase(name, v1::PHASE_SUCCEEDED);
  ASSERT_EQ(c.state(), State::kVerdict);
  c.Apply("a");
  c.Apply("b");
  for (absl::Duration t; t < options.shutdown_grace + kStopLimit; t += absl::Seconds(1)) {
    EXPECT_EQ(c.state(), State::kVerdict);
    c.Pass(absl::Seconds(1), {"a", "b"});
    c.Say("c");
  }
  c.Pass(absl::Seconds(1), {"a", "b"});
  EXPECT_EQ(c.state(), State::kReleasing);
}

}  // namespace
}  // namespace muster::rendezvous
