#include "rendezvous/transport/server.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvous/transport/dialing.h"
#include "tests/unit/rendezvous/transport/wire_fixture.h"

namespace muster::rendezvous {
namespace {

constexpr int kManySessions = 200;

bool HasIpv6Loopback() { return BindTo({"::1", 0, true}).ok(); }

// A connected TCP socket to 127.0.0.1:port.
int ConnectRaw(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

class ServerTest : public WireTest {
 protected:
  void ExchangeOver(const std::string& address) {
    auto server = Serve(Options(address));
    ASSERT_NE(server, nullptr);
    attendees_.on_status = [&](StreamId stream, const v1::AgentStatus& status) {
      server->Send(stream, Directive(status.id().seq()));
    };
    Client client(&loop_, address, server->port());
    client.session->Connect();
    ASSERT_TRUE(Until([&] { return client.connected == 1; })) << client.why;
    EXPECT_EQ(client.local_address, address);
    EXPECT_EQ(server->PeerOf(*attendees_.opened.begin()), address);
    client.session->Send(Status(7));
    ASSERT_TRUE(Until([&] { return client.directives.size() == 1; }));
    EXPECT_EQ(client.directives[0].id().seq(), 7u);
  }
};

TEST_F(ServerTest, StatusesGoUpAndDirectivesComeDownOverIpv4) { ExchangeOver("127.0.0.1"); }

TEST_F(ServerTest, StatusesGoUpAndDirectivesComeDownOverIpv6) {
  if (!HasIpv6Loopback()) GTEST_SKIP() << "this machine has no ::1";
  ExchangeOver("::1");
}

TEST_F(ServerTest, OneServerOnAllAddressesAnswersOnBothFamilies) {
  if (!HasIpv6Loopback()) GTEST_SKIP() << "this machine has no ::1";
  ServerOptions options = Options();
  options.listen.loopback_only = false;
  auto server = Serve(options);
  Client four(&loop_, "127.0.0.1", server->port());
  Client six(&loop_, "::1", server->port());
  four.session->Connect();
  six.session->Connect();
  EXPECT_TRUE(Until([&] { return four.connected == 1 && six.connected == 1; })) << four.why << six.why;
}

TEST_F(ServerTest, ASecondServerOnThePortIsAnError) {
  auto first = Serve(Options());
  const auto second = TryServe(Options("127.0.0.1", first->port()));
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  const std::string text(second.status().message());
  EXPECT_NE(text.find("127.0.0.1:" + std::to_string(first->port())), std::string::npos) << text;
}

TEST_F(ServerTest, ServersDoNotShareAPortWithLoopback) {
  auto first = Serve(Options());
  ServerOptions wide = Options("127.0.0.1", first->port());
  wide.listen.loopback_only = false;
  EXPECT_TRUE(absl::IsUnavailable(TryServe(wide).status()));
}

TEST_F(ServerTest, AnAddressOfAnotherMachineIsAnErrorThatNamesIt) {
  const auto server = TryServe(Options("192.0.2.1", 0));
  ASSERT_TRUE(absl::IsFailedPrecondition(server.status())) << server.status();
  EXPECT_NE(std::string(server.status().message()).find("192.0.2.1"), std::string::npos);
}

TEST_F(ServerTest, GarbageOnThePortDisturbsNobody) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\xff'),
                                     std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(512, '\x7f')}) {
    const int fd = ConnectRaw(server->port());
    ASSERT_EQ(write(fd, garbage.data(), garbage.size()), static_cast<ssize_t>(garbage.size()));
    shutdown(fd, SHUT_WR);
    char buffer[256];
    while (read(fd, buffer, sizeof(buffer)) > 0) {
    }
    close(fd);
  }
  client.session->Send(Status(1));
  EXPECT_TRUE(Until([&] { return attendees_.statuses.size() == 1; }));
  EXPECT_EQ(attendees_.opened.size(), 1u);
  EXPECT_EQ(client.disconnected, 0);
}

TEST_F(ServerTest, AStatusOfTooManyFieldsEndsItsStream) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  v1::AgentStatus status = Status(1);
  for (int i = 0; i < 100'000; ++i) status.mutable_verdict()->add_other_failures();
  client.session->Send(status);
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  EXPECT_TRUE(attendees_.statuses.empty()) << "it is not parsed";
  EXPECT_EQ(attendees_.turned_away,
            std::vector<std::string>{"127.0.0.1: it sent a status of more than 8192 fields"});
  EXPECT_EQ(attendees_.closed.size(), 1u);
}

TEST_F(ServerTest, OnlyAnAdmittedAgentMayGoOnSpeaking) {
  auto server = Serve(Options());
  Client stranger(&loop_, "127.0.0.1", server->port());
  stranger.session->Connect();
  ASSERT_TRUE(Until([&] { return stranger.connected == 1; }));
  const auto say = [&](Client* client, uint64_t seq) {
    const size_t before = attendees_.statuses.size();
    client->session->Send(Status(seq));
    return Until([&] { return attendees_.statuses.size() > before || client->disconnected > 0; });
  };
  for (uint64_t seq = 1; seq <= kMaxStatusesUnadmitted + 1; ++seq) ASSERT_TRUE(say(&stranger, seq));
  EXPECT_EQ(attendees_.statuses.size(), size_t{kMaxStatusesUnadmitted});
  EXPECT_EQ(stranger.disconnected, 1);

  Client agent(&loop_, "127.0.0.1", server->port());
  agent.session->Connect();
  ASSERT_TRUE(Until([&] { return agent.connected == 1; }));
  server->Admit(*attendees_.opened.rbegin());
  for (uint64_t seq = 1; seq <= 3 * kMaxStatusesUnadmitted; ++seq) ASSERT_TRUE(say(&agent, seq));
  EXPECT_EQ(agent.disconnected, 0);
}

TEST_F(ServerTest, AnAgentThatSendsStatusesWithoutEndIsTurnedAway) {
  ServerOptions options = Options();
  options.statuses = Allowance(10, 0);
  const auto server = Serve(options);
  attendees_.on_opened = [&](StreamId stream) { server->Admit(stream); };
  const Identity host = IdentityFrom(NewSecret());
  for (size_t connection = 0, before = 0; connection < 2; ++connection, before = 10) {
    Client client(&loop_, "127.0.0.1", server->port(), "", absl::Seconds(5), false, host);
    client.session->Connect();
    ASSERT_TRUE(Until([&] { return client.connected == 1; }));
    for (uint64_t seq = before + 1; client.disconnected == 0; ++seq) {
      client.session->Send(StatusOf(host.id, seq));
      ASSERT_TRUE(Until([&] { return attendees_.statuses.size() == seq || client.disconnected > 0; })) << seq;
    }
    EXPECT_EQ(attendees_.statuses.size(), 10u) << "a new connection does not help";
  }
  EXPECT_EQ(attendees_.turned_away,
            std::vector<std::string>(2, "127.0.0.1: it sent more than 500 statuses a second"));
}

TEST_F(ServerTest, OnlyTheNewestQueuedDirectiveIsWritten) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  const StreamId stream = *attendees_.opened.begin();
  // No completion can reach the loop between these: the first is written, unless the stream's own beginning is
  // being written still; the rest wait.
  for (uint64_t seq = 1; seq <= 100; ++seq) server->Send(stream, Directive(seq));
  ASSERT_TRUE(Until([&] { return !client.directives.empty() && client.directives.back().id().seq() == 100; }));
  EXPECT_LE(client.directives.size(), 2u);
  if (client.directives.size() == 2) {
    EXPECT_EQ(client.directives.front().id().seq(), 1u);
  }
}

TEST_F(ServerTest, MessagesBeforeACloseArriveWithItsReason) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  const StreamId stream = *attendees_.opened.begin();
  server->Send(stream, Directive(1));
  server->Send(stream, Directive(2));
  server->Close(stream, "another agent of this host has attached");
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  ASSERT_FALSE(client.directives.empty());  // the first may be outdated before it is written
  EXPECT_EQ(client.directives.back().id().seq(), 2u);
  EXPECT_NE(client.why.find("another agent of this host"), std::string::npos) << client.why;
  EXPECT_EQ(client.refused, 0);
  EXPECT_TRUE(Until([&] { return server->streams() == 0; }));
  EXPECT_EQ(server->PeerOf(stream), "") << "nothing is kept of a closed stream";
  EXPECT_TRUE(attendees_.closed.empty()) << "the closing side needs no notice";
}

TEST_F(ServerTest, AnOrderlyDisconnectDeliversTheLastStatus) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  client.session->Send(Status(1));
  client.session->Send(Status(2));
  client.session->Disconnect();
  ASSERT_TRUE(Until([&] { return client.closed == 1 && attendees_.closed.size() == 1; }));
  EXPECT_EQ(attendees_.statuses.back().second.id().seq(), 2u);
  EXPECT_EQ(client.disconnected, 0);
}

TEST_F(ServerTest, OnlyTheRightTokenIsAccepted) {
  ServerOptions options = Options();
  options.credentials = WithToken("secret");
  auto server = Serve(options);
  Client wrong(&loop_, "127.0.0.1", server->port(), "Secret");
  Client missing(&loop_, "127.0.0.1", server->port());
  Client right(&loop_, "127.0.0.1", server->port(), "secret");
  for (Client* client : {&wrong, &missing, &right}) client->session->Connect();
  ASSERT_TRUE(Until([&] { return wrong.disconnected && missing.disconnected && right.connected; })) << right.why;
  EXPECT_EQ(wrong.refused, 77);
  EXPECT_EQ(missing.refused, 77);
  EXPECT_NE(wrong.why.find("the token is not this job's"), std::string::npos) << wrong.why;
  EXPECT_EQ(wrong.connected + missing.connected, 0);
  EXPECT_EQ(attendees_.opened.size(), 1u);
  ASSERT_TRUE(Until([&] { return attendees_.turned_away.size() == 2; })) << "the primary must log it too";
  EXPECT_EQ(attendees_.turned_away[0].find("127.0.0.1: "), 0u) << attendees_.turned_away[0];
}

TEST_F(ServerTest, ShutdownEndsIdleStreamsAndTellsTheirAgents) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  server->Shutdown();  // would block forever without a deadline
  EXPECT_EQ(server->streams(), 0u);
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  // Where something is being written still nothing else can be begun, and gRPC has its own word for that.
  const bool told = client.why.find("the coordinator is shutting down") != std::string::npos;
  EXPECT_TRUE(told || client.why.find("its process has ended") != std::string::npos) << client.why;
}

TEST_F(ServerTest, ALostStreamIsReported) {
  auto server = Serve(Options());
  auto client = std::make_unique<Client>(&loop_, "127.0.0.1", server->port());
  client->session->Connect();
  ASSERT_TRUE(Until([&] { return client->connected == 1; }));
  client.reset();
  EXPECT_TRUE(Until([&] { return attendees_.closed.size() == 1 && server->streams() == 0; }));
}

TEST_F(ServerTest, TwoHundredAgentsGetAPushedDirective) {
  auto server = Serve(Options());
  attendees_.on_opened = [&](StreamId stream) { server->Admit(stream); };
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kManySessions; ++i) {
    clients.push_back(std::make_unique<Client>(&loop_, "127.0.0.1", server->port(), "", kPatience));
    clients.back()->session->Connect();
  }
  ASSERT_TRUE(Until([&] { return attendees_.opened.size() == kManySessions; }));
  for (const StreamId stream : attendees_.opened) server->Send(stream, Directive(9));
  EXPECT_TRUE(Until([&] {
    for (const auto& client : clients) {
      if (client->directives.size() != 1) return false;
    }
    return true;
  }));
}

}  // namespace
}  // namespace muster::rendezvous
