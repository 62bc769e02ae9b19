// Hostfiles of the fixtures as expected.tsv reads them, and DeepSpeed's filters.
#include "agent/platform/discovery/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::HasSubstr;

// "a:0,1 b:0,1,2"
std::string Text(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) {
    text += (text.empty() ? "" : " ") + host.host + ":";
    for (size_t i = 0; i < host.slots.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(host.slots[i]);
  }
  return text;
}

std::string Read(std::string_view content) {
  const auto hosts = ParseHostfile("hostfile", content);
  return hosts.ok() ? Text(*hosts) : std::string(AsStd(hosts.status().message()));
}

class HostfileFixtures : public ::testing::TestWithParam<Fixture> {};

TEST_P(HostfileFixtures, IsReadAsExpected) {
  const Fixture& fixture = GetParam();
  const auto hosts = ParseHostfile(fixture.file, ReadFixture(fixture.file));
  // DeepSpeed keeps a host without ranks. Such a file comes from a script that failed to count the slots.
  const bool refused = fixture.outcome == "error" || fixture.file == "hostfile_zero_slots.txt";
  EXPECT_EQ(hosts.ok(), !refused) << hosts.status();
  EXPECT_EQ(std::string(AsStd(hosts.status().message())).find('\n'), std::string::npos);
}

std::vector<Fixture> Hostfiles() {
  std::vector<Fixture> fixtures = FixturesOf("hostfile");
  std::erase_if(fixtures, [](const Fixture& f) {
    return f.outcome == "table" || f.file == "deepspeed_env_sample.txt";  // not hostfiles
  });
  return fixtures;
}

INSTANTIATE_TEST_SUITE_P(All, HostfileFixtures, ::testing::ValuesIn(Hostfiles()));

TEST(Hostfile, IsReadInItsOrderWithCommentsAndAnyLineEnds) {
  EXPECT_EQ(Read("# two\r\nb slots=2\r\n\r\n\ta   slots=1 # one\r\n"), "b:0,1 a:0");
  EXPECT_EQ(Read("10.0.0.1 slots=1"), "10.0.0.1:0");
}

TEST(Hostfile, ErrorsNameTheLineAndWhatWasExpected) {
  EXPECT_THAT(Read("a slots=1\nb slots=x\n"), HasSubstr("hostfile: line 2 slots is x: expected a whole number"));
  EXPECT_THAT(Read("a slots=1\nb\n"), HasSubstr("line 2 is b: expected HOST slots=N"));
  EXPECT_THAT(Read("a slots=1\na slots=1\n"), HasSubstr("line 2 host is a: expected each host once"));
  EXPECT_THAT(Read("a slots=0\n"), HasSubstr("expected at least 1"));
  EXPECT_THAT(Read(std::string(kMaxHostfileBytes + 1, '#')), HasSubstr("bytes"));
}

TEST(Hostfile, TakesIpv6AddressesWithBracketsOrWithout) {
  EXPECT_EQ(Read("fd00::1 slots=1\n[fd00::2] slots=1\n"), "fd00::1:0 fd00::2:0");
  EXPECT_THAT(Read("[fd00::1]:22 slots=1\n"), HasSubstr("host is [fd00::1]:22: expected"));
}

// As Open MPI and ssh write them.
TEST(Hostfile, IgnoresUsersAndLimitsOfSlots) {
  EXPECT_EQ(Read("a slots=2 max_slots=4\nb max-slots=8 slots=1\n"), "a:0,1 b:0");
  EXPECT_THAT(Read("a max_slots=4\n"), HasSubstr("expected HOST slots=N"));
  std::vector<std::string> warnings;
  const auto hosts = ParseHostfile("hostfile", "a slots=1\nme@b slots=1\nyou@fd00::1 slots=1\n", &warnings);
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(Text(*hosts), "a:0 b:0 fd00::1:0");
  EXPECT_THAT(warnings, ::testing::ElementsAre(
                            "hostfile: line 2: the user of me@b is ignored, since muster starts nothing by SSH"));
  EXPECT_THAT(Read("@a slots=1\n"), HasSubstr("line 1 host is @a: expected"));
}

TEST(Hostfile, KnowsAHostInEachSpelling) {
  for (const char* second : {"A slots=1", "a. slots=1"}) {
    EXPECT_THAT(Read(absl::StrCat("a slots=1\n", second)), HasSubstr("expected each host once")) << second;
  }
  EXPECT_THAT(Read("fd00::1 slots=1\n[fd00:0::1] slots=1\n"), HasSubstr("expected each host once"));
  EXPECT_THAT(Read("-oProxyCommand slots=1\n"), HasSubstr("host is -oProxyCommand"));
}

TEST(Hostfile, TooManySlotsAreRefusedBeforeTheyTakeMemory) {
  std::string text;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&text, "h", i, " slots=1024\n");
  EXPECT_THAT(Read(text), HasSubstr("line 977 slots is 1024: expected at most 1000000 in all"));
}

// The rows of hostfile_filters.tsv: include, exclude, DeepSpeed's result, expected result.
TEST(HostFilters, AreReadAsDocumented) {
  const auto pool = ParseHostfile("pool", "worker-0 slots=4\nworker-1 slots=4\n");
  ASSERT_TRUE(pool.ok());
  std::istringstream rows(ReadFixture("hostfile_filters.tsv"));
  const std::map<std::string, std::string> right = {
      {"worker-1:0,3|", "worker-1:0,3"},
      {"|worker-0", "worker-1:0,1,2,3"},
      {"worker-0@worker-1:0,2|", "worker-0:0,1,2,3 worker-1:0,2"},
      {"worker-1:3,1,1|", "worker-1:1,3"},
  };
  int seen = 0;
  for (std::string row; std::getline(rows, row);) {
    if (row.empty() || row[0] == '#' || row.starts_with("include\t")) continue;
    std::vector<std::string> cells;
    std::istringstream line(row);
    for (std::string cell; std::getline(line, cell, '\t');) cells.push_back(cell);
    ASSERT_GE(cells.size(), 4u) << row;
    const auto hosts = FilterHosts(*pool, cells[0], cells[1]);
    const auto expected = right.find(cells[0] + "|" + cells[1]);
    EXPECT_EQ(hosts.ok(), expected != right.end()) << row;
    ++seen;
    if (!hosts.ok() || expected == right.end()) continue;
    EXPECT_EQ(Text(*hosts), expected->second) << row;
  }
  EXPECT_EQ(seen, 7);
}

TEST(HostFilters, RefuseUnknownHostsAndSlots) {
  const auto pool = ParseHostfile("pool", "a slots=4\n");
  ASSERT_TRUE(pool.ok());
  EXPECT_THAT(std::string(AsStd(FilterHosts(*pool, "a:4", "").status().message())),
              HasSubstr("--include is a:4: expected slots from 0 to 3 of a"));
  EXPECT_FALSE(FilterHosts(*pool, "a", "a").ok());
  EXPECT_FALSE(FilterHosts(*pool, "", "a").ok()) << "nothing would be left";
}

TEST(HostFilters, AHostNamedTwiceKeepsTheSlotsOfBoth) {
  const auto pool = ParseHostfile("pool", "a slots=4\nb slots=1\n");
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(Text(*FilterHosts(*pool, "a:0@a:2", "")), "a:0,2");
  EXPECT_EQ(Text(*FilterHosts(*pool, "", "a:0@a:2")), "a:1,3 b:0");
  for (const char* both : {"a@a:2", "a:2@a", "a:0@a@a:1"}) {
    EXPECT_EQ(Text(*FilterHosts(*pool, both, "")), "a:0,1,2,3") << both;
    EXPECT_EQ(Text(*FilterHosts(*pool, "", both)), "b:0") << both;
  }
}

TEST(HostFilters, NameIpv6AddressesInBrackets) {
  const auto pool = ParseHostfile("pool", "fd00::1 slots=2\nfd00::2 slots=2\n");
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(Text(*FilterHosts(*pool, "[fd00::1]:1@[fd00::2]", "")), "fd00::1:1 fd00::2:0,1");
  for (const char* wrong : {"fd00::1", "[fd00::1", "[fd00::1]x", "[fd00::1]:0:1", "[]"}) {
    EXPECT_FALSE(FilterHosts(*pool, wrong, "").ok()) << wrong;
  }
}

}  // namespace
}  // namespace muster::discovery
