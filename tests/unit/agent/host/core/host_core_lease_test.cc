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

// Nothing is alive any more, so neither the kernel nor a stop may end anything while a file system hangs.
TEST_F(HostCoreTest, ALeaseThatEndsWhileOutputIsGatheredEndsNothing) {
  Run(1);
  Exit(0, 0);
  Exit(1, 0);
  Forget();
  core_.OnSwept(now_, "", &effects_);
  ASSERT_EQ(Took<SetKernelTimer>().size(), 1u);
  EXPECT_FALSE(Took<SetKernelTimer>()[0].at) << "disarmed as soon as nothing is left";
  Pass(kLease, true, false);
  EXPECT_TRUE(Took<Note>().empty()) << Took<Note>()[0].text;
  core_.OnRoundOutput(now_, "", &effects_);
  EXPECT_EQ(Took<SetKernelTimer>().size(), 1u);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_SUCCEEDED);
}

// This process was frozen: at its next tick the moment of SIGKILL has passed, and the end of the lease is near.
TEST_F(HostCoreTest, AfterAFreezeNoTimeIsPromisedThatHasPassed) {
  Run(1);
  Pass(absl::Milliseconds(6500), true, false);
  Forget();
  now_ += absl::Milliseconds(2900);
  core_.OnTick(now_, &effects_);
  EXPECT_EQ(Took<Note>().at(0).text,
            "the coordinator did not answer for 9.4s; sending SIGKILL to the workers, because other nodes may "
            "replace them once the lease ends (--lease 10s)");
  EXPECT_EQ(Took<Note>().back().text, "sending SIGKILL to rank 2 (pid 100), rank 3 (pid 101)");
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

}  // namespace
}  // namespace muster::host
