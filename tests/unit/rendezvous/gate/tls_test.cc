#include "rendezvous/gate/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <utility>

#include "base/io/event_loop.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/gate/tls_codec.h"
#include "tests/unit/rendezvous/gate/certificate_maker.h"

namespace muster::rendezvous {
namespace {

constexpr char kToken[] = "a-token-of-more-than-22-characters";
constexpr char kRequest[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more";
const std::string kAnswer("\x00\x00\x00\x04\x00settings", 13);

// Two codecs, and what each has passed to its application.
struct Meeting {
  Meeting(std::unique_ptr<Codec> at_server, std::unique_ptr<Codec> at_client)
      : server(std::move(at_server)), client(std::move(at_client)) {
    client_status = client->Start(&to_server);
    Exchange();
  }

  // Until neither has anything to send. Each byte comes alone if `torn`.
  void Exchange(bool torn = false) {
    while (!to_server.empty() || !to_client.empty()) {
      Deliver(torn, &to_server, server.get(), &at_server, &to_client, &server_status);
      Deliver(torn, &to_client, client.get(), &at_client, &to_server, &client_status);
    }
  }

  static void Deliver(bool torn, std::string* from, Codec* to, std::string* plain, std::string* answer,
                      absl::Status* status) {
    const std::string bytes = std::exchange(*from, "");
    for (size_t at = 0; at < bytes.size() && status->ok(); at += torn ? 1 : bytes.size()) {
      *status = to->FromPeer(EventLoop::Now(), std::string_view(bytes).substr(at, torn ? 1 : bytes.size()), plain,
                             answer);
    }
  }

  std::unique_ptr<Codec> server, client;
  std::string to_server, to_client, at_server, at_client;
  absl::Status server_status, client_status;
};

std::unique_ptr<Codec> ServerWith(const std::string& token, const std::string& run = "run") {
  return TlsServer({DeriveKey(token, run)}).Accept();
}
std::unique_ptr<Codec> ClientWith(const std::string& token, const std::string& run = "run") {
  return TlsClient(DeriveKey(token, run)).Connect();
}

TEST(TlsTest, OneTokenOpensTheConnection) {
  Meeting meeting(ServerWith(kToken), ClientWith(kToken));
  ASSERT_TRUE(meeting.server->ready() && meeting.client->ready()) << meeting.client_status;
  ASSERT_TRUE(meeting.client->ToPeer(kRequest, &meeting.to_server).ok());
  EXPECT_EQ(meeting.to_server.find("PRI"), std::string::npos) << "it is encrypted";
  ASSERT_TRUE(meeting.server->ToPeer(kAnswer, &meeting.to_client).ok());
  meeting.Exchange();
  EXPECT_EQ(meeting.at_server, kRequest);
  EXPECT_EQ(meeting.at_client, kAnswer);
}

TEST(TlsTest, LargeMessagesArriveWholeFromTornPieces) {
  Meeting meeting(ServerWith(kToken), ClientWith(kToken));
  const std::string large(100'000, 'x');
  ASSERT_TRUE(meeting.client->ToPeer(large, &meeting.to_server).ok());
  meeting.Exchange(/*torn=*/true);
  EXPECT_EQ(meeting.at_server, large);
}

// It would be kept, and never read.
TEST(TlsTest, NothingMayFollowTheEnd) {
  Meeting meeting(ServerWith(kToken), ClientWith(kToken));
  meeting.client->Close(&meeting.to_server);
  meeting.Exchange();
  ASSERT_TRUE(meeting.server_status.ok()) << "the end itself is no fault: " << meeting.server_status;
  meeting.to_server = std::string(100'000, 'x');
  meeting.Exchange();
  EXPECT_EQ(meeting.server_status.message(), "it sends more after it has closed the connection");
}

// Each costs as much as a large one.
TEST(TlsTest, RecordsWithoutEndAreNotRead) {
  Meeting meeting(ServerWith(kToken), ClientWith(kToken));
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(meeting.client->ToPeer("x", &meeting.to_server).ok());
  meeting.Exchange();
  EXPECT_EQ(meeting.server_status.message(), "it sent more than 1000 TLS records a second");
  EXPECT_LE(meeting.at_server.size(), 1000u);
}

class Anybody : public TlsProof {
 public:
  void Attach(SSL*) override {}
  absl::Status Check(SSL*) const override { return absl::OkStatus(); }
  absl::Status WhyRefused(SSL*, int) const override { return absl::UnauthenticatedError("refused"); }
  absl::Status WhyNoTls(std::string*) const override { return absl::UnauthenticatedError("no TLS"); }
  size_t max_handshake_bytes() const override { return 64 * 1024; }
};

int g_steps = 0;  // steps of OpenSSL's state machine at the server: several for each message of a handshake

// A server with a certificate that admits everybody.
std::unique_ptr<Codec> OpenServer() {
  const std::shared_ptr<SSL_CTX> context = MakeTlsContext(TLS_server_method());
  const MadeCertificate made = MakeAuthority();
  SSL_CTX_set_info_callback(context.get(), [](const SSL*, int, int) { ++g_steps; });
  EXPECT_EQ(SSL_CTX_use_certificate(context.get(), made.x509.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), made.pkey.get()), 1);
  return MakeTlsCodec(context, std::make_unique<Anybody>(), true);
}

// Takes what OpenSSL's client has written.
std::string Written(SSL* client) {
  BIO* const bio = SSL_get_wbio(client);
  std::string bytes(static_cast<size_t>(BIO_pending(bio)), '\0');
  if (!bytes.empty()) BIO_read(bio, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

// OpenSSL would read all of them in one call.
TEST(TlsTest, NewKeysWithoutEndAreNotMade) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), &SSL_free);
  SSL_set_bio(client.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  const std::unique_ptr<Codec> server = OpenServer();
  std::string plain, answer;
  while (SSL_connect(client.get()) != 1) {
    answer.clear();
    ASSERT_TRUE(server->FromPeer(EventLoop::Now(), Written(client.get()), &plain, &answer).ok());
    BIO_write(SSL_get_rbio(client.get()), answer.data(), static_cast<int>(answer.size()));
  }
  ASSERT_TRUE(server->FromPeer(EventLoop::Now(), Written(client.get()), &plain, &answer).ok());
  ASSERT_TRUE(server->ready());
  std::string many;
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(SSL_key_update(client.get(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(client.get()), 1);
    many += Written(client.get());
  }
  g_steps = 0;
  const absl::Status status = server->FromPeer(EventLoop::Now(), many, &plain, &answer);
  EXPECT_EQ(status.message(), "it sent more than 1000 TLS records a second");
  EXPECT_GE(g_steps, 1'000) << "else it shows nothing";
  EXPECT_LE(g_steps, 10'000) << "all were read before they were counted";
}

TEST(TlsTest, BothEndsKnowABindingThatNoOtherConnectionHas) {
  const Meeting one(ServerWith(kToken), ClientWith(kToken));
  const Meeting other(ServerWith(kToken), ClientWith(kToken));
  EXPECT_EQ(one.server->binding(), one.client->binding());
  EXPECT_EQ(one.server->binding().size(), 32u);
  EXPECT_NE(one.server->binding(), other.server->binding());
}

TEST(TlsTest, AnotherTokenIsRefusedOnBothSides) {
  const Meeting meeting(ServerWith(kToken), ClientWith("another-token-of-22-characters"));
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.server_status)) << meeting.server_status;
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.client_status)) << meeting.client_status;
  EXPECT_FALSE(meeting.server->ready() || meeting.client->ready());
}

TEST(TlsTest, TheTokenOfAnotherRunIsRefused) {
  const Meeting meeting(ServerWith(kToken, "run"), ClientWith(kToken, "another run"));
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.server_status)) << meeting.server_status;
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.client_status)) << meeting.client_status;
}

// Knowing an identity, which crosses the network, does not help.
TEST(TlsTest, TheRightNameOfAKeyWithAnotherSecretIsRefused) {
  GateKey forged = DeriveKey("another-token-of-22-characters", "run");
  forged.identity = DeriveKey(kToken, "run").identity;
  const Meeting meeting(ServerWith(kToken), TlsClient(forged).Connect());
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.server_status)) << meeting.server_status;
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.client_status)) << meeting.client_status;
}

TEST(TlsTest, AServerAcceptsEachOfItsKeys) {
  const TlsServer server({DeriveKey(kToken, "run"), DeriveKey("the-token-before-this-one", "run")});
  for (const char* token : {kToken, "the-token-before-this-one"}) {
    const Meeting meeting(server.Accept(), ClientWith(token));
    EXPECT_TRUE(meeting.server->ready() && meeting.client->ready()) << token;
  }
}

TEST(TlsTest, NeitherTokenNorRunCrossesTheNetwork) {
  auto client = ClientWith(kToken, "name-of-the-run");
  std::string hello;
  ASSERT_TRUE(client->Start(&hello).ok());
  EXPECT_EQ(hello.find(kToken), std::string::npos);
  EXPECT_EQ(hello.find("name-of-the-run"), std::string::npos);
}

TEST(TlsTest, AClientWithoutATokenHearsThatOneIsNeeded) {
  Meeting meeting(ServerWith(kToken), PlainClient());
  ASSERT_TRUE(meeting.client->ToPeer(kRequest, &meeting.to_server).ok());
  meeting.Exchange();
  EXPECT_EQ(meeting.server_status.message(), "it has no token");
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.client_status)) << meeting.client_status;
  EXPECT_EQ(meeting.at_server, "");
}

TEST(TlsTest, AClientWithATokenHearsThatTheJobHasNone) {
  const Meeting meeting(PlainServer(), ClientWith(kToken));
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.server_status)) << meeting.server_status;
  EXPECT_EQ(
      meeting.client_status.message(),
      "this node has a token, and the coordinator has neither token nor certificates: give all nodes the same "
      "token (--token-file or MUSTER_TOKEN), or none");
  EXPECT_EQ(meeting.server_status.message(), "it has a token or a certificate, and this job has neither");
}

// While tokens are replaced a node shows its new one in vain, then the old one: that is no stranger.
TEST(TlsTest, TheRefusalOfAFirstTokenSaysThatAnotherFollows) {
  const auto node = TokenCredentials({"another-token-of-22-characters", "a-third-token-of-22-characters"}, "run");
  const Meeting first(ServerWith(kToken), node->Connect(0));
  EXPECT_EQ(first.server_status.message(),
            "its first token is not this job's, and it says that it shows its second one next");
  EXPECT_TRUE(absl::IsUnauthenticated(first.client_status)) << first.client_status;
  const Meeting last(ServerWith(kToken), node->Connect(1));
  EXPECT_EQ(last.server_status.message(), "it has another token, or belongs to another run");
  EXPECT_TRUE(absl::IsUnauthenticated(last.client_status)) << last.client_status;
}

// It proves nothing, whatever it answers.
TEST(TlsTest, AnotherProgramGetsNothingFromAClient) {
  for (const std::string& answer : {std::string("HTTP/1.1 400 Bad Request\r\n"), kAnswer, std::string(50, '\0')}) {
    Meeting meeting(PlainServer(), ClientWith(kToken));
    auto client = ClientWith(kToken);
    std::string hello, plain, out;
    ASSERT_TRUE(client->Start(&hello).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(client->FromPeer(EventLoop::Now(), answer, &plain, &out))) << answer;
    EXPECT_EQ(plain, "");
  }
}

TEST(TlsTest, AClientThatSendsTooMuchFirstIsRefused) {
  auto server = ServerWith(kToken);
  std::string plain, out;
  const std::string record("\x16\x03\x01\x3f\x00\x01\x00\x3e\x00", 9);  // a hello of 16 KiB begins
  absl::Status status = server->FromPeer(EventLoop::Now(), record, &plain, &out);
  for (int i = 0; i < 20 && status.ok(); ++i) {
    status = server->FromPeer(EventLoop::Now(), std::string(1'000, 'x'), &plain, &out);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(PlainTest, WhatIsSentArrives) {
  Meeting meeting(PlainServer(), PlainClient());
  ASSERT_TRUE(meeting.client->ToPeer(kRequest, &meeting.to_server).ok());
  ASSERT_TRUE(meeting.server->ToPeer(kAnswer, &meeting.to_client).ok());
  meeting.Exchange(/*torn=*/true);
  EXPECT_EQ(meeting.at_server, kRequest);
  EXPECT_EQ(meeting.at_client, kAnswer);
}

TEST(PlainTest, AServerLetsInNobodyBeforeTheWholePreface) {
  auto server = PlainServer();
  std::string plain, out;
  EXPECT_TRUE(server->FromPeer(EventLoop::Now(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r", &plain, &out).ok());
  EXPECT_FALSE(server->ready());
  EXPECT_TRUE(server->FromPeer(EventLoop::Now(), "\n", &plain, &out).ok());
  EXPECT_TRUE(server->ready());
  EXPECT_EQ(plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

// It answers HTTP/2 with an alert, as muster does, but with another one (here: protocol_version).
TEST(PlainTest, AnotherServerOfTlsIsNotTakenForMuster) {
  std::string plain, out;
  const std::string alert("\x15\x03\x01\x00\x02\x02\x46", 7);
  EXPECT_TRUE(absl::IsInvalidArgument(PlainClient()->FromPeer(EventLoop::Now(), alert, &plain, &out)));
}

TEST(PlainTest, AnAlertInPiecesIsStillTheRightOne) {
  auto client = PlainClient();
  std::string plain, out;
  absl::Status status;
  for (size_t i = 0; i < kCertificateAlert.size() && status.ok(); ++i) {
    status = client->FromPeer(EventLoop::Now(), kCertificateAlert.substr(i, 1), &plain, &out);
  }
  EXPECT_NE(status.message().find("requires a certificate"), absl::string_view::npos) << status;
}

TEST(PlainTest, OtherProgramsAreRefused) {
  std::string plain, out;
  EXPECT_TRUE(absl::IsInvalidArgument(PlainServer()->FromPeer(EventLoop::Now(), "GET / HTTP/1.1", &plain, &out)));
  EXPECT_TRUE(absl::IsInvalidArgument(PlainClient()->FromPeer(EventLoop::Now(), "HTTP/1.1 400", &plain, &out)));
  EXPECT_EQ(plain, "");
}

}  // namespace
}  // namespace muster::rendezvous
