#include "agent/process/core/container_end.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string At(uint64_t used, uint64_t limit) {
  v1::HostStatus last;
  last.set_memory_used(used);
  last.set_memory_limit(limit);
  return HowContainerEnded(last);
}

TEST(HowContainerEndedTest, AtTheLimitTheKernelIsSuspected) {
  EXPECT_EQ(
      At(15 * kGiB + kGiB / 2, 16 * kGiB),
      "its training container ended when it used 15.50 of 16.00 GiB of memory; the kernel probably killed it for "
      "that");
  EXPECT_NE(At(900, 1000), At(899, 1000)) << "from 90 % on";
}

TEST(HowContainerEndedTest, BelowItNobodyIs) {
  EXPECT_EQ(At(899, 1000), "its training container ended");
  EXPECT_EQ(At(0, 1000), "its training container ended");
  EXPECT_EQ(At(5, 0), "its training container ended") << "no limit is known";
}

}  // namespace
}  // namespace muster::agent
