// Nodes that were started with different settings are named once, and never refused.
#include "rendezvous/core/differences.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/wire/facts.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

class DifferencesTest : public testing::Test {
 protected:
  std::vector<std::string> Of(const std::vector<Facts>& all) {
    std::vector<NodeFacts> nodes;
    for (size_t i = 0; i < all.size(); ++i) nodes.push_back({absl::StrCat("node ", i), absl::StrCat(i), &all[i]});
    return differences_.Of(nodes);
  }
  Differences differences_;
};

using Lines = std::vector<std::string>;

TEST_F(DifferencesTest, EqualNodesAreNoWarning) {
  EXPECT_EQ(Of({}), Lines());
  EXPECT_EQ(Of({{}, {}}), Lines());
  EXPECT_EQ(Of({{{"A", "1"}}, {{"A", "1"}}, {{"A", "1"}}}), Lines());
}

TEST_F(DifferencesTest, OutliersAreNamedWithBothValues) {
  const Facts most = {{"NCCL_IB_DISABLE", "0"}};
  EXPECT_EQ(Of({most, {{"NCCL_IB_DISABLE", "1"}}, most, {{"NCCL_IB_DISABLE", "1"}}, most}),
            Lines{"nodes differ: NCCL_IB_DISABLE is 1 on node 1, node 3; 0 on the 3 others"});
}

TEST_F(DifferencesTest, ADifferingPrimaryIsNamed) {
  EXPECT_EQ(Of({{{"A", "1"}}, {{"A", "2"}}, {{"A", "2"}}}),
            Lines{"nodes differ: A is 1 on node 0; 2 on the 2 others"});
}

TEST_F(DifferencesTest, TheFirstOfTwoIsTheReference) {
  EXPECT_EQ(Of({{{"A", "1"}}, {}}), Lines{"nodes differ: A is not set on node 1; 1 on node 0"});
  EXPECT_EQ(Of({{}, {{"B", "two words"}}}), Lines{"nodes differ: B is 'two words' on node 1; not set on node 0"});
}

TEST_F(DifferencesTest, WhatIsBesideAValueIsOnlyShown) {
  EXPECT_EQ(Of({{{"A", "3.11\x1f/a/python"}}, {{"A", "3.11\x1f/b/python"}}}), Lines());
  EXPECT_EQ(Of({{{"A", "3.11\x1f/a/python"}}, {{"A", "3.9\x1f/b/python"}}, {{"A", "3.11\x1f/c/python"}}}),
            Lines{"nodes differ: A is 3.9 (/b/python) on node 1; 3.11 (/a/python) on the 2 others"});
}

TEST_F(DifferencesTest, ANodeThatLeavesItsPythonOrScriptOutIsNotCompared) {
  for (const char* name : {kPythonFact, kScriptFact}) {
    EXPECT_EQ(Of({{{name, "1"}}, {}, {{name, "1"}}}), Lines());
    EXPECT_EQ(Of({{}, {{name, "1"}}, {{name, "2"}}, {{name, "1"}}}),
              Lines{absl::StrCat("nodes differ: ", name, " is 2 on node 2; 1 on 2 others")});
  }
}

TEST_F(DifferencesTest, OnlyNewDifferencesAreReported) {
  const Facts most = {{"A", "1"}};
  const Facts other = {{"A", "2"}};
  EXPECT_EQ(Of({most, most, other}).size(), 1u);
  EXPECT_EQ(Of({most, most, other}), Lines());
  EXPECT_EQ(Of({most, most, other, most}), Lines()) << "one more that is alike";
  EXPECT_EQ(Of({most, most, other, other, most}).size(), 1u);
  EXPECT_EQ(Of({most, most, most, other, most}), Lines()) << "one less that differs";
  EXPECT_EQ(Of({most, most, most, most, most}), Lines());
  EXPECT_EQ(Of({most, most, other}).size(), 1u) << "it had been mended";
}

TEST_F(DifferencesTest, FurtherDifferencesAreCounted) {
  std::vector<Facts> all(40);
  for (size_t i = 0; i < 10; ++i) all[i]["A"] = "other";
  for (size_t i = 10; i < 15; ++i) all[i]["A"] = absl::StrCat(i);
  const Lines lines = Of(all);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("other values on others"), std::string::npos) << lines[0];
  Facts strange;
  for (int i = 0; i < 100; ++i) strange[absl::StrCat("X", 100 + i)] = "1";
  const Lines many = Of({{}, {}, strange});
  ASSERT_EQ(many.size(), kMaxDifferencesSaid + 1);
  EXPECT_NE(many.back().find("differ in 72 more: X108"), std::string::npos) << many.back();
}

TEST_F(DifferencesTest, LongValuesAreShownWhereTheyDiffer) {
  const std::string head(500, 'x');
  const Lines lines = Of({{{"A", head + " --lr 1"}}, {{"A", head + " --lr 2"}}});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LT(lines[0].size(), 250u);
  EXPECT_NE(lines[0].find("x --lr 2' on node 1"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("x --lr 1' on node 0"), std::string::npos) << lines[0];
}

TEST_F(DifferencesTest, ControlCharactersAreEscaped) {
  const Lines lines = Of({{{"A", "1"}}, {{"A", "\x1b[31mred\nmuster: [host] error: forged\r\x7f\u009b2J\u202e"}}});
  EXPECT_EQ(lines, Lines{"nodes differ: A is '\\x1b[31mred\\nmuster: [host] error: forged\\x0d\\x7f\\xc2\\x9b2J"
                         "\\xe2\\x80\\xae' on node 1; 1 on node 0"});
  Facts strange;
  for (int i = 0; i < 20; ++i) strange[absl::StrCat("X", 100 + i, "\nforged")] = "gr\u00fcn \u2713";
  for (const std::string& line : Of({{}, {}, strange})) EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST(CoordinatorFacts, DifferingNodesAreOneWarning) {
  Cluster c(Fixed(3));
  for (const char* name : {"a", "b", "c"}) {
    (*c.At(name).status.mutable_facts())["NCCL_DEBUG"] = name[0] == 'b' ? "INFO" : "WARN";
  }
  c.Join("a", 0);
  c.Join("b", 1);
  c.Join("c", 2);
  for (const char* name : {"a", "b", "c"}) {
    c.At(name).status.clear_facts();  // sent once: an agent stops sending them after the first answer
    c.Apply(name);
  }
  EXPECT_EQ(c.state(), State::kRunning);
  EXPECT_EQ(c.warnings(), Lines{"nodes differ: NCCL_DEBUG is INFO on node 1 (b); WARN on the 2 others"});
  c.Fail("a", 1);
  for (const char* name : {"a", "b", "c"}) c.Apply(name);
  ASSERT_EQ(c.Told("a").run().restart_count(), 1);
  EXPECT_EQ(c.warnings().size(), 1u) << "not with each round";
}

TEST(CoordinatorFacts, DifferingVersionAndNodeCountAreNamed) {
  Cluster c(Fixed(2));
  for (const char* name : {"a", "b"}) {
    c.At(name).status.set_version(name[0] == 'b' ? "0.2.0" : "0.1.0");
    c.At(name).status.set_min_nodes(2);
    c.At(name).status.set_max_nodes(name[0] == 'b' ? 4 : 2);
  }
  c.Join("a", 0);
  c.Join("b", 1);
  EXPECT_EQ(c.Said("nodes differ: muster's version is 0.2.0 on node 1 (b); 0.1.0 on node 0 (a)"), 1);
  EXPECT_EQ(c.Said("nodes differ: --nnodes is 2:4 on node 1 (b); 2 on node 0 (a)"), 1);
}

TEST(CoordinatorFacts, AnotherNumberOfWorkersIsANote) {
  Cluster c(Fixed(2));
  c.At("b").status.set_slots(3);
  c.Join("a", 0);
  c.Join("b", 1);
  EXPECT_EQ(c.warnings(), Lines());
  EXPECT_EQ(c.Said("nodes differ: the number of workers (--nproc-per-node) is 3 on node 1 (b); 2 on node 0 (a)"),
            1);
  EXPECT_TRUE(c.Events(events::kNodesDiffer).empty()) << "no alert";
}

}  // namespace
}  // namespace muster::rendezvous
