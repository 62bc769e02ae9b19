// Questions about a job, and who is answered.
#include "rendezvous/transport/inquiry.h"

#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/unit/rendezvous/transport/wire_fixture.h"

namespace muster::rendezvous {
namespace {

constexpr char kRun[] = "run";

// Whether this machine has an open connection to the port.
bool HasConnection(int port) {
  std::ifstream table("/proc/self/net/tcp");
  const std::string remote = absl::StrFormat("0100007F:%04X 01 ", port);
  for (std::string row; std::getline(table, row);) {
    if (row.find(remote) != std::string::npos) return true;
  }
  return false;
}
constexpr char kToken[] = "a-token-of-more-than-22-characters";

class InquiryTest : public WireTest {
 protected:
  std::unique_ptr<Server> ServeWith(const std::string& token) {
    ServerOptions options = Options();
    options.run_id = kRun;
    if (!token.empty()) options.credentials = WithToken(token);
    return Serve(options);
  }

  static DialPlan PlanTo(int port, const std::string& token) {
    DialPlan plan;
    plan.coordinator.set_host("127.0.0.1");
    plan.coordinator.set_port(static_cast<uint32_t>(port));
    plan.lease = absl::Seconds(10);
    if (!token.empty()) plan.credentials = WithToken(token);
    return plan;
  }

  // The answer that this asker gets.
  absl::StatusOr<v1::JobView> Ask(int port, const std::string& token, const Identity& host,
                                  const std::string& run_id = kRun) {
    std::optional<absl::StatusOr<v1::JobView>> told;
    Inquiry inquiry(PlanTo(port, token), {host, run_id}, question_, kPatience, &loop_,
                    [&told](const auto& view) { told = view; });
    EXPECT_TRUE(Until([&] { return told.has_value(); }));
    return told.value_or(absl::UnknownError("nothing"));
  }

  v1::Question question_;
};

TEST_F(InquiryTest, WithATokenTheConnectionShowsThatTheAskerMayKnow) {
  attendees_.view.set_run_id(kRun);
  const auto server = ServeWith(kToken);
  const absl::StatusOr<v1::JobView> view = Ask(server->port(), kToken, {});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->run_id(), kRun);
  EXPECT_TRUE(Ask(server->port(), kToken, IdentityFrom(NewSecret())).ok()) << "a host that nobody knows, too";
  EXPECT_TRUE(attendees_.questions.empty()) << "the token is enough";
}

TEST_F(InquiryTest, AnAnswerWithStacksServesNobodyWhoAsksForNone) {
  const auto server = ServeWith(kToken);
  ASSERT_TRUE(Ask(server->port(), kToken, {}).ok());
  EXPECT_FALSE(attendees_.asked_for_stacks);
  question_.set_kind(v1::Question::KIND_STACKS);
  ASSERT_TRUE(Ask(server->port(), kToken, {}).ok());
  EXPECT_TRUE(attendees_.asked_for_stacks);
  EXPECT_EQ(attendees_.views, 2);
}

TEST_F(InquiryTest, AnAnswerAboutOneRankServesNoOther) {
  const auto server = ServeWith(kToken);
  question_.set_kind(v1::Question::KIND_RANK);
  for (const int rank : {3, 4}) {
    question_.set_rank(rank);
    ASSERT_TRUE(Ask(server->port(), kToken, {}).ok());
  }
  EXPECT_EQ(attendees_.views, 2);
}

TEST_F(InquiryTest, AnotherTokenIsRefused) {
  const auto server = ServeWith(kToken);
  EXPECT_TRUE(absl::IsUnauthenticated(Ask(server->port(), "another-token-of-22-characters", {}).status()));
  EXPECT_EQ(attendees_.views, 0);
}

TEST_F(InquiryTest, WithoutATokenOnlyAHostIsAnswered) {
  const auto server = ServeWith("");
  const Identity host = IdentityFrom(NewSecret());
  EXPECT_TRUE(Ask(server->port(), "", host).ok());
  EXPECT_EQ(attendees_.questions, std::vector<std::string>{host.id});
  EXPECT_TRUE(absl::IsPermissionDenied(Ask(server->port(), "", {}).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Ask(server->port(), "", host, "another run").status()));
  Identity impostor = IdentityFrom(NewSecret());
  impostor.id = host.id;
  EXPECT_TRUE(absl::IsPermissionDenied(Ask(server->port(), "", impostor).status()));
  EXPECT_EQ(attendees_.questions.size(), 1u);
}

TEST_F(InquiryTest, AnAnswerOfThousandsOfNodesArrives) {
  for (int i = 0; i < 10'000; ++i) attendees_.view.add_nodes()->set_hostname(std::string(100, 'x'));
  const auto server = ServeWith(kToken);
  const absl::StatusOr<v1::JobView> view = Ask(server->port(), kToken, {});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->nodes_size(), 10'000);
}

TEST_F(InquiryTest, WhyThereIsNoAnswerIsSaid) {
  attendees_.refusal = absl::PermissionDeniedError("the node that asks is not in this job");
  const auto server = ServeWith("");
  EXPECT_EQ(Ask(server->port(), "", IdentityFrom(NewSecret())).status().message(),
            "the node that asks is not in this job");
  EXPECT_EQ(attendees_.views, 0);
}

TEST_F(InquiryTest, OnlySoManyQuestionsAreHeard) {
  ServerOptions options = Options();
  options.run_id = kRun;
  options.questions = Allowance(3, 0);
  const auto server = Serve(options);
  const Identity host = IdentityFrom(NewSecret());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Ask(server->port(), "", host).ok());
  EXPECT_EQ(Ask(server->port(), "", host).status().message(), "too many ask; ask again");
  EXPECT_EQ(attendees_.questions.size(), 3u) << "its proof was not looked at";
}

TEST_F(InquiryTest, TheConnectionEndsWithTheAnswer) {
  const auto server = ServeWith(kToken);
  bool told = false;
  Inquiry inquiry(PlanTo(server->port(), kToken), {}, v1::Question(), kPatience, &loop_,
                  [&told](const auto& view) { told = view.ok(); });
  ASSERT_TRUE(Until([&] { return told; }));
  EXPECT_TRUE(Until([&] { return !HasConnection(server->port()); })) << "though the inquiry still exists";
}

TEST_F(InquiryTest, AServerMayEndWhileSomebodyAsks) {
  for (int turns : {0, 1, 2, 5, 20}) {
    auto server = ServeWith(kToken);
    bool told = false;
    Inquiry inquiry(PlanTo(server->port(), kToken), {}, v1::Question(), kPatience, &loop_,
                    [&told](const auto&) { told = true; });
    for (int i = 0; i < turns && !told; ++i) {
      loop_.Post([this] { loop_.Stop(); });
      loop_.Run();
    }
    server.reset();
    EXPECT_TRUE(Until([&] { return told; }));
  }
}

TEST_F(InquiryTest, ANobodyThatListensIsSaid) {
  const int port = ServeWith("")->port();
  EXPECT_FALSE(Ask(port, "", {}).ok());
}

TEST_F(InquiryTest, ItMayBeGivenUp) {
  const auto server = ServeWith(kToken);
  for (int turns : {0, 1, 3, 10}) {
    Inquiry inquiry(PlanTo(server->port(), kToken), {}, v1::Question(), kPatience, &loop_, [](const auto&) {});
    for (int i = 0; i < turns; ++i) {
      loop_.Post([this] { loop_.Stop(); });
      loop_.Run();
    }
  }
}

}  // namespace
}  // namespace muster::rendezvous
