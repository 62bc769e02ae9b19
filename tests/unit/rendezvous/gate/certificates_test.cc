// Who gets in with a certificate, and which sets of files are taken.
#include "rendezvous/gate/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/event_loop.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/gate/tls_codec.h"
#include "tests/unit/rendezvous/gate/certificate_maker.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kRequest[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more";
constexpr char kSpiffe[] = "spiffe://example.org/ml";
constexpr char kPrimary[] = "URI:spiffe://example.org/ml/run/job1/role/primary";
constexpr char kNode[] = "URI:spiffe://example.org/ml/run/job1/role/node";

const MadeCertificate& Authority() {
  static const auto* const authority = new MadeCertificate(MakeAuthority());
  return *authority;
}

PeerName Name(const std::string& text = "muster", const std::string& run = "job1") {
  return *PeerName::Parse(text, run);
}

CertificateTexts Texts(const CertificateWish& wish, const MadeCertificate& authority = Authority()) {
  const MadeCertificate made = MakeCertificate(wish, &authority);
  return {.cert = made.cert, .key = made.key, .ca = authority.cert};
}

// Without a look at dates and names: what others would do.
std::shared_ptr<const Credentials> Trusting(const CertificateTexts& texts, const PeerName& name, TlsRole role) {
  const auto set = MakeCertificateSet(texts, name, role, std::nullopt);
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? set->credentials : nullptr;
}

// A coordinator, and a node that dials it.
struct Meeting {
  Meeting(std::unique_ptr<Codec> at_server, std::unique_ptr<Codec> at_client)
      : server(std::move(at_server)), client(std::move(at_client)) {
    client_status = client->Start(&to_server);
    Exchange();
    // The client finds out that it was refused after its own handshake.
    if (client->ready() && client_status.ok()) client_status = client->ToPeer(kRequest, &to_server);
    Exchange();
  }

  void Exchange() {
    while (!to_server.empty() || !to_client.empty()) {
      Deliver(&to_server, server.get(), &at_server, &to_client, &server_status);
      Deliver(&to_client, client.get(), &at_client, &to_server, &client_status);
    }
  }
  static void Deliver(std::string* from, Codec* to, std::string* plain, std::string* answer,
                      absl::Status* status) {
    const std::string bytes = std::exchange(*from, "");
    seen() += bytes;
    if (status->ok() && !bytes.empty()) *status = to->FromPeer(EventLoop::Now(), bytes, plain, answer);
  }
  static std::string& seen() {
    static auto* const all = new std::string;
    return *all;
  }

  std::unique_ptr<Codec> server, client;
  std::string to_server, to_client, at_server, at_client;
  absl::Status server_status, client_status;
};

Meeting Meet(const std::shared_ptr<const Credentials>& server, const std::shared_ptr<const Credentials>& client) {
  return {server->Accept(), client->Connect(0)};
}

Meeting MeetByName(const CertificateTexts& server, const CertificateTexts& client) {
  return Meet(Trusting(server, Name(), TlsRole::kPrimary), Trusting(client, Name(), TlsRole::kNode));
}

void ExpectRefusal(const Meeting& meeting, const std::string& log, const std::string& answer) {
  EXPECT_FALSE(meeting.server->ready());
  EXPECT_EQ(meeting.at_server, "");
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.server_status)) << meeting.server_status;
  EXPECT_TRUE(absl::IsUnauthenticated(meeting.client_status)) << meeting.client_status;
  EXPECT_THAT(std::string(meeting.server_status.message()), HasSubstr(log));
  EXPECT_THAT(std::string(meeting.client_status.message()), HasSubstr(answer));
}

TEST(CertificatesTest, OneAuthorityOpensTheConnection) {
  Meeting meeting = MeetByName(Texts({}), Texts({}));
  ASSERT_TRUE(meeting.server->ready() && meeting.client->ready())
      << meeting.server_status << meeting.client_status;
  EXPECT_EQ(meeting.at_server, kRequest);
  ASSERT_TRUE(meeting.server->ToPeer("answer", &meeting.to_client).ok());
  meeting.Exchange();
  EXPECT_EQ(meeting.at_client, "answer");
}

TEST(CertificatesTest, AnIntermediateAuthorityIsShownWithTheCertificate) {
  const MadeCertificate between = MakeAuthority(&Authority());
  CertificateTexts texts = Texts({}, between);
  texts.cert += between.cert;
  texts.ca = Authority().cert;
  const Meeting meeting = MeetByName(texts, texts);
  EXPECT_EQ(meeting.at_server, kRequest) << meeting.server_status << meeting.client_status;
}

TEST(CertificatesTest, AnExpiredNodeIsRefused) {
  const auto expired = Texts({.until = absl::Now() - absl::Minutes(1)});
  ExpectRefusal(MeetByName(Texts({}), expired), "its certificate has expired (it was valid until ",
                "this node's certificate has expired: renew the file of --tls-cert");
}

TEST(CertificatesTest, ANodeBeforeItsTimeIsRefused) {
  const auto early = Texts({.from = absl::Now() + absl::Hours(1)});
  ExpectRefusal(MeetByName(Texts({}), early), "its certificate is not valid before ",
                "the coordinator's log says why");
}

TEST(CertificatesTest, ANodeOfAnotherAuthorityIsRefused) {
  const MadeCertificate other = MakeAuthority();
  CertificateTexts stranger = Texts({}, other);
  stranger.ca += Authority().cert;  // it trusts the coordinator
  ExpectRefusal(MeetByName(Texts({}), stranger),
                "its certificate was issued by none of the authorities in --tls-ca",
                "of an authority that the coordinator does not know");
}

TEST(CertificatesTest, ANodeWithAnotherNameIsRefused) {
  const auto server = Trusting(Texts({}), Name(), TlsRole::kPrimary);
  const auto web = Trusting(Texts({.names = "DNS:web.example.org,DNS:muster.example.org"}),
                            Name("web.example.org"), TlsRole::kNode);
  const Meeting meeting(server->Accept(), web->Connect(0));
  EXPECT_FALSE(meeting.server->ready());
  EXPECT_THAT(std::string(meeting.client_status.message()),
              StartsWith("the coordinator's certificate has DNS:muster, not DNS:web.example.org"));
  EXPECT_THAT(std::string(meeting.server_status.message()),
              HasSubstr("does not accept this coordinator's certificate"));
}

TEST(CertificatesTest, AWildcardIsNoName) {
  CertificateTexts texts = Texts({.names = "DNS:*.example.org"});
  EXPECT_FALSE(MakeCertificateSet(texts, Name("a.example.org"), TlsRole::kNode, absl::Now()).ok());
}

TEST(CertificatesTest, ACertificateForServersAloneIsRefusedFromANode) {
  EXPECT_THAT(std::string(MakeCertificateSet(Texts({.usage = "serverAuth"}), Name(), TlsRole::kNode, absl::Now())
                              .status()
                              .message()),
              HasSubstr("--tls-cert: the certificate is not for clients: let the authority add clientAuth"));
  EXPECT_THAT(
      std::string(MakeCertificateSet(Texts({.usage = "clientAuth"}), Name(), TlsRole::kPrimary, absl::Now())
                      .status()
                      .message()),
      HasSubstr("is not for servers: let the authority add serverAuth"));
  EXPECT_TRUE(MakeCertificateSet(Texts({.usage = "clientAuth"}), Name(), TlsRole::kNode, absl::Now()).ok());
  EXPECT_TRUE(MakeCertificateSet(Texts({.usage = ""}), Name(), TlsRole::kPrimary, absl::Now()).ok());
}

TEST(CertificatesTest, RunAndRoleCountWithSpiffeNames) {
  const auto primary = Trusting(Texts({.names = kPrimary}), Name(kSpiffe), TlsRole::kPrimary);
  const auto node = Trusting(Texts({.names = kNode}), Name(kSpiffe), TlsRole::kNode);
  EXPECT_TRUE(Meet(primary, node).server->ready());
  EXPECT_TRUE(Meet(primary, primary).server->ready()) << "the primary may become a node";
  const Meeting false_primary = Meet(node, node);
  EXPECT_FALSE(false_primary.client->ready());
  EXPECT_THAT(std::string(false_primary.client_status.message()),
              StartsWith("the coordinator's certificate has URI:spiffe://example.org/ml/run/job1/role/node, not "
                         "URI:spiffe://example.org/ml/run/job1/role/primary: "));
  const auto other_run = Trusting(Texts({.names = "URI:spiffe://example.org/ml/run/job2/role/node"}),
                                  Name(kSpiffe, "job2"), TlsRole::kNode);
  EXPECT_FALSE(Meet(primary, other_run).client->ready());
  EXPECT_FALSE(Meet(primary, other_run).server->ready());
}

// It knows this run's name, and has a certificate of the same authority for another run.
TEST(CertificatesTest, ACertificateOfAnotherRunIsRefusedByTheCoordinator) {
  const auto primary = Trusting(Texts({.names = kPrimary}), Name(kSpiffe), TlsRole::kPrimary);
  CertificateTexts texts = Texts({.names = "DNS:muster,URI:spiffe://example.org/ml/run/job2/role/node"});
  const auto lenient = Trusting(texts, Name(), TlsRole::kNode);
  const auto server =
      Trusting(Texts({.names = std::string("DNS:muster,") + kPrimary}), Name(kSpiffe), TlsRole::kPrimary);
  const Meeting meeting = Meet(server, lenient);
  ExpectRefusal(meeting,
                "its certificate has DNS:muster, URI:spiffe://example.org/ml/run/job2/role/node, not "
                "URI:spiffe://example.org/ml/run/job1/role/node or URI:",
                "the coordinator's log says why");
}

TEST(CertificatesTest, AClientWithoutACertificateIsRefused) {
  const auto server = Trusting(Texts({}), Name(), TlsRole::kPrimary);
  Meeting plain(server->Accept(), PlainClient());
  EXPECT_EQ(plain.server_status.message(), "it has no certificate");
  EXPECT_THAT(std::string(plain.client_status.message()), HasSubstr("this job requires a certificate"));
  const auto token = TokenCredentials({"a-token-of-more-than-22-characters"}, "job1");
  const Meeting with_token = Meet(server, token);
  EXPECT_FALSE(with_token.client->ready());
  ExpectRefusal(with_token, "it has a token, and this job uses certificates",
                "this node has a token, and the coordinator uses certificates: give this node --tls-cert");
}

// It speaks TLS, shows nothing and believes everything.
class NoProof : public TlsProof {
 public:
  void Attach(SSL* ssl) override { SSL_set_verify(ssl, SSL_VERIFY_NONE, nullptr); }
  absl::Status Check(SSL* /*ssl*/) const override { return absl::OkStatus(); }
  absl::Status WhyRefused(SSL* /*ssl*/, int alert) const override {
    return absl::UnauthenticatedError(absl::StrCat("alert ", alert));
  }
  absl::Status WhyNoTls(std::string* /*answer*/) const override { return absl::OkStatus(); }
  size_t max_handshake_bytes() const override { return 1 << 20; }
};

TEST(CertificatesTest, AClientThatShowsNothingIsRefused) {
  const auto server = Trusting(Texts({}), Name(), TlsRole::kPrimary);
  auto client = MakeTlsCodec(MakeTlsContext(TLS_client_method()), std::make_unique<NoProof>(), false);
  ExpectRefusal(Meeting(server->Accept(), std::move(client)),
                "it shows no certificate: give it --tls-cert, --tls-key and --tls-ca", "alert 116");
}

TEST(CertificatesTest, ANodeWithACertificateHearsThatTheJobHasNone) {
  const auto node = Trusting(Texts({}), Name(), TlsRole::kNode);
  const Meeting plain(PlainServer(), node->Connect(0));
  EXPECT_THAT(std::string(plain.client_status.message()),
              HasSubstr("this node has a certificate, and the coordinator has neither certificate nor token"));
  const Meeting token(TokenCredentials({"a-token-of-more-than-22-characters"}, "job1")->Accept(),
                      node->Connect(0));
  ExpectRefusal(token, "it speaks TLS, but shows no token (does it have a certificate?)",
                "this node has a certificate, and the coordinator uses a token: give this node the token");
}

// A certificate and what follows are encrypted (RFC 8446, section 4.4); a client shows its own after it knows the
// server's.
TEST(CertificatesTest, NoNameCrossesTheNetworkInTheClear) {
  Meeting::seen().clear();
  const auto primary = Trusting(Texts({.names = kPrimary}), Name(kSpiffe), TlsRole::kPrimary);
  const auto node = Trusting(Texts({.names = kNode}), Name(kSpiffe), TlsRole::kNode);
  ASSERT_TRUE(Meet(primary, node).server->ready());
  ASSERT_FALSE(Meeting::seen().empty());
  for (const char* name : {"example.org", "job1", "muster", "authority"}) {
    EXPECT_EQ(Meeting::seen().find(name), std::string::npos) << name;
  }
}

// ---- the files of a set

std::string WhyNot(const CertificateTexts& texts, absl::Time now = absl::Now()) {
  const auto set = MakeCertificateSet(texts, Name(), TlsRole::kPrimary, now);
  return set.ok() ? "" : std::string(set.status().message());
}

// Others let it in only while its authority is valid, too.
TEST(CertificateSetTest, AGoodOneIsValidAsLongAsAllOfItsChain) {
  const absl::Time from = absl::FromUnixSeconds(1'700'000'000), until = from + absl::Hours(3);
  CertificateWish of_authority{.from = from, .until = until};
  of_authority.authority = true;
  const MadeCertificate authority = MakeCertificate(of_authority, nullptr);
  for (const absl::Duration more : {absl::Hours(-1), absl::Hours(1)}) {
    const CertificateTexts texts = Texts({.from = from + absl::Hours(1), .until = until + more}, authority);
    const auto set = MakeCertificateSet(texts, Name(), TlsRole::kPrimary, std::nullopt);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->validity.from, from + absl::Hours(1));
    EXPECT_EQ(set->validity.until, std::min(until, until + more));
    EXPECT_EQ(set->authority_ends_first, more > absl::ZeroDuration());
  }
}

// The old one and the renewed one, in either order, for as long as nodes have certificates of both.
TEST(CertificateSetTest, AnAuthorityThatIsRenewedWithItsKeyIsTheSame) {
  CertificateWish wish{.from = absl::Now() - absl::Hours(4), .until = absl::Now() - absl::Hours(1)};
  wish.authority = true;
  const MadeCertificate old = MakeCertificate(wish, nullptr);
  const std::string renewed = Renewed(old, absl::Now() + absl::Hours(1000));
  const CertificateTexts texts = Texts({}, old);
  std::vector<std::string> digests;
  for (const std::string& ca : {old.cert + renewed, renewed + old.cert}) {
    const auto set = MakeCertificateSet({.cert = texts.cert, .key = texts.key, .ca = ca}, Name(),
                                        TlsRole::kPrimary, std::nullopt);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_GT(set->validity.until, absl::Now());
    EXPECT_EQ(set->authorities.at(0), set->authorities.at(1));
  }
}

TEST(CertificateSetTest, WhatElseIsInTheCertificatesFileDoesNotCount) {
  CertificateWish wish{.from = absl::Now() - absl::Hours(4), .until = absl::Now() - absl::Hours(1)};
  wish.authority = true;
  const MadeCertificate old = MakeCertificate(wish, nullptr);
  const absl::Time until = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now() + absl::Hours(5)));
  const std::string renewed = Renewed(old, until);
  const CertificateTexts texts = Texts({}, old);
  for (const std::string& beside : {old.cert, MakeAuthority().cert}) {
    const auto set = MakeCertificateSet({.cert = texts.cert + beside, .key = texts.key, .ca = renewed}, Name(),
                                        TlsRole::kPrimary, std::nullopt);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->validity.until, until);
    EXPECT_TRUE(set->authority_ends_first);
  }
}

TEST(CertificateSetTest, AuthoritiesCanBeCompared) {
  CertificateTexts texts = Texts({});
  const auto before = MakeCertificateSet(texts, Name(), TlsRole::kNode, std::nullopt);
  texts.ca = MakeAuthority().cert + texts.ca;
  const auto both = MakeCertificateSet(texts, Name(), TlsRole::kNode, std::nullopt);
  ASSERT_TRUE(before.ok() && both.ok());
  ASSERT_EQ(both->authorities.size(), 2u);
  EXPECT_EQ(before->authorities, std::vector<std::string>{both->authorities[1]});
  EXPECT_NE(both->authorities[0], both->authorities[1]);
}

TEST(CertificateSetTest, PartsThatDoNotBelongTogetherAreNamed) {
  CertificateTexts texts = Texts({});
  EXPECT_EQ(WhyNot(texts), "");
  const CertificateTexts other = Texts({});
  EXPECT_EQ(WhyNot({.cert = texts.cert, .key = other.key, .ca = texts.ca}),
            "--tls-key: it is not the key of the certificate in --tls-cert: replace both");
  EXPECT_THAT(WhyNot({.cert = texts.cert, .key = texts.key, .ca = MakeAuthority().cert}),
              HasSubstr("--tls-cert: the certificate was issued by none of the authorities in --tls-ca"));
  EXPECT_THAT(WhyNot(Texts({.names = ""})), HasSubstr("--tls-cert: the certificate has no name, not DNS:muster"));
}

TEST(CertificateSetTest, DatesAreNamed) {
  const CertificateTexts texts = Texts({});
  EXPECT_THAT(WhyNot(texts, absl::Now() + absl::Hours(24 * 29)), "");
  EXPECT_THAT(WhyNot(Texts({.until = absl::Now() - absl::Minutes(1)})),
              HasSubstr("--tls-cert: the certificate has expired (it was valid until "));
  EXPECT_THAT(WhyNot(texts, absl::Now() - absl::Hours(2)), HasSubstr("is not valid before "));
}

TEST(CertificateSetTest, DamagedFilesAreNamed) {
  const CertificateTexts good = Texts({});
  for (const std::string& text : {std::string(), std::string("garbage"), good.key}) {
    EXPECT_THAT(WhyNot({.cert = text, .key = good.key, .ca = good.ca}),
                StartsWith("--tls-cert: expected a certificate"));
    EXPECT_THAT(WhyNot({.cert = good.cert, .key = good.key, .ca = text}),
                StartsWith("--tls-ca: expected a certificate"));
  }
  std::string torn = good.cert;
  torn.replace(100, 4, "!!!!");
  EXPECT_EQ(WhyNot({.cert = torn, .key = good.key, .ca = good.ca}),
            "--tls-cert: certificate 1 of the file is damaged");
  EXPECT_THAT(WhyNot({.cert = good.cert, .key = good.cert, .ca = good.ca}),
              StartsWith("--tls-key: expected a private key"));
  const MadeCertificate made = MakeCertificate({}, &Authority());
  const std::string locked = Pem([&](BIO* bio) {
    PEM_write_bio_PKCS8PrivateKey(bio, made.pkey.get(), EVP_aes_128_cbc(), "secret", 6, nullptr, nullptr);
  });
  EXPECT_EQ(WhyNot({.cert = made.cert, .key = locked, .ca = Authority().cert}),
            "--tls-key: the key is encrypted: expected one without a passphrase");
}

}  // namespace
}  // namespace muster::rendezvous
