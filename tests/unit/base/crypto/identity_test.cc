#include "base/crypto/identity.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/escaping.h"

namespace muster {
namespace {

// RFC 8032, section 7.1, test 2.
constexpr char kSecret[] = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
constexpr char kPublic[] = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
constexpr char kSignature[] =
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb430"
    "2aeeb00d291612bb0c00";

std::string Raw(const char* hex) { return absl::HexStringToBytes(hex); }

TEST(IdentityTest, SignsAsTheStandardSays) {
  const Identity identity = IdentityFrom(Raw(kSecret));
  EXPECT_EQ(identity.public_key, Raw(kPublic));
  EXPECT_EQ(Sign(identity, "\x72"), Raw(kSignature));
  EXPECT_TRUE(IsSignedBy(identity.public_key, "\x72", Raw(kSignature)));
}

TEST(IdentityTest, EachIsANewOne) {
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) ids.insert(IdentityFrom(NewSecret()).id);
  EXPECT_EQ(ids.size(), 10u);
}

TEST(IdentityTest, TheIdBelongsToThePublicKey) {
  const Identity identity = IdentityFrom(NewSecret());
  EXPECT_EQ(identity.id, IdOf(identity.public_key));
  EXPECT_EQ(identity.id.size(), 32u);
  EXPECT_EQ(IdentityFrom(identity.secret).id, identity.id);
  EXPECT_NE(identity.id, IdOf(IdentityFrom(NewSecret()).public_key));
}

TEST(IdentityTest, NeitherAnotherMessageNorAnotherKeyNorAChangedSignatureHolds) {
  const Identity identity = IdentityFrom(NewSecret());
  std::string signature = Sign(identity, "one");
  EXPECT_TRUE(IsSignedBy(identity.public_key, "one", signature));
  EXPECT_FALSE(IsSignedBy(identity.public_key, "two", signature));
  EXPECT_FALSE(IsSignedBy(IdentityFrom(NewSecret()).public_key, "one", signature));
  signature[0] = static_cast<char>(signature[0] ^ 1);
  EXPECT_FALSE(IsSignedBy(identity.public_key, "one", signature));
}

TEST(IdentityTest, WhatIsNoKeyAndNoSignatureHoldsForNothing) {
  const Identity identity = IdentityFrom(NewSecret());
  const std::string signature = Sign(identity, "one");
  EXPECT_FALSE(IsSignedBy("", "one", signature));
  EXPECT_FALSE(IsSignedBy(std::string(32, '\xff'), "one", signature));
  EXPECT_FALSE(IsSignedBy(identity.public_key + "x", "one", signature));
  EXPECT_FALSE(IsSignedBy(identity.public_key, "one", ""));
  EXPECT_FALSE(IsSignedBy(identity.public_key, "one", signature + "x"));
}

}  // namespace
}  // namespace muster
