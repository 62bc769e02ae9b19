#include "agent/host/core/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/effects.h"

namespace muster::host {
namespace {

constexpr absl::Duration kLength = absl::Seconds(10);
const BootTime kNow = FromBootNanos(1'000'000'000'000);

v1::HostDirective Grant(BootTime deadline, absl::Duration length = absl::ZeroDuration()) {
  v1::HostDirective directive;
  directive.set_lease_deadline_boot_ns(ToBootNanos(deadline));
  directive.set_lease_ms(absl::ToInt64Milliseconds(length));
  return directive;
}

Lease Granted(absl::Duration grace) {
  Lease lease(kLength, grace);
  lease.Extend(Grant(kNow + kLength));
  return lease;
}

TEST(LeaseTest, ItsEndOnlyMovesForward) {
  Lease lease(kLength, absl::Seconds(30));
  EXPECT_EQ(lease.deadline(), absl::InfinitePast());
  lease.Extend(Grant(kNow));
  lease.Extend(Grant(kNow - absl::Seconds(1)));
  lease.Extend(v1::HostDirective());
  EXPECT_EQ(lease.deadline(), kNow);
  lease.Extend(Grant(kNow + absl::Seconds(1)));
  EXPECT_EQ(lease.deadline(), kNow + absl::Seconds(1));
}

TEST(LeaseTest, TheCoordinatorSetsItsLength) {
  Lease lease(kLength, absl::Seconds(30));
  lease.Extend(Grant(kNow, absl::Seconds(20)));
  EXPECT_EQ(lease.length(), absl::Seconds(20));
  lease.Extend(Grant(kNow));
  EXPECT_EQ(lease.length(), absl::Seconds(20)) << "a directive without a length changes none";
}

TEST(LeaseTest, ALongGraceBeginsAtTwoThirds) {
  const Lease lease = Granted(absl::Seconds(30));
  EXPECT_EQ(lease.TermMoment(), lease.deadline() - kLength / 3);
  EXPECT_EQ(lease.KillMoment(), kNow + absl::Seconds(9));
}

TEST(LeaseTest, AShortGraceEndsWithSigkill) {
  const Lease lease = Granted(absl::Seconds(1));
  EXPECT_EQ(lease.TermMoment(), kNow + absl::Seconds(8));
}

TEST(LeaseTest, IsEndingFromTheTermMomentOn) {
  const Lease lease = Granted(absl::Seconds(1));
  EXPECT_FALSE(lease.IsEnding(kNow + absl::Seconds(8) - absl::Nanoseconds(1)));
  EXPECT_TRUE(lease.IsEnding(kNow + absl::Seconds(8)));
}

TEST(LeaseTest, OneThatWasNeverGrantedIsOver) { EXPECT_TRUE(Lease(kLength, absl::Seconds(1)).IsEnding(kNow)); }

TEST(LeaseTest, AJobOfOneNodeHasNone) {
  Lease lease(absl::ZeroDuration(), absl::Seconds(1));
  lease.Extend(Grant(kNow, kLength));
  Effects effects;
  lease.UpdateKernelTimer(true, &effects);
  EXPECT_FALSE(lease.exists());
  EXPECT_FALSE(lease.IsEnding(kNow + absl::Hours(1)));
  EXPECT_TRUE(effects.empty());
}

TEST(LeaseTest, TheKernelGuardsOnlyWorkers) {
  Lease lease = Granted(absl::Seconds(1));
  Effects effects;
  lease.UpdateKernelTimer(false, &effects);
  EXPECT_TRUE(effects.empty()) << "nothing was armed";
  lease.UpdateKernelTimer(true, &effects);
  lease.UpdateKernelTimer(false, &effects);
  const auto timers = AllOf<SetKernelTimer>(effects);
  ASSERT_EQ(timers.size(), 2u);
  EXPECT_EQ(timers[0].at, lease.deadline());
  EXPECT_EQ(timers[1].at, std::nullopt);
}

TEST(LeaseTest, TheKernelIsAskedForChangesOnly) {
  Lease lease = Granted(absl::Seconds(1));
  Effects effects;
  lease.UpdateKernelTimer(true, &effects);
  lease.UpdateKernelTimer(true, &effects);
  EXPECT_EQ(effects.size(), 1u);
  lease.Extend(Grant(kNow + 2 * kLength));
  lease.UpdateKernelTimer(true, &effects);
  EXPECT_EQ(AllOf<SetKernelTimer>(effects).back().at, kNow + 2 * kLength);
}

TEST(LeaseTest, ItsEndNamesTheSilenceAndTheOption) {
  const Lease lease = Granted(absl::Seconds(1));
  const std::string why = lease.WhyItEnds(kNow + absl::Seconds(8), false);
  EXPECT_THAT(why, testing::HasSubstr("the coordinator did not answer for 8s"));
  EXPECT_THAT(why, testing::HasSubstr("workers, which have 1s to exit"));
  EXPECT_THAT(why, testing::HasSubstr("(--lease 10s)"));
  EXPECT_THAT(lease.WhyItEnds(kNow, true), testing::HasSubstr("no other node answered"));
}

}  // namespace
}  // namespace muster::host
