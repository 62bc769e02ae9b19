#include "rendezvous/transport/speaker.h"

#include "base/wire/ids.h"
#include "tests/unit/rendezvous/transport/wire_fixture.h"

namespace muster::rendezvous {
namespace {

constexpr char kRun[] = "run";
constexpr char kBinding[] = "of this connection";

v1::AgentStatus First(const Identity& host, std::string_view binding = kBinding) {
  v1::AgentStatus status;
  status.set_protocol(kProtocol);
  status.set_run_id(kRun);
  status.set_host_id(host.id);
  *status.mutable_proof() = ProveHost(host, kRun, binding);
  return status;
}

TEST(SpeakerTest, TheHostThatProvesItselfIsHeard) {
  const Identity host = IdentityFrom(NewSecret());
  Speaker speaker;
  EXPECT_TRUE(speaker.Hear(First(host), kBinding).ok());
  v1::AgentStatus later = First(host);
  later.clear_proof();
  EXPECT_TRUE(speaker.Hear(later, kBinding).ok()) << "one proof is enough for a connection";
}

TEST(SpeakerTest, AnIdWithoutItsKeyIsRefused) {
  const Identity host = IdentityFrom(NewSecret()), impostor = IdentityFrom(NewSecret());
  v1::AgentStatus bare = First(host);
  bare.clear_proof();
  EXPECT_TRUE(absl::IsUnauthenticated(Speaker().Hear(bare, kBinding)));

  v1::AgentStatus other_key = First(impostor);
  other_key.set_host_id(host.id);
  EXPECT_TRUE(absl::IsUnauthenticated(Speaker().Hear(other_key, kBinding)));

  v1::AgentStatus other_signature = First(host);
  other_signature.mutable_proof()->set_signature(First(impostor).proof().signature());
  EXPECT_TRUE(absl::IsUnauthenticated(Speaker().Hear(other_signature, kBinding)));
}

TEST(SpeakerTest, AProofOfAnotherConnectionOrRunIsWorthNothing) {
  const Identity host = IdentityFrom(NewSecret());
  EXPECT_TRUE(absl::IsUnauthenticated(Speaker().Hear(First(host, "of another one"), kBinding)));
  v1::AgentStatus other_run = First(host);
  other_run.set_run_id("another");
  EXPECT_TRUE(absl::IsUnauthenticated(Speaker().Hear(other_run, kBinding)));
}

TEST(SpeakerTest, AStreamIsOneHosts) {
  Speaker speaker;
  ASSERT_TRUE(speaker.Hear(First(IdentityFrom(NewSecret())), kBinding).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(speaker.Hear(First(IdentityFrom(NewSecret())), kBinding)));
}

TEST(SpeakerTest, WhoNamesNoHostNeedsNoProof) {
  v1::AgentStatus status;
  status.set_protocol(kProtocol);
  EXPECT_TRUE(Speaker().Hear(status, kBinding).ok());
}

// ---- over a real connection -----------------------------------------------------------------------------------

class ImpostorTest : public WireTest, public testing::WithParamInterface<const char*> {
 protected:
  std::unique_ptr<Server> ServeWith(const std::string& token) {
    ServerOptions options = Options();
    if (!token.empty()) options.credentials = WithToken(token);
    return Serve(options);
  }
};

TEST_P(ImpostorTest, NobodySpeaksForAHostOfAnotherConnection) {
  auto server = ServeWith(GetParam());
  const Identity host = IdentityFrom(NewSecret());
  Client honest(&loop_, "127.0.0.1", server->port(), GetParam(), kPatience, false, host);
  honest.session->Connect();
  ASSERT_TRUE(Until([&] { return honest.connected == 1; })) << honest.why;
  honest.session->Send(StatusOf(host.id));
  ASSERT_TRUE(Until([&] { return attendees_.statuses.size() == 1; }));

  Client impostor(&loop_, "127.0.0.1", server->port(), GetParam(), kPatience, false, IdentityFrom(NewSecret()));
  impostor.session->Connect();
  ASSERT_TRUE(Until([&] { return impostor.connected == 1; })) << impostor.why;
  impostor.session->Send(StatusOf(host.id, 2));
  ASSERT_TRUE(Until([&] { return impostor.disconnected == 1; }));
  EXPECT_EQ(attendees_.statuses.size(), 1u);
  EXPECT_EQ(attendees_.turned_away,
            std::vector<std::string>{"127.0.0.1: it has not proved that it is the host whose id it names"});
  EXPECT_EQ(honest.disconnected, 0);
}

TEST_P(ImpostorTest, AStreamThatNamesASecondHostIsClosed) {
  auto server = ServeWith(GetParam());
  const Identity host = IdentityFrom(NewSecret());
  Client client(&loop_, "127.0.0.1", server->port(), GetParam(), kPatience, false, host);
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; })) << client.why;
  client.session->Send(StatusOf(host.id));
  ASSERT_TRUE(Until([&] { return attendees_.statuses.size() == 1; }));
  client.session->Send(StatusOf(IdentityFrom(NewSecret()).id));
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  EXPECT_EQ(attendees_.statuses.size(), 1u);
  EXPECT_EQ(attendees_.closed.size(), 1u) << "the coordinator hears that the first host's stream has ended";
}

INSTANTIATE_TEST_SUITE_P(Forms, ImpostorTest, testing::Values("", "a-token-of-more-than-22-characters"));

}  // namespace
}  // namespace muster::rendezvous
