#include "base/crypto/digest.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace muster {
namespace {

// FIPS 180-2, appendix B.1.
TEST(DigestTest, IsSha256) {
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ShortHash("abc"), "ba7816bf8f01cfea414140de5dae2223");
}

}  // namespace
}  // namespace muster
