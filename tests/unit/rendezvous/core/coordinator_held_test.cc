// Texts that hosts and coordinator need not repeat to each other; and fields of another version.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "base/crypto/held.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kTextBytes = 4096;  // for each of a failure's three texts
constexpr size_t kQuietBytes = 1024;

// Like the node's agent: leaves the texts out once the coordinator holds them.
void SayOfFailure(Cluster* c, const std::string& name, const v1::Failure& whole) {
  v1::Failure* failure = c->At(name).status.mutable_failure();
  failure->set_error_text(whole.error_text());
  failure->set_callstack(whole.callstack());
  failure->set_last_output(whole.last_output());
  failure->clear_texts_left_out();
  failure->set_texts_digest(DigestOfTexts(whole));
  if (c->Told(name).held_failure_texts() == failure->texts_digest()) LeaveOutTexts(failure);
  c->Say(name);
}

v1::Failure Texts() {
  v1::Failure failure;
  failure.set_error_text(std::string(kTextBytes, 'e'));
  failure.set_callstack(std::string(kTextBytes, 'c'));
  failure.set_last_output(std::string(kTextBytes, 'o'));
  return failure;
}

// Two nodes without a restart budget: b fails, and the verdict follows.
void FailTheJob(Cluster* c) {
  c->Join("a", 0);
  c->Join("b", 1);
  c->Apply("a");
  c->Apply("b");
  c->Fail("b", 7);
  SayOfFailure(c, "b", Texts());
  SayOfFailure(c, "b", Texts());
  EXPECT_TRUE(c->At("b").status.failure().texts_left_out());
  c->Apply("a");
  c->Apply("b");
}

TEST(HeldDetails, AVerdictHasFailureTextsThatCameOnce) {
  Cluster c(Fixed(2, 0));
  FailTheJob(&c);
  ASSERT_TRUE(c.Told("a").has_verdict());
  EXPECT_EQ(c.Told("a").verdict().root_cause().error_text().size(), kTextBytes);
  EXPECT_EQ(c.Told("a").verdict().root_cause().last_output().size(), kTextBytes);
}

TEST(HeldDetails, UnseenTextsAreNotAcknowledged) {
  Cluster before(Fixed(2, 0));
  before.Join("a", 0);
  before.Join("b", 1);
  before.Apply("a");
  before.Apply("b");
  before.Fail("b", 7);
  SayOfFailure(&before, "b", Texts());
  SayOfFailure(&before, "b", Texts());
  ASSERT_TRUE(before.At("b").status.failure().texts_left_out());
  ASSERT_NE(before.Told("b").held_failure_texts(), 0u);
  Cluster after(Fixed(2, 0), /*entropy=*/7);
  after.At("b").status = before.At("b").status;
  after.Attach("b");
  EXPECT_EQ(after.Told("b").held_failure_texts(), 0u);
}

TEST(HeldDetails, VerdictDetailsAreSentUntilAcknowledged) {
  Cluster c(Fixed(2, 0));
  FailTheJob(&c);
  c.Apply("a");
  EXPECT_GT(c.Told("b").ByteSizeLong(), 3 * kTextBytes) << "b has not acknowledged it";
  EXPECT_LT(c.Told("a").ByteSizeLong(), kQuietBytes);
  EXPECT_EQ(c.Told("a").verdict().exit_code(), 7);
  EXPECT_EQ(c.Told("a").held_verdict(), c.Told("b").verdict().digest());
}

TEST(HeldDetails, ABriefVerdictHoldsAndDetailsMayFollow) {
  Cluster before(Fixed(2, 0));
  FailTheJob(&before);
  const v1::Verdict whole = before.Told("a").verdict();
  before.Apply("a");
  Cluster after(Fixed(2, 0), /*entropy=*/7);
  after.At("a").status = before.At("a").status;
  *after.At("a").status.mutable_verdict() = Brief(whole);
  after.Attach("a");
  ASSERT_TRUE(after.core().verdict().has_value());
  EXPECT_EQ(after.core().verdict()->exit_code(), 7);
  EXPECT_EQ(after.Told("a").held_verdict(), 0u) << "it lacks the details";
  *after.At("a").status.mutable_verdict() = whole;
  after.Say("a");
  EXPECT_EQ(after.core().verdict()->root_cause().error_text().size(), kTextBytes);
  EXPECT_EQ(after.Told("a").held_verdict(), whole.digest());
}

// ---- versions

TEST(OtherVersions, EveryDirectiveHasTheProtocolsNumber) {
  Cluster c(Fixed(2));
  c.Join("a", 0);
  EXPECT_EQ(c.Told("a").protocol(), kProtocol);
}

// Such a node counts for nothing, and its lease runs out.
TEST(OtherVersions, AnUnknownPhaseDoesNotBlockADrain) {
  for (const int phase : {0, static_cast<int>(v1::Phase_MAX) + 1}) {
    Cluster c(Fixed(2));
    c.Join("a", 0);
    c.Join("b", 1);
    c.Apply("a");
    c.Apply("b");
    c.Fail("b", 7);
    ASSERT_EQ(c.state(), State::kDraining);
    c.Apply("b");
    c.At("a").status.set_phase(static_cast<v1::Phase>(phase));
    for (int second = 0; second < 20; ++second) {
      c.Say("a");
      c.Pass(absl::Seconds(1), {"b"});
    }
    EXPECT_EQ(c.Told("a").refused().exit_code(), 77);
    EXPECT_TRUE(absl::StrContains(c.Told("a").refused().reason(), "unknown phase")) << c.Told("a").DebugString();
    EXPECT_NE(c.state(), State::kDraining);
  }
}

TEST(OtherVersions, AnUnknownOutcomeOrRoleIsRefused) {
  for (const bool role : {false, true}) {
    Cluster c(Fixed(2));
    v1::AgentStatus& s = c.At("a").status;
    if (!role) s.set_outcome(static_cast<v1::Outcome>(v1::Outcome_MAX + 1));
    c.Join("a", 0, role ? static_cast<v1::Role>(v1::Role_MAX + 1) : v1::ROLE_TRAINER);
    EXPECT_TRUE(absl::StrContains(c.Told("a").refused().reason(), role ? "unknown role" : "unknown outcome"));
  }
}

// A node that cannot start sends the reason until the coordinator holds it, then a brief form in every heartbeat.
TEST(HeldDetails, StartErrorsThatCameOnceAreKept) {
  Cluster c(Fixed(2));
  v1::Failure* why = c.At("b").status.mutable_cannot_start();
  why->set_exit_code(127);
  why->set_error_text("no program x");
  why->set_texts_digest(DigestOfTexts(*why));
  c.Join("b", 1);
  EXPECT_EQ(c.Told("b").held_cannot_start_texts(), why->texts_digest());
  LeaveOutTexts(why);
  c.Say("b");
  EXPECT_EQ(c.Told("b").held_cannot_start_texts(), why->texts_digest());
  c.Join("a", 0);
  ASSERT_TRUE(c.Told("a").has_verdict());
  EXPECT_TRUE(absl::StrContains(c.Told("a").verdict().reason(), "b cannot start: no program x"))
      << c.Told("a").verdict().reason();
  Cluster after(Fixed(2), 7);
  after.At("b").status = c.At("b").status;
  after.Attach("b");
  EXPECT_EQ(after.Told("b").held_cannot_start_texts(), 0u) << "another coordinator has not seen it";
}

// The others run without the node, so it is refused. Its reason came with an earlier status.
TEST(HeldDetails, ARefusalNamesTheStartError) {
  Cluster c(Elastic(1, 3));
  c.At("b").status.mutable_cannot_start()->set_exit_code(127);
  c.At("b").status.mutable_cannot_start()->set_error_text("no program x");
  c.At("b").status.mutable_cannot_start()->set_texts_digest(5);
  c.Join("a");
  c.Join("b");
  LeaveOutTexts(c.At("b").status.mutable_cannot_start());
  for (int beat = 0; beat < 60 && !c.Told("b").has_refused(); ++beat) c.Pass(5 * kTick, {"a", "b"});
  ASSERT_TRUE(c.Told("a").has_run());
  EXPECT_EQ(c.Told("b").refused().reason(), "no program x");
}

}  // namespace
}  // namespace muster::rendezvous
