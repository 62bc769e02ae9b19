#include "base/crypto/sidecar_proof.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace muster {
namespace {

TEST(SidecarProofTest, IsTheSameForTheSameTokenAlone) {
  const std::string proof = ProofOfHost("token", "hello", "nonce");
  EXPECT_TRUE(SameProof(proof, ProofOfHost("token", "hello", "nonce")));
  for (const std::string& other :
       {ProofOfHost("token2", "hello", "nonce"), ProofOfHost("token", "hallo", "nonce"),
        ProofOfHost("token", "hello", "nonc"), ProofOfHost("token", "hellon", "once"), std::string()}) {
    EXPECT_FALSE(SameProof(proof, other));
  }
}

// Who sends a host's proof back to it has shown nothing.
TEST(SidecarProofTest, DiffersForTheTwoEnds) {
  EXPECT_NE(ProofOfHost("token", "hello", "nonce"), ProofOfSidecar("token", "hello", "nonce"));
}

TEST(SidecarProofTest, TellsNothingOfTheToken) {
  EXPECT_EQ(ProofOfHost("token", "hello", "nonce").size(), 32u);
  EXPECT_EQ(ProofOfHost(std::string(1'000, 'x'), "hello", "nonce").size(), 32u);
}

TEST(SidecarProofTest, NoncesDiffer) {
  std::set<std::string> nonces;
  for (int i = 0; i < 100; ++i) nonces.insert(NewNonce());
  EXPECT_EQ(nonces.size(), 100u);
}

}  // namespace
}  // namespace muster
