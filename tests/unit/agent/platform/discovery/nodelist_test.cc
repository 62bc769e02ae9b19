// Slurm's node lists and counts: every row of slurm_nodelists.tsv and slurm_counts.tsv, and cases beyond them.
#include "agent/platform/discovery/nodelist.h"

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Nodes(std::string_view text) {
  const auto nodes = ExpandNodelist("LIST", text);
  return nodes.ok() ? absl::StrJoin(*nodes, " ") : "ERROR";
}

std::string NodesError(std::string_view text) {
  const auto nodes = ExpandNodelist("LIST", text);
  return nodes.ok() ? "no error: " + absl::StrJoin(*nodes, " ") : std::string(AsStd(nodes.status().message()));
}

std::string Counts(std::string_view text) {
  const auto counts = ExpandCounts("COUNTS", text);
  return counts.ok() ? absl::StrJoin(*counts, " ") : "ERROR";
}

std::vector<std::vector<std::string>> RowsOf(const std::string& file) {
  std::vector<std::vector<std::string>> rows;
  const std::string text = ReadFixture(file);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty() && line.front() != '#') rows.push_back(absl::StrSplit(line, '\t'));
  }
  return rows;
}

TEST(NodelistFixtures, AreExpandedAsTheTableSays) {
  std::map<std::string, int> kinds;
  for (const std::vector<std::string>& row : RowsOf("slurm_nodelists.tsv")) {
    ASSERT_GE(row.size(), 3u);
    const bool taken = row[1] == "ok" || row[1] == "suffix";
    EXPECT_EQ(Nodes(row[0]), taken ? row[2] : "ERROR") << row[0] << " (" << row[1] << ")";
    ++kinds[row[1]];
  }
  EXPECT_EQ(kinds, (std::map<std::string, int>{{"ok", 20}, {"suffix", 2}, {"dup", 2}, {"error", 20}}));
}

TEST(CountsFixtures, AreExpandedAsTheTableSays) {
  const auto rows = RowsOf("slurm_counts.tsv");
  EXPECT_THAT(rows, SizeIs(7));
  for (const std::vector<std::string>& row : rows) {
    ASSERT_GE(row.size(), 2u);
    EXPECT_EQ(Counts(row[0]), row[1]) << row[0];
  }
}

TEST(Nodelist, GroupsOfOneItemAreInSlurmsOrder) {
  EXPECT_EQ(Nodes("[08-10],7"), "08 09 10 7") << "nodes may have numbers for names";
  EXPECT_EQ(Nodes("a[1-2]b[1-2]c[1-2]d[1-2]"),
            "a1b1c1d1 a1b1c1d2 a2b1c1d1 a2b1c1d2 a1b2c1d1 a1b2c1d2 a2b2c1d1 a2b2c1d2 "
            "a1b1c2d1 a1b1c2d2 a2b1c2d1 a2b1c2d2 a1b2c2d1 a1b2c2d2 a2b2c2d1 a2b2c2d2");
  EXPECT_EQ(Nodes("r[1,3-4]n[09-10]x"), "r1n09x r1n10x r3n09x r3n10x r4n09x r4n10x");
  EXPECT_EQ(Nodes("[1-2]a,[1-2][3-4]b"), "1a 2a 13b 14b 23b 24b");
}

TEST(Nodelist, AnySeparatorsSeparate) {
  EXPECT_EQ(Nodes(" ,a\tb\nc,, d[1,2] "), "a b c d1 d2");
  EXPECT_EQ(Nodes("10.0.0.[8-9]"), "10.0.0.8 10.0.0.9");
}

TEST(Nodelist, InvalidNamesAreRefused) {
  for (const char* text : {"", " , ", "a:22", "a/b", "a[1]\r", "10.0.0.[255-256]", "n{1-2}", "n[1]]", "[]", "n[]",
                           "a;b", "n[1-2-3]", "n[+1]", "n[1-]", "n[1,]", "n\x01", "n[1-2],n*", "n\xc3\xa9"}) {
    EXPECT_EQ(Nodes(text), "ERROR") << text;
  }
  EXPECT_EQ(Nodes(std::string_view("a\0b", 3)), "ERROR");
}

TEST(Nodelist, IsBoundedInBytesNamesAndDigits) {
  EXPECT_THAT(ExpandNodelist("LIST", "n[1-65536]").value(), SizeIs(kMaxNodelistHosts));
  EXPECT_THAT(NodesError("n[1-65536],m"), HasSubstr("at most 65536 nodes"));
  EXPECT_THAT(NodesError("n[0-65536]"), HasSubstr("at most 65536 nodes"));
  EXPECT_THAT(NodesError("n[0-999999999999999999]"), HasSubstr("at most 65536 nodes"));
  EXPECT_THAT(NodesError("n[0-40000,1-40000]"), HasSubstr("at most 65536 nodes"));
  EXPECT_THAT(NodesError("a[0-999]b[0-999]c[0-999]d[0-999]e[0-999]f[0-999]g[0-999]"),
              HasSubstr("at most 65536 nodes"));
  EXPECT_EQ(Nodes("n[0000000000000000001]"), "ERROR") << "19 digits";
  EXPECT_EQ(Nodes("n[000000000000000001]"), "n000000000000000001");
  EXPECT_THAT(NodesError(std::string(kMaxNodelistBytes + 1, 'n')), HasSubstr("at most 1048576 bytes"));
  std::string groups;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&groups, "[1]");
  EXPECT_EQ(Nodes(groups), "ERROR") << "a name of 1000 characters";
  EXPECT_EQ(Nodes(std::string(300'000, '[')), "ERROR");
}

TEST(Nodelist, ErrorsNameTheItemInOneLine) {
  EXPECT_EQ(NodesError("a,n[3-1]"),
            "LIST is n[3-1]: expected numbers, or ranges from the smaller to the greater, between '[' and ']'; "
            "correct it, or give --nnodes, --node-rank and --master-addr");
  EXPECT_THAT(NodesError("n[1-2"), HasSubstr("LIST is n[1-2: expected a ']' for each '['"));
  EXPECT_THAT(NodesError("n[1-3],n2"), HasSubstr("LIST is n2: expected each node once, but n2 is there twice"));
  EXPECT_THAT(NodesError(""), HasSubstr("LIST is empty"));
  EXPECT_THAT(NodesError("n\x1b[1"), HasSubstr(R"(n\x1b[1)"));
}

TEST(Counts, AreBounded) {
  EXPECT_EQ(Counts("1(x65536)").size(), 2 * kMaxNodelistHosts - 1);
  for (const char* text :
       {"", "1(x65537)", "1(x65536),1", "1000001", "1(x", "1(x2", "1(x2)3", "1x2", "1(x2))", " 1", "1,"}) {
    EXPECT_EQ(Counts(text), "ERROR") << text;
  }
}

// Random input: whatever is expanded stays small and consists of single names.
TEST(Nodelist, RandomInputNeverBreaksIt) {
  constexpr std::string_view kAlphabet = "an0195[[[]]],,-- (x";
  constexpr int kTries = 100'000;
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < kTries; ++i) {
    std::string text;
    for (size_t length = random() % 24; length > 0; --length) text += kAlphabet[random() % kAlphabet.size()];
    const auto nodes = ExpandNodelist("LIST", text);
    (void)ExpandCounts("COUNTS", text);
    if (!nodes.ok()) continue;
    ++taken;
    ASSERT_LE(nodes->size(), kMaxNodelistHosts);
    for (const std::string& node : *nodes) {
      ASSERT_EQ(Nodes(node), node) << text;
    }
  }
  EXPECT_GT(taken, kTries / 100) << "this alphabet produces no valid input any more";
}

}  // namespace
}  // namespace muster::discovery
