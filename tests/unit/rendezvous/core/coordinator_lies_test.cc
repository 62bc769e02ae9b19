// A node that was admitted speaks for itself alone: what it claims of others, or of this process, changes nothing.
#include "absl/strings/str_cat.h"
#include "base/crypto/held.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/testimony.h"
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

TEST(CoordinatorLies, OnlyThisProcesssOwnAgentIsThePrimarys) {
  Cluster c(Fixed(2));
  c.Join("a");
  Cluster::Node& liar = c.At("liar");
  liar.status = c.At("a").status;
  liar.status.set_host_id("liar");
  liar.stream = 77;
  c.Say("liar");
  EXPECT_EQ(c.Told("liar").refused().reason(), "");
  liar.status.set_at_primary(true);
  Effects effects;
  Coordinator core(Cluster::Tuned(Fixed(2)), FromBootNanos(1), 1);
  core.OnStatus(FromBootNanos(2), 78, liar.status, &effects);
  const auto* refused = std::get_if<SendDirective>(&effects.back());
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->directive.refused().reason(),
            "invalid status: claims to come from the coordinator's own process");
  EXPECT_TRUE(core.job().hosts.empty());
}

TEST(CoordinatorLies, ANodeCannotReportTheSuccessOfAnother) {
  Cluster c(Fixed(3));
  StartThree(&c);
  const int ranks[] = {c.Told("a").run().node_rank(), c.Told("b").run().node_rank(),
                       c.Told("c").run().node_rank()};
  for (const int rank : ranks) {
    c.At("c").status.mutable_last()->set_node_rank(rank);
    c.Phase("c", v1::PHASE_SUCCEEDED);
  }
  EXPECT_EQ(c.core().greatest().node_count(), 3);
  EXPECT_EQ(c.core().job().greatest.succeeded, std::set<int>({ranks[2]}));
  EXPECT_FALSE(c.core().verdict().has_value());
}

TEST(CoordinatorLies, AStrangerToTheRoundCannotReportItsSuccess) {
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

// ---- what would keep the job from going on ------------------------------------------------------------------

TEST(CoordinatorLies, ASuccessThatThisCoordinatorHasNotSeenIsNone) {
  Cluster c(Fixed(3));
  StartThree(&c);
  c.At("c").status.mutable_verdict()->set_exit_code(0);
  c.Say("c");
  EXPECT_EQ(c.Told("c").refused().reason(), "reports that the job has succeeded while its round still runs");
  EXPECT_FALSE(c.core().verdict().has_value());
  EXPECT_EQ(c.state(), State::kRunning);
}

TEST(CoordinatorLies, NumbersFarAboveTheJobsOwnAreNotBelieved) {
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
TEST(CoordinatorLies, NotAfterAGreaterEpochEither) {
  Cluster c(Fixed(3));
  StartThree(&c);
  v1::AgentStatus& liar = c.At("liar").status;
  liar = c.At("c").status;
  liar.set_host_id("liar");
  liar.clear_last();
  liar.mutable_epoch()->set_number(c.core().epoch().number() + 1);
  c.Attach("liar");
  const uint64_t epoch = c.core().epoch().number();
  for (const uint64_t number : {kMaxNumber, kMaxNumber / 2, epoch + kMaxJump + 1}) {
    liar.mutable_epoch()->set_number(number);
    c.Say("liar");
    EXPECT_EQ(c.Told("liar").refused().reason(), "invalid status: an epoch or round far beyond those of this job");
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

// It would replace a true round whose members are away, and what the liar says of it would be all that is known.
TEST(CoordinatorLies, ARoundOfThisCoordinatorsThatItNeverStartedIsRefused) {
  const char kNever[] = "reports a round of this coordinator's that was never started";
  Cluster c(Fixed(3));
  StartThree(&c);
  const v1::Epoch first = c.core().epoch();
  v1::AgentStatus& liar = c.At("liar").status;
  ASSERT_EQ(BringGreaterEpoch(&c, "liar"), "");
  ASSERT_NE(c.core().epoch().number(), first.number());
  for (const v1::Epoch& own : {first, c.core().epoch()}) {
    liar.mutable_last()->mutable_id()->set_number(c.core().greatest().id().number() + 1);
    *liar.mutable_last()->mutable_id()->mutable_epoch() = own;
    liar.mutable_last()->set_node_count(1);
    c.Say("liar");
    EXPECT_EQ(c.Told("liar").refused().reason(), kNever) << ToString(own);
    EXPECT_EQ(c.core().greatest().node_count(), 3);
  }
}

TEST(CoordinatorLies, ACoordinatorThatStartsLeavesRoomToCountOn) {
  Cluster c(Fixed(3));
  for (const char* name : {"a", "b"}) c.Join(name);
  c.At("b").status.mutable_epoch()->set_number(kMaxNumber);
  c.Say("b");
  EXPECT_EQ(c.Told("b").refused().reason(), "invalid status: an epoch or round far beyond those of this job");
}

// Another host each time.
void BringAllGreaterEpochs(Cluster* c) {
  for (size_t i = 0; i < kMaxEpochsMet; ++i) {
    ASSERT_EQ(BringGreaterEpoch(c, absl::StrCat("liar", i)), "") << i;
    for (const char* name : {"a", "b", "c"}) c->Apply(name);
    ASSERT_EQ(c->state(), State::kRunning) << i;
  }
}

TEST(CoordinatorLies, OnlySoManyGreaterEpochsAreBelieved) {
  Cluster c(Fixed(3));
  StartThree(&c);
  BringAllGreaterEpochs(&c);
  const uint64_t before = c.core().epoch().number();
  EXPECT_EQ(BringGreaterEpoch(&c, "liar"), kMetTooMany);
  EXPECT_EQ(c.core().epoch().number(), before);
  EXPECT_EQ(c.state(), State::kRunning);
}

// The member "c" has been at a coordinator of a still greater epoch than the last time, and returns.
void ReturnFromElsewhere(Cluster* c, uint64_t epochs_above) {
  c->At("c").status.mutable_epoch()->set_number(c->core().epoch().number() + epochs_above);
  c->Attach("c");
  EXPECT_EQ(c->Told("c").refused().reason(), kMetTooMany);
}

void LoseCWithAllEpochsMet(Cluster* c) {
  StartThree(c);
  BringAllGreaterEpochs(c);
  c->Close("c");
  c->Pass(absl::Seconds(5), {"a", "b"});
  ASSERT_EQ(c->state(), State::kDraining);
  for (const char* name : {"a", "b"}) c->Apply(name);
}

// Its name led it to another coordinator for a moment, and it may have a lease from there.
TEST(CoordinatorLies, TheRankOfAMemberThatFollowsAnotherCoordinatorIsNotFreeAtOnce) {
  Cluster c(Elastic(2, 3));
  LoseCWithAllEpochsMet(&c);
  ReturnFromElsewhere(&c, 1);
  c.Pass(absl::Seconds(8), {"a", "b"});
  EXPECT_EQ(c.state(), State::kDraining) << "the lease that it had here has ended";
  c.Pass(absl::Seconds(4), {"a", "b"});
  EXPECT_NE(c.state(), State::kDraining);
}

TEST(CoordinatorLies, AMemberThatFollowsSeveralOthersInTurnIsWaitedForAnew) {
  Cluster c(Elastic(2, 3));
  LoseCWithAllEpochsMet(&c);
  for (uint64_t epoch = 1; epoch <= kMaxTimesElsewhere; ++epoch) {
    ReturnFromElsewhere(&c, epoch);
    c.Pass(absl::Seconds(8), {"a", "b"});
    ASSERT_EQ(c.state(), State::kDraining) << epoch;
  }
  ReturnFromElsewhere(&c, kMaxTimesElsewhere + 1);  // no honest one does that
  c.Pass(absl::Seconds(4), {"a", "b"});
  EXPECT_NE(c.state(), State::kDraining);
}

TEST(CoordinatorLies, AMemberThatRepeatsTheSameEpochIsNotWaitedForAnew) {
  Cluster c(Elastic(2, 3));
  LoseCWithAllEpochsMet(&c);
  for (int i = 0; i < 3; ++i) {
    ReturnFromElsewhere(&c, 1);
    c.Pass(absl::Seconds(4), {"a", "b"});
  }
  EXPECT_NE(c.state(), State::kDraining);
}

// It chooses the digest, and so could say of a success that it is a failure's.
TEST(CoordinatorLies, AFailureDoesNotBecomeASuccess) {
  Cluster c(Fixed(3));
  StartThree(&c);
  v1::Verdict& verdict = *c.At("c").status.mutable_verdict();
  verdict.set_exit_code(1);
  verdict.set_digest(7);
  verdict.set_brief(true);
  c.Say("c");
  ASSERT_EQ(c.core().verdict()->exit_code(), 1);
  verdict.set_exit_code(0);
  verdict.set_brief(false);
  for (const uint64_t digest : {uint64_t{7}, c.core().verdict()->digest(), DigestOf(verdict)}) {
    verdict.set_digest(digest);
    c.Say("c");
    EXPECT_EQ(c.core().verdict()->exit_code(), 1);
  }
}

// A coordinator without a round of its own adopts what a node brings, in its short form, too.
TEST(CoordinatorLies, NotWhileThisCoordinatorLearnsEither) {
  const auto bring = [](v1::Verdict brief, v1::Verdict whole) {
    Cluster c(Fixed(3));
    c.Join("a");
    *c.At("c").status.mutable_verdict() = std::move(brief);
    c.Join("c");
    *c.At("c").status.mutable_verdict() = std::move(whole);
    c.Say("c");
    return *c.core().verdict();
  };
  v1::Verdict failure, success, whole;
  failure.set_exit_code(1);
  failure.set_brief(true);
  failure.set_digest(7);
  success.set_digest(7);
  EXPECT_EQ(bring(failure, success).exit_code(), 1);
  success.set_digest(DigestOf(success));
  failure.set_digest(success.digest());
  EXPECT_EQ(bring(failure, success).exit_code(), 1);
  whole.set_exit_code(1);
  whole.mutable_root_cause()->set_error_text("why");
  whole.set_digest(DigestOf(whole));
  EXPECT_EQ(bring(Brief(whole), whole).root_cause().error_text(), "why") << "these are its details";
}

TEST(CoordinatorLies, NothingIsKeptOfTheDetailsOfAResult) {
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

TEST(CoordinatorLies, ANodeThatEndsTheJobAccusesNobody) {
  Cluster c(InAgent(Fixed(3)));
  StartThree(&c);
  v1::Verdict& verdict = *c.At("c").status.mutable_verdict();
  verdict.set_exit_code(1);
  verdict.set_origin("worker");
  verdict.set_reason("an ECC error on a");
  verdict.mutable_root_cause()->set_host("a");
  verdict.add_other_failures()->set_host("b");
  verdict.set_closing_host("nobody");
  verdict.set_digest(7);
  c.Say("c");
  const v1::Verdict& told = *c.core().verdict();
  EXPECT_EQ(told.exit_code(), 1);
  EXPECT_EQ(told.origin(), "worker") << "for that no platform retries the job";
  EXPECT_EQ(told.reason(), "c says that the job has ended: an ECC error on a");
  EXPECT_FALSE(told.has_root_cause() || told.other_failures_size() > 0);
  EXPECT_EQ(told.closing_host(), "a");
}

// Agents ignore a directive with a text that is too long, and its lease (base/ranges.h). The cluster checks each.
TEST(CoordinatorLies, TheLongestTextsOfANodeMakeNoDirectiveTooLong) {
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
TEST(CoordinatorLies, AnAddressIsOne) {
  for (const char* host : {"a $(touch x)", "a\nMASTER_ADDR=evil", "a;b", "\x1b[2J"}) {
    Cluster c(Fixed(3));
    StartThree(&c);
    c.At("b").status.mutable_offer()->set_host(host);
    c.Say("b");
    EXPECT_EQ(c.Told("b").refused().reason(), "invalid status: an address with characters that none has") << host;
  }
}

TEST(CoordinatorLies, ANodeThatIsUnusableAgainAndAgainDoesNotFillTheLog) {
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

TEST(CoordinatorLies, ANodeThatComesBackWithoutEndDoesNotFillTheLog) {
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
TEST(CoordinatorLies, TheOldestTimesOfANodeMakeNoDirectiveThatNobodyObeys) {
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

TEST(CoordinatorLies, AnInventedExclusionLastsNoLongerThanOthers) {
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

// Whoever claims a greater epoch makes this coordinator learn its job anew; the round that it made stays its own.
TEST(CoordinatorLies, AGreaterEpochMakesNoInventedCauseTheJobs) {
  Cluster c(Fixed(3));
  StartThree(&c);
  ASSERT_EQ(BringGreaterEpoch(&c, "liar"), "");
  v1::AgentStatus& liar = c.At("liar").status;
  liar.mutable_last()->mutable_id()->set_number(c.core().greatest().id().number() + 1);
  *liar.mutable_last()->mutable_id()->mutable_epoch() = liar.epoch();
  liar.mutable_last()->set_node_count(1);
  liar.mutable_last()->set_failures(kMaxCount);
  c.Say("liar");
  EXPECT_EQ(c.core().job().counts.failures, 0);
  liar.mutable_verdict()->set_exit_code(5);
  liar.mutable_verdict()->set_digest(7);
  liar.mutable_verdict()->set_closing_host("liar");
  liar.mutable_verdict()->mutable_root_cause()->set_host("a");
  c.Say("liar");
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 5) << "anyone may end the job";
  EXPECT_FALSE(c.core().verdict()->has_root_cause());
  EXPECT_NE(c.core().verdict()->closing_host(), "liar");
}

// Else it would exit with one code and report another.
TEST(CoordinatorLies, WhoHoldsAnotherResultIsNotReleasedBeforeItHasTheJobs) {
  Cluster c(Fixed(3));
  StartThree(&c);
  v1::AgentStatus& status = c.At("c").status;
  status.mutable_verdict()->set_exit_code(1);
  status.mutable_verdict()->set_digest(7);
  status.set_live_workers(0);
  c.Phase("c", v1::PHASE_READY);
  ASSERT_TRUE(c.core().verdict().has_value());
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Say("c");
  EXPECT_FALSE(c.Told("c").has_release());
  c.Apply("c");
  c.Pass(absl::Seconds(1), {"a", "b", "c"});
  EXPECT_TRUE(c.Told("c").has_release());
}

// The greater epoch makes this coordinator learn its job anew while a member is cut off, which may have succeeded
// for all that is known here.
TEST(CoordinatorLies, AStrangerToTheRoundCannotSayThatTheAbsentHaveSucceeded) {
  Cluster c(Elastic(2, 3));
  StartThree(&c);
  for (const char* name : {"a", "b"}) c.Phase(name, v1::PHASE_SUCCEEDED);
  c.Pass(absl::Seconds(5), {"a", "b"});
  ASSERT_EQ(BringGreaterEpoch(&c, "liar"), "");
  for (const char* name : {"a", "b"}) c.Apply(name);
  c.Pass(absl::Seconds(10), {"a", "b", "liar"});
  ASSERT_EQ(c.core().job().hosts.Find("c"), nullptr) << "it is lost";
  v1::AgentStatus& liar = c.At("liar").status;
  liar.clear_last();
  liar.mutable_verdict()->set_exit_code(0);
  liar.mutable_verdict()->set_digest(7);
  c.Say("liar");
  ASSERT_EQ(c.Told("liar").refused().reason(), "");
  c.Pass(absl::Seconds(30), {"a", "b", "liar"});
  EXPECT_FALSE(c.core().verdict().has_value());
}

// It was told that it may go, and comes back with a part in a round of its own.
TEST(CoordinatorLies, AMemberThatWasReleasedBeforeIsStillMissedWhenItGoes) {
  Cluster c(Fixed(2));
  c.Join("liar");
  c.Phase("liar", v1::PHASE_LEAVING);
  ASSERT_TRUE(c.Told("liar").has_release());
  v1::AgentStatus& liar = c.At("liar").status;
  v1::Round& round = *liar.mutable_last();
  round.mutable_id()->set_number(1);
  round.mutable_id()->mutable_epoch()->set_number(1);
  round.set_node_count(1);
  round.set_node_rank(0);
  round.set_members(MembersDigest({{0, "liar"}}));
  liar.set_live_workers(1);
  liar.set_outcome(v1::OUTCOME_RAN);
  *liar.mutable_epoch() = *liar.mutable_applied()->mutable_epoch() = c.core().epoch();
  liar.mutable_applied()->set_seq(1'000'000);
  c.Phase("liar", v1::PHASE_RUNNING);
  c.Pass(absl::Seconds(15), {"liar"});
  ASSERT_EQ(c.state(), State::kRunning);
  c.Close("liar");
  for (const char* name : {"a", "b"}) c.Join(name);
  c.Pass(absl::Seconds(40), {"a", "b"});
  EXPECT_GE(c.Said("node 0 (liar) ended"), 1);
  EXPECT_EQ(c.core().greatest().node_count(), 2) << "the job goes on without it";
}

TEST(CoordinatorLies, ANodeThatIsUnusableForNoReasonIsNamed) {
  Cluster c(Fixed(3));
  StartThree(&c);
  c.Join("spare");
  c.Phase("spare", v1::PHASE_UNUSABLE);
  EXPECT_EQ(c.warnings().back(), "spare is unusable");
}

// A token is enough for any number of nodes, each of which can say that it has followed the one before it.
TEST(CoordinatorLies, NodesThatDieWithoutEndDoNotFillTheLog) {
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

// With a greater epoch the coordinator learns its job anew: not from a liar.
TEST(CoordinatorLies, AnInventedRoundDoesNotReplaceTheOneThatRunsHere) {
  for (const v1::Phase phase : {v1::PHASE_RUNNING, v1::PHASE_SUCCEEDED, v1::PHASE_READY}) {
    Cluster c(Fixed(3));
    StartThree(&c);
    const v1::RoundId round = c.core().greatest().id();
    v1::AgentStatus& status = c.At("liar").status;
    status = c.At("c").status;
    status.set_host_id("liar");
    status.mutable_epoch()->set_number(c.core().epoch().number() + 1);
    status.mutable_last()->mutable_id()->set_number(round.number() + 1);
    *status.mutable_last()->mutable_id()->mutable_epoch() = status.epoch();
    status.mutable_last()->set_node_count(1);
    status.mutable_last()->set_node_rank(0);
    status.set_outcome(v1::OUTCOME_SUCCEEDED);
    status.set_phase(phase);
    status.set_live_workers(phase == v1::PHASE_RUNNING ? 1 : 0);
    status.mutable_verdict()->set_exit_code(0);
    c.Attach("liar");
    c.Apply("liar");
    for (const char* name : {"a", "b", "c"}) c.Apply(name);
    c.Pass(absl::Seconds(15), {"a", "b", "c"});
    EXPECT_EQ(c.state(), State::kRunning);
    EXPECT_TRUE(Same(c.core().greatest().id(), round));
    EXPECT_EQ(c.At("a").status.phase(), v1::PHASE_RUNNING);
    EXPECT_FALSE(c.core().verdict().has_value());
  }
}

// Else the job would run again, though all of it has succeeded.
TEST(CoordinatorLies, AnInventedRoundDoesNotReplaceTheOneThatSucceededHere) {
  Cluster c(Fixed(3));
  StartThree(&c);
  const v1::RoundId round = c.core().greatest().id();
  ASSERT_EQ(BringGreaterEpoch(&c, "liar"), "");
  for (const char* name : {"a", "b"}) {
    c.At(name).status.set_outcome(v1::OUTCOME_SUCCEEDED);
    c.At(name).status.set_live_workers(0);
    c.At(name).status.set_phase(v1::PHASE_SUCCEEDED);
    c.Apply(name);
  }
  c.Close("c");
  v1::AgentStatus& liar = c.At("liar").status;
  liar.mutable_last()->mutable_id()->set_number(round.number() + 1);
  *liar.mutable_last()->mutable_id()->mutable_epoch() = liar.epoch();
  liar.mutable_last()->set_node_count(1);
  c.Say("liar");
  EXPECT_TRUE(Same(c.core().greatest().id(), round));
  c.At("c").status.set_outcome(v1::OUTCOME_SUCCEEDED);
  c.At("c").status.set_live_workers(0);
  c.At("c").status.set_phase(v1::PHASE_SUCCEEDED);
  c.Attach("c");
  c.Apply("c");
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 0);
}

TEST(CoordinatorLies, AFailureHappenedOnTheNodeThatReportsIt) {
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

TEST(CoordinatorLies, AHostClaimsOnePlace) {
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

TEST(CoordinatorLies, ARoundHasMembers) {
  Cluster c(Fixed(3));
  c.Join("a");
  c.Join("b");
  v1::Round* last = c.At("b").status.mutable_last();
  last->mutable_id()->set_number(1);
  c.Say("b");
  EXPECT_EQ(c.Told("b").refused().reason(), "invalid status: a round without members, or a rank beyond them");
}

// Whatever code a node reports, its failure never counts as a success.
TEST(CoordinatorLies, AFailureWithTheCodeZeroEndsTheJobAsFailed) {
  Cluster c(Fixed(3, 0));
  StartThree(&c);
  c.Fail("c", 0);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 1);
}

TEST(CoordinatorLies, ANodeThatCannotStartWithTheCodeZeroEndsTheJobAsFailed) {
  Cluster c(Fixed(2));
  c.Join("a");
  c.At("b").status.mutable_cannot_start();
  c.Join("b");
  c.Pass(absl::Seconds(20), {"a", "b"});
  ASSERT_TRUE(c.core().verdict().has_value());
  EXPECT_EQ(c.core().verdict()->exit_code(), 1);
}

// A node that leaves writes its last checkpoint for as long as its own options allow.
TEST(CoordinatorLies, ANodeThatLeavesHasItsLeaseForLonger) {
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
TEST(CoordinatorLies, ANodeThatNeverEndsItsStopIsAwaitedForALimitedTime) {
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

TEST(CoordinatorLies, ANodeThatNeverAcknowledgesTheVerdictIsAwaitedForALimitedTime) {
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
