// How long a coordinator tries to get its port.
#include "rendezvous/core/port_retry.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kMoment = absl::Milliseconds(100);
constexpr PortUser kNewJob;
const BootTime kStart = FromBootNanos(1'000'000'000'000);
const PortHolder kMuster{71, "muster-agent", true, true};
const PortHolder kForeign{72, "curl", false, false};

absl::Status InUse() { return absl::UnavailableError("cannot listen on [::]:1: the port is in use"); }

// How long it goes on, if it never gets the port.
absl::Duration Patience(PortRetry* retry, BootTime from, const PortUser& user,
                        const absl::Status& error = InUse()) {
  for (BootTime now = from; now < from + absl::Hours(1); now += kMoment) {
    if (retry->OnFailure(now, error, user).exit_code != 0) return now - from;
  }
  return absl::InfiniteDuration();
}

absl::Duration PatienceWith(const std::optional<PortHolder>& holder, const PortUser& user,
                            const absl::Status& error = InUse()) {
  PortRetry retry;
  retry.SetHolder(kStart, holder);
  return Patience(&retry, kStart, user, error);
}

TEST(PortRetry, AnotherMusterIsAwaited) { EXPECT_EQ(PatienceWith(kMuster, kNewJob), kBindRetryLimit); }

TEST(PortRetry, AnInvisibleHolderIsAwaited) { EXPECT_EQ(PatienceWith(std::nullopt, kNewJob), kBindRetryLimit); }

TEST(PortRetry, AnotherProgramIsAwaitedBriefly) { EXPECT_EQ(PatienceWith(kForeign, kNewJob), kForeignPortLimit); }

TEST(PortRetry, AFormerServerWaitsForALeaseOrAMinute) {
  EXPECT_EQ(PatienceWith(kForeign, {.has_served = true, .lease = absl::Seconds(10)}), kReturnLimit);
  EXPECT_EQ(PatienceWith(kMuster, {.has_served = true, .lease = absl::Minutes(5)}), absl::Minutes(5));
}

TEST(PortRetry, AFormerServerRetriesWithoutDescriptors) {
  const absl::Status none = absl::ResourceExhaustedError("too many open files");
  EXPECT_EQ(PatienceWith(std::nullopt, kNewJob, none), absl::ZeroDuration());
  EXPECT_EQ(PatienceWith(std::nullopt, {.has_served = true, .lease = absl::ZeroDuration()}, none), kReturnLimit);
  EXPECT_EQ(PortRetry().OnFailure(kStart, none, kNewJob).exit_code, 70);
}

TEST(PortRetry, EachLossOfThePortRestartsTheTimer) {
  PortRetry retry;
  const PortUser user{.has_served = true, .lease = absl::ZeroDuration()};
  EXPECT_EQ(retry.OnFailure(kStart, InUse(), user).exit_code, 0);
  retry.OnListening();
  EXPECT_EQ(Patience(&retry, kStart + absl::Hours(2), user), kReturnLimit);
}

TEST(PortRetry, APermanentErrorEndsItAtOnce) {
  const PortRetry::Next next =
      PortRetry().OnFailure(kStart, absl::PermissionDeniedError("not permitted"), kNewJob);
  EXPECT_EQ(next.exit_code, 69);
  EXPECT_EQ(next.why, "not permitted");
}

// A node that is not the primary looks for the coordinator behind a port of its own machine: it may be a tunnel.
TEST(PortRetry, OnlyAnAnswerEndsTheSearch) {
  PortRetry retry;
  retry.SetHolder(kStart, kForeign);
  EXPECT_EQ(retry.OnNoCoordinator(kStart, "no muster", true).exit_code, 0);
  const BootTime later = kStart + kBindRetryLimit;
  EXPECT_EQ(retry.OnNoCoordinator(later, "timed out", false).exit_code, 0);
  const PortRetry::Next last = retry.OnNoCoordinator(later, "no muster", true);
  EXPECT_EQ(last.exit_code, 69);
  EXPECT_EQ(last.why, "no muster; on this machine that port is used by curl (pid 72)");
}

TEST(PortRetry, TheHolderIsSearchedForOnceASecond) {
  PortRetry retry;
  EXPECT_TRUE(retry.SearchIsDue(kStart));
  retry.SetHolder(kStart, kForeign);
  EXPECT_FALSE(retry.SearchIsDue(kStart));
  EXPECT_TRUE(retry.SearchIsDue(kStart + kHolderSearchPause));
}

TEST(PortRetry, TheHolderIsNamedWithARemedy) {
  const PortUser node{.has_served = false, .lease = absl::ZeroDuration(), .port = 29500};
  EXPECT_EQ(DescribeUsedPort(PortHolder{71, "python3", false, true}, node),
            "port 29500 is used by python3 (pid 71); stop it, or pass another --master-port on all nodes");
  EXPECT_TRUE(absl::StrContains(DescribeUsedPort(kForeign, node),
                                "port 29500 is used by curl (pid 72) for an outgoing connection; stop it"));
  EXPECT_TRUE(
      absl::StrContains(DescribeUsedPort(kMuster, node),
                        "(pid 71); if it is another node of this job, two nodes have --node-rank 0; if its "
                        "run is ending"));
  EXPECT_TRUE(absl::StrContains(DescribeUsedPort(std::nullopt, node), "which cannot be seen from here"));
  const PortUser alone{.has_served = false, .lease = absl::ZeroDuration(), .port = 29400, .runs_alone = true};
  EXPECT_EQ(DescribeUsedPort(PortHolder{71, "python3", false, true}, alone),
            "port 29400 is used by python3 (pid 71); stop it, or pass another port to --listen here and "
            "--coordinator on all nodes");
  EXPECT_TRUE(absl::StrContains(DescribeUsedPort(kMuster, alone), "(pid 71); if its run is ending"));
}

TEST(PortRetry, AMessageAboutAUsedPortNamesPortAndHolder) {
  PortRetry retry;
  retry.SetHolder(kStart, kForeign);
  const PortUser node{.has_served = false, .lease = absl::ZeroDuration(), .port = 29500};
  const std::string waits = retry.OnFailure(kStart, InUse(), node).why;
  EXPECT_TRUE(absl::StrContains(waits, "port 29500 is used by curl (pid 72)")) << waits;
  EXPECT_TRUE(absl::StrContains(waits, "; gives up after 3s")) << waits;
  const std::string last = retry.OnFailure(kStart + kForeignPortLimit, InUse(), node).why;
  EXPECT_FALSE(absl::StrContains(last, "gives up")) << last;
}

}  // namespace
}  // namespace muster::rendezvous
