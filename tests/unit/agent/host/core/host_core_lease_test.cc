// The host core at the end of its lease, where the workers' grace is shorter than the lease's reserves.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/agent/host/core/host_core_fixture.h"

namespace muster::host {
namespace {

constexpr absl::Duration kShortGrace = absl::Milliseconds(600);  // less than a tenth of the lease

class ShortGraceTest : public HostCoreTest {
 protected:
  ShortGraceTest() : HostCoreTest(WithShortGrace()) {}

  static HostOptions WithShortGrace() {
    HostOptions options = Options(false);
    options.config.set_shutdown_grace_ms(absl::ToInt64Milliseconds(kShortGrace));
    return options;
  }
};

TEST_F(ShortGraceTest, IsGivenInFullBeforeTheLeaseEnds) {
  Run(1);
  const BootTime deadline = now_ + kLease;
  Forget();
  while (Took<StopWorkers>().empty() && now_ < deadline) Pass(kTick, true, false);
  ASSERT_EQ(Took<StopWorkers>().size(), 1u);
  EXPECT_EQ(Took<StopWorkers>().front().signal, SIGTERM);
  const BootTime signalled = now_;
  while (Took<Sweep>().empty() && now_ < deadline) Pass(kTick, true, false);
  EXPECT_GE(now_ - signalled, kShortGrace - kTick);
  EXPECT_LE(now_, deadline - kLease / 10 + kTick);
}

// A host that was stopped sees its workers' exits and the end of its lease at once. Its shell reports the exits
// first: they were not caused by our stop, and a success needs no further round.
TEST_F(HostCoreTest, ExitsAreHandledBeforeTheLeasesEnd) {
  Run(1);
  Forget();
  now_ += kLease - kLease / 8;
  Exit(0, 0);
  Exit(1, 0);
  core_.OnTick(now_, &effects_);
  Swept();
  EXPECT_TRUE(Took<StopWorkers>().empty());
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
}

}  // namespace
}  // namespace muster::host
