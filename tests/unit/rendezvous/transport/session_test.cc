#include "rendezvous/transport/session.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/transport/listen_address.h"
#include "rendezvous/transport/session_error.h"
#include "tests/unit/rendezvous/transport/wire_fixture.h"

namespace muster::rendezvous {
namespace {

class SessionTest : public WireTest {};

// A loopback port without a listener: its server is gone.
TEST_F(SessionTest, NobodyListeningIsConnectionRefused) {
  auto server = Serve(Options());
  const int port = server->port();
  server.reset();
  Client client(&loop_, "127.0.0.1", port);
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  EXPECT_EQ(client.why, "cannot connect to the primary at 127.0.0.1:" + std::to_string(port) +
                            ": connection refused (not started yet, or a wrong address or port?)");
  EXPECT_EQ(client.refused, 0);
}

// An earlier agent of this node was connected.
TEST_F(SessionTest, ACoordinatorReachedBeforeHasEnded) {
  auto server = Serve(Options());
  const int port = server->port();
  server.reset();
  Client client(&loop_, "127.0.0.1", port, "", kPatience, /*reached_before=*/true);
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  EXPECT_THAT(client.why, testing::HasSubstr("connection refused (it has ended;"));
}

TEST_F(SessionTest, AnUnresolvedNameIsReported) {
  Client client(&loop_, "no-such-host.invalid", 29400, "", kPatience);
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  EXPECT_EQ(client.why.rfind(
                "cannot connect to the primary at no-such-host.invalid:29400: its name does not resolve", 0),
            0u)
      << client.why;
}

// Accepts connections on a loopback port, and never reads or writes.
class SilentServer {
 public:
  SilentServer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    socklen_t size = sizeof(address);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { close(fd_); }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;
  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

TEST_F(SessionTest, AServerThatNeverAnswersTimesOut) {
  const SilentServer server;
  Client client(&loop_, "127.0.0.1", server.port(), "", absl::Milliseconds(200));
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  EXPECT_NE(client.why.find("timed out after 200ms"), std::string::npos) << client.why;
}

// The limit of one address is over first: kAddressLimit.
TEST_F(SessionTest, ASilentServerIsTakenForAnotherProgram) {
  const SilentServer server;
  Client client(&loop_, "127.0.0.1", server.port(), "", kPatience);
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  EXPECT_NE(client.why.find("something there accepts connections but does not answer as muster"),
            std::string::npos)
      << client.why;
}

TEST_F(SessionTest, AProxyInTheEnvironmentIsIgnored) {
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) setenv(name, "http://127.0.0.1:9", 1);
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  EXPECT_TRUE(Until([&] { return client.connected + client.disconnected > 0; }));
  EXPECT_EQ(client.connected, 1) << client.why;
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) unsetenv(name);
}

TEST_F(SessionTest, ALaterAttemptReachesALateCoordinator) {
  auto first = Serve(Options());
  const int port = first->port();
  first.reset();
  Client client(&loop_, "127.0.0.1", port);
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.disconnected == 1; }));
  auto second = Serve(Options("127.0.0.1", port));
  client.session->Connect();
  EXPECT_TRUE(Until([&] { return client.connected == 1; })) << client.why;
}

TEST_F(SessionTest, ANewAttemptReplacesTheOneBefore) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 2 && attendees_.closed.size() == 1; }));
  EXPECT_EQ(client.disconnected, 0) << "the end of a replaced attempt must not be reported";
}

TEST_F(SessionTest, OnlyTheNewestQueuedStatusIsSent) {
  auto server = Serve(Options());
  Client client(&loop_, "127.0.0.1", server->port());
  client.session->Connect();
  ASSERT_TRUE(Until([&] { return client.connected == 1; }));
  for (uint64_t seq = 1; seq <= 100; ++seq) client.session->Send(Status(seq));
  ASSERT_TRUE(
      Until([&] { return !attendees_.statuses.empty() && attendees_.statuses.back().second.id().seq() == 100; }));
  EXPECT_EQ(attendees_.statuses.size(), 2u);
}

constexpr char kTarget[] = "the primary at a:1";

TEST(SessionErrorTest, DebugNoiseIsStripped) {
  EXPECT_EQ(
      DescribeSessionError({14, "something odd {\"created\":\"@1\",\n\"file\":\"x.cc\"}", true, ""}, kTarget),
      "lost the connection to the primary at a:1: something odd");
  EXPECT_EQ(DescribeSessionError({14,
                                  "connections to all backends failing; last error: UNKNOWN: ipv4:1.2.3.4:5: "
                                  "No route to host",
                                  false, ""},
                                 kTarget),
            "cannot connect to the primary at a:1: unreachable (no route to host)");
  EXPECT_EQ(DescribeSessionError({12, "", false, ""}, kTarget),
            "cannot connect to the primary at a:1: another program answers there, not muster; stop it, or use "
            "another port on all nodes");
}

TEST(SessionErrorTest, WhereNothingAnswersTheFirewallIsNamed) {
  SessionError dropped{.code = 14, .message = "connect timed out"};
  EXPECT_THAT(DescribeSessionError(dropped, kTarget), testing::EndsWith("let that port through?)"));
  dropped.reached_before = true;
  EXPECT_THAT(DescribeSessionError(dropped, kTarget), testing::EndsWith(": timed out"));
}

TEST(SessionErrorTest, APrimaryThatWasThereHasEndedRatherThanNotStarted) {
  SessionError refused{.code = 14, .message = "UNKNOWN: Connection refused"};
  EXPECT_THAT(DescribeSessionError(refused, kTarget),
              testing::HasSubstr("not started yet, or a wrong address or port?"));
  refused.reached_before = true;
  EXPECT_EQ(
      DescribeSessionError(refused, kTarget),
      "cannot connect to the primary at a:1: connection refused (it has ended; has it not been started again "
      "yet?)");
  EXPECT_EQ(
      DescribeSessionError({.code = 1, .message = "Cancelled on the server side", .connected = true}, kTarget),
      "lost the connection to the primary at a:1: its process has ended");
}

TEST(SessionErrorTest, GrpcInternalsAreNotPassedOn) {
  const auto cause = [](const std::string& last) {
    const std::string message = "failed to connect to all addresses; last error: " + last;
    return DescribeSessionError({14, message, false, ""}, kTarget);
  };
  EXPECT_EQ(cause("UNAVAILABLE: ipv4:1.2.3.4:5: Failed parsing HTTP/2"),
            DescribeSessionError({12, "", false, ""}, kTarget));
}

TEST(SessionErrorTest, AProgramThatIsSilentIsNamed) {
  SessionError silent{.code = 14, .message = kSilentPeer};
  EXPECT_EQ(
      DescribeSessionError(silent, kTarget),
      "cannot connect to the primary at a:1: something there accepts connections but does not answer as muster "
      "(does another program use that port, or is the node frozen?)");
  EXPECT_FALSE(IsOtherProgram(DescribeSessionError(silent, kTarget))) << "it may be muster, and frozen";
  silent.reached_before = true;
  EXPECT_EQ(DescribeSessionError(silent, kTarget),
            "cannot connect to the primary at a:1: it accepts connections but does not answer (frozen, or "
            "overloaded?)");
}

TEST(SessionErrorTest, ANodeThatWasLetInBeforeHearsWhatMayHaveChanged) {
  SessionError error{.code = 16, .message = "the token is not this job's"};
  EXPECT_EQ(DescribeSessionError(error, kTarget),
            "the primary at a:1 refuses this node: the token is not this job's");
  error.reached_before = true;
  EXPECT_EQ(DescribeSessionError(error, kTarget),
            "the primary at a:1 refuses this node: the token is not this job's; this node was let in before: if "
            "its own token or certificate is still right, that address leads to another job now");
  error.connected = true;
  EXPECT_EQ(DescribeSessionError(error, kTarget),
            "the primary at a:1 refuses this node: the token is not this job's")
      << "its credentials were good";
}

TEST(SessionErrorTest, DistinguishesUnresolvedNamesFromTimeouts) {
  EXPECT_TRUE(IsNameError({14, "resolving a: no name server answers", false, ""}));
  EXPECT_TRUE(IsNameError({14, "Domain name not found", false, ""}));
  EXPECT_FALSE(IsNameError({14, "Connection refused", false, ""}));
}

}  // namespace
}  // namespace muster::rendezvous
