// Basic types: the order of ids, and durations in the form that people write.
#include <gtest/gtest.h>

#include "base/core/status_macros.h"
#include "base/core/waiting_line.h"
#include "base/text/duration.h"
#include "base/text/text.h"
#include "base/wire/ids.h"

namespace muster {
namespace {

v1::Epoch Epoch(uint64_t number, uint64_t random) {
  v1::Epoch epoch;
  epoch.set_number(number);
  epoch.set_random(random);
  return epoch;
}

TEST(Ids, EpochsCompareByNumberThenByRandom) {
  EXPECT_LT(Compare(Epoch(1, 9), Epoch(2, 1)), 0);
  EXPECT_LT(Compare(Epoch(2, 1), Epoch(2, 2)), 0);
  EXPECT_EQ(Compare(Epoch(2, 2), Epoch(2, 2)), 0);
  EXPECT_GT(Compare(Epoch(1, 0), v1::Epoch()), 0) << "any epoch is greater than an empty one";
}

TEST(Ids, RoundsOfOneNumberDifferByEpoch) {
  v1::RoundId a, b;
  a.set_number(5);
  b.set_number(5);
  *a.mutable_epoch() = Epoch(1, 7);
  *b.mutable_epoch() = Epoch(2, 3);
  EXPECT_LT(Compare(a, b), 0);
  EXPECT_FALSE(Same(a, b));
}

TEST(Ids, ANewerAgentsStatusesAreNewer) {
  v1::StatusId old_agent, new_agent;
  old_agent.set_agent_number(1);
  old_agent.set_seq(100);
  new_agent.set_agent_number(2);
  new_agent.set_seq(1);
  EXPECT_LT(Compare(old_agent, new_agent), 0);
}

TEST(Ids, AnIpv6EndpointIsWrittenWithBrackets) {
  v1::Endpoint endpoint;
  endpoint.set_host("::1");
  endpoint.set_port(80);
  EXPECT_EQ(ToString(endpoint), "[::1]:80");
  endpoint.set_host("node-1");
  EXPECT_EQ(ToString(endpoint), "node-1:80");
}

TEST(Duration, SecondsAreTheDefaultUnit) {
  EXPECT_EQ(ParseDuration("20").value(), absl::Seconds(20));
  EXPECT_EQ(ParseDuration("0.5").value(), absl::Milliseconds(500));
  EXPECT_EQ(ParseDuration("0").value(), absl::ZeroDuration());
}

TEST(Duration, UnitsAreMillisecondsSecondsMinutesAndHours) {
  EXPECT_EQ(ParseDuration("500ms").value(), absl::Milliseconds(500));
  EXPECT_EQ(ParseDuration("20s").value(), absl::Seconds(20));
  EXPECT_EQ(ParseDuration("1.5m").value(), absl::Seconds(90));
  EXPECT_EQ(ParseDuration("2h").value(), absl::Hours(2));
}

TEST(Duration, InvalidDurationsAreNamed) {
  for (const char* text : {"", "s", "abc", "-1", "-0", "1d", "1 s", "5s5", "nan", "inf", "1e3", "0x10", "1e999",
                           "99999h9", "999999999h"}) {
    const auto result = ParseDuration(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(AsStd(result.status().message()).find(text), std::string_view::npos);
  }
}

TEST(Text, LongListsNameTheFirstAndCountTheRest) {
  EXPECT_EQ(JoinAtMost({}, 2), "");
  EXPECT_EQ(JoinAtMost({"a", "b"}, 2), "a, b");
  EXPECT_EQ(JoinAtMost({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

TEST(WaitingLine, IsRepeatedEverMoreRarely) {
  WaitingLine line;
  const BootTime start = FromBootNanos(1'000'000'000);
  EXPECT_FALSE(line.Set(start, "a bus"));
  std::vector<std::string> said;
  for (int tick = 0; tick <= 2000; ++tick) {
    if (auto text = line.OnTick(start + absl::Milliseconds(100) * tick)) said.push_back(*text);
  }
  EXPECT_EQ(said, (std::vector<std::string>{"still waiting after 1s: a bus", "still waiting after 5s: a bus",
                                            "still waiting after 10s: a bus", "still waiting after 30s: a bus",
                                            "still waiting after 1m: a bus", "still waiting after 2m: a bus",
                                            "still waiting after 3m: a bus"}));
}

TEST(WaitingLine, AReasonThatLastsAsLongAsTheJobIsSaidOnce) {
  WaitingLine line;
  const BootTime start = FromBootNanos(1'000'000'000);
  std::vector<std::string> said;
  for (int second = 0; second <= 600; ++second) {
    const BootTime now = start + absl::Seconds(second);
    if (auto text = line.Set(now, second < 300 ? "a bus" : "a train", true)) said.push_back(*text);
    if (auto text = line.OnTick(now)) said.push_back(*text);
  }
  EXPECT_EQ(said, (std::vector<std::string>{"waiting: a bus", "waiting: a train"}));
}

TEST(WaitingLine, ChangesAreLoggedAtOnceWithinALimit) {
  WaitingLine line;
  const BootTime start = FromBootNanos(1'000'000'000);
  line.Set(start, "a bus");
  EXPECT_FALSE(line.Set(start + absl::Milliseconds(500), "a train"));
  EXPECT_TRUE(line.OnTick(start + absl::Seconds(1)));
  EXPECT_TRUE(line.Set(start + absl::Seconds(7), "a ship"));
  EXPECT_FALSE(line.Set(start + absl::Seconds(8), ""));
  EXPECT_FALSE(line.OnTick(start + absl::Minutes(9)));
}

TEST(WaitingLine, AReasonThatChangesWithoutEndIsSaidNowAndThen) {
  for (const bool goes : {false, true}) {
    WaitingLine line;
    const BootTime start = FromBootNanos(1'000'000'000);
    int lines = 0;
    for (int i = 0; i < 6000; ++i) {  // of 100 ms
      const BootTime now = start + absl::Milliseconds(100) * i;
      lines += line.Set(now, goes && i % 20 == 0 ? "" : absl::StrCat("reason ", i)).has_value() ? 1 : 0;
      lines += line.OnTick(now).has_value() ? 1 : 0;
    }
    EXPECT_GE(lines, 10);
    EXPECT_LE(lines, 145) << goes;
  }
}

}  // namespace
}  // namespace muster
