#include "cli/plan/respawn.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <optional>

#include "base/exit_codes.h"

namespace muster::cli {
namespace {

const BootTime kNow = absl::UnixEpoch() + absl::Hours(1);

int Exited(int code) { return code << 8; }

TEST(RespawnsTest, AKilledNodeComesAgainWithADelayThatDoubles) {
  Respawns respawns(2, true);
  absl::Duration expected = kFirstRespawnDelay;
  for (int i = 0; i < kMaxRespawns; ++i) {
    respawns.OnStart(kNow, 1);
    EXPECT_EQ(respawns.OnEnd(kNow, 1, SIGKILL), expected);
    expected = std::min(2 * expected, absl::Minutes(1));
  }
  EXPECT_EQ(respawns.OnEnd(kNow, 1, SIGKILL), std::nullopt) << "it will not run";
  EXPECT_EQ(respawns.OnEnd(kNow, 0, SIGSEGV), kFirstRespawnDelay) << "each node has its own";
}

TEST(RespawnsTest, ALongRunBringsTheFirstDelayBack) {
  Respawns respawns(1, true);
  for (int i = 0; i < kMaxRespawns; ++i) {
    respawns.OnStart(kNow, 0);
    EXPECT_EQ(respawns.OnEnd(kNow + kLongRun, 0, SIGKILL), kFirstRespawnDelay);
  }
  EXPECT_EQ(respawns.OnEnd(kNow + kLongRun, 0, SIGKILL), std::nullopt) << "it would go on so for ever";
}

TEST(RespawnsTest, AVeryLongRunBringsAllRestartsBack) {
  Respawns respawns(1, true);
  for (int i = 0; i < 2 * kMaxRespawns; ++i) {
    respawns.OnStart(kNow, 0);
    EXPECT_EQ(respawns.OnEnd(kNow + kVeryLongRun, 0, SIGKILL), kFirstRespawnDelay);
  }
}

TEST(RespawnsTest, ANodeThatComesAfterTheJobsEndIsTooLate) {
  Respawns respawns(3, true);
  for (const int node : {0, 1, 2}) respawns.OnStart(kNow, node);
  ASSERT_EQ(respawns.OnEnd(kNow, 2, SIGKILL), kFirstRespawnDelay);
  respawns.OnStart(kNow, 2);
  respawns.OnEnd(kNow, 0, Exited(0));
  EXPECT_EQ(respawns.LateFrom(), absl::InfiniteFuture()) << "node 1 may be saving";
  respawns.OnEnd(kNow + absl::Seconds(1), 1, Exited(0));
  EXPECT_EQ(respawns.LateFrom(), kNow + absl::Seconds(1) + kLateAfter);
  EXPECT_TRUE(respawns.IsLate(2));
  EXPECT_FALSE(respawns.IsLate(1));
  EXPECT_EQ(respawns.result(), 0);
}

TEST(RespawnsTest, AFailedNodeEndsNobodyWhileThePrimaryRuns) {
  Respawns respawns(2, true);
  respawns.OnStart(kNow, 0);
  respawns.OnEnd(kNow, 0, SIGKILL);
  respawns.OnStart(kNow, 0);
  respawns.OnStart(kNow, 1);
  respawns.OnEnd(kNow, 1, Exited(kExitNotFound));
  EXPECT_EQ(respawns.LateFrom(), absl::InfiniteFuture());
  EXPECT_EQ(respawns.result(), kExitNotFound);
}

TEST(RespawnsTest, ANodeThatExitsByItselfBringsTheJobsResult) {
  for (const int status : {Exited(0), Exited(1), Exited(kExitUnavailable), SIGINT}) {
    Respawns respawns(2, true);
    EXPECT_EQ(respawns.OnEnd(kNow, 0, status), std::nullopt);
    EXPECT_TRUE(respawns.over()) << status;
    EXPECT_EQ(respawns.OnEnd(kNow, 1, SIGKILL), std::nullopt) << status;
  }
}

TEST(RespawnsTest, ANodeThatWasAskedToLeaveStaysAwayAlone) {
  Respawns respawns(2, true);
  EXPECT_EQ(respawns.OnEnd(kNow, 0, Exited(kExitLeft)), std::nullopt);
  EXPECT_EQ(respawns.OnEnd(kNow, 1, SIGKILL), kFirstRespawnDelay);
}

TEST(RespawnsTest, NoNodeComesAgainOnceTheJobIsToEnd) {
  Respawns respawns(1, true);
  respawns.End();
  EXPECT_EQ(respawns.OnEnd(kNow, 0, SIGKILL), std::nullopt);
  EXPECT_EQ(Respawns(1, false).OnEnd(kNow, 0, SIGKILL), std::nullopt) << "--no-respawn";
}

}  // namespace
}  // namespace muster::cli
