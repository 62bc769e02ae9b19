// Names of certificates, and what their dates mean.
#include "rendezvous/gate/peer_name.h"

#include <gtest/gtest.h>

#include "rendezvous/gate/validity.h"

namespace muster::rendezvous {
namespace {

constexpr char kUri[] = "spiffe://example.org/run/job1/role/";

bool Admits(const std::string& text, const CertificateNames& names, TlsRole role) {
  return PeerName::Parse(text, "job1")->Admits(names, role);
}

TEST(PeerNameTest, AFixedNameIsOneOfTheDnsNames) {
  EXPECT_TRUE(Admits("muster", {.dns = {"other", "Muster"}, .uris = {}}, TlsRole::kPrimary));
  EXPECT_FALSE(Admits("muster", {.dns = {"muster.example.org", "*"}, .uris = {"muster"}}, TlsRole::kNode));
  EXPECT_FALSE(Admits("muster", {.dns = {std::string("muster\0.org", 11)}, .uris = {}}, TlsRole::kNode));
}

TEST(PeerNameTest, ASpiffeIdHasRunAndRole) {
  const std::string name = "spiffe://example.org", uri = kUri;
  EXPECT_TRUE(Admits(name, {.dns = {}, .uris = {uri + "node"}}, TlsRole::kNode));
  EXPECT_TRUE(Admits(name, {.dns = {}, .uris = {uri + "primary"}}, TlsRole::kNode));
  EXPECT_TRUE(Admits(name, {.dns = {}, .uris = {uri + "primary"}}, TlsRole::kPrimary));
  EXPECT_FALSE(Admits(name, {.dns = {}, .uris = {uri + "node"}}, TlsRole::kPrimary));
  EXPECT_FALSE(Admits(name, {.dns = {}, .uris = {uri + "node2"}}, TlsRole::kNode));
  EXPECT_FALSE(Admits(name, {.dns = {}, .uris = {uri + "node", uri + "primary"}}, TlsRole::kNode));
  EXPECT_FALSE(Admits(name, {.dns = {uri + "node"}, .uris = {}}, TlsRole::kNode));
  EXPECT_FALSE(Admits("spiffe://example.org/a", {.dns = {}, .uris = {uri + "node"}}, TlsRole::kNode));
}

TEST(PeerNameTest, OtherTextsAreRefused) {
  for (const char* text : {"", "a b", "*.example.org", "spiffe://", "spiffe://Example.org", "spiffe://a/",
                           "spiffe://a//b", "spiffe://a/../b", "spiffe://a:1/b", "https://a"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PeerName::Parse(text, "job1").status())) << text;
  }
  for (const char* run : {"", "a/b", "a b", ".."}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(PeerName::Parse("spiffe://a", run).status())) << run;
    EXPECT_TRUE(PeerName::Parse("muster", run).ok()) << run;
  }
}

TEST(ValidityTest, AFifthOfItsLifeButAtMostADayIsItsEnd) {
  const absl::Time from = absl::UnixEpoch();
  const Validity hour{.from = from, .until = from + absl::Hours(1)},
      year{.from = from, .until = from + absl::Hours(8760)};
  EXPECT_EQ(AgeOf(hour, from - absl::Seconds(1)), Age::kNotYet);
  EXPECT_EQ(AgeOf(hour, from), Age::kGood);
  EXPECT_EQ(AgeOf(hour, from + absl::Minutes(48)), Age::kGood);
  EXPECT_EQ(AgeOf(hour, from + absl::Minutes(48) + absl::Seconds(1)), Age::kEnding);
  EXPECT_EQ(AgeOf(hour, hour.until), Age::kEnding);
  EXPECT_EQ(AgeOf(hour, hour.until + absl::Seconds(1)), Age::kExpired);
  EXPECT_EQ(AgeOf(year, year.until - absl::Hours(25)), Age::kGood);
  EXPECT_EQ(AgeOf(year, year.until - absl::Hours(23)), Age::kEnding);
  EXPECT_EQ(AgeOf({}, from), Age::kGood) << "tokens do not expire";
}

}  // namespace
}  // namespace muster::rendezvous
