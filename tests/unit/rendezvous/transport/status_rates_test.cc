#include "rendezvous/transport/status_rates.h"

#include <gtest/gtest.h>

namespace muster::rendezvous {
namespace {

constexpr BootTime kStart = absl::UnixEpoch();

TEST(StatusRatesTest, EachHostHasItsOwn) {
  StatusRates rates(Allowance(2, 1));
  EXPECT_TRUE(rates.Take(kStart, "a"));
  EXPECT_TRUE(rates.Take(kStart, "a"));
  EXPECT_FALSE(rates.Take(kStart, "a"));
  EXPECT_TRUE(rates.Take(kStart, "b"));
  EXPECT_TRUE(rates.Take(kStart + absl::Seconds(1), "a"));
  EXPECT_FALSE(rates.Take(kStart + absl::Seconds(1), "a"));
}

TEST(StatusRatesTest, HostsThatWereSilentAreForgottenAndOthersAreNot) {
  StatusRates rates(Allowance(2, 1));
  for (int i = 0; i < 100'000; ++i) {
    const BootTime now = kStart + absl::Milliseconds(i);
    ASSERT_TRUE(rates.Take(now, std::to_string(i)));
    if (i % 1000 == 0) {
      ASSERT_TRUE(rates.Take(now, "steady")) << i;
    }
    ASSERT_LE(rates.remembered(), 4'096u);
  }
  const BootTime end = kStart + absl::Milliseconds(99'999);
  ASSERT_TRUE(rates.Take(end, "steady"));
  EXPECT_FALSE(rates.Take(end, "steady") && rates.Take(end, "steady"));
}

}  // namespace
}  // namespace muster::rendezvous
