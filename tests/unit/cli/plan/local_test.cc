// The environment and arguments of each node of muster local, and the display of its lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/platform/discovery/vertex.h"
#include "base/core/status_macros.h"
#include "cli/commands/commands.h"
#include "cli/options/option_table.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/local_output.h"
#include "cli/plan/local_plan.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;

using Words = std::vector<std::string>;

CommandLine Parsed(const Words& words) { return ParseCommandLine(LocalOptions(), words).value(); }

std::string Error(const Words& words) {
  return std::string(AsStd(LocalNodeCount(Parsed(words)).status().message()));
}

LocalFacts Facts(int gpus = 0) {
  LocalFacts facts;
  facts.port = 4444;
  facts.run_id = "local-1";
  facts.accelerators.count = gpus;
  if (gpus > 0) facts.accelerators.visible_variable = "CUDA_VISIBLE_DEVICES";
  for (int i = 0; i < gpus; ++i) facts.accelerators.visible.push_back(std::to_string(i));
  return facts;
}

TEST(LocalPlanTest, ErrorsAreNamed) {
  EXPECT_EQ(Error({"t.py"}), "--nodes is missing: expected the number of nodes to start on this machine");
  EXPECT_EQ(Error({"--nodes", "0", "t.py"}), "--nodes 0: expected a whole number from 1 to 200");
  EXPECT_EQ(Error({"--nodes", "2", "--node-rank", "0", "t.py"}),
            "--node-rank 0: muster local sets this itself; leave it out");
  EXPECT_EQ(ParseCommandLine(LocalOptions(), {"--node", "2", "t.py"}, "muster local").status().message(),
            "--node: ambiguous; could be --nodes, --node-rank");
  EXPECT_EQ(Error({"--nodes", "2", "--standalone", "t.py"}),
            "--standalone: muster local sets this itself; leave it out");
  EXPECT_EQ(Error({"--nodes", "2", "--nnodes", "1", "t.py"}), "--nnodes 1: does not fit --nodes 2");
  EXPECT_EQ(Error({"--nodes", "2", "--nnodes", "1:3", "t.py"}), "--nnodes 1:3: does not fit --nodes 2");
  EXPECT_EQ(Error({"--nodes", "2"}), "no SCRIPT was given (see muster local --help)");
  EXPECT_EQ(LocalNodeCount(Parsed({"--nodes", "3", "--nnodes", "2:3", "t.py"})).value(), 3);
}

TEST(LocalPlanTest, EachNodesSpecNamesItsPlace) {
  const auto nodes = PlanLocal(3, Parsed({"--nodes", "3", "t.py"}), {}, Facts());
  ASSERT_EQ(nodes.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto view = discovery::ReadVertex(nodes[static_cast<size_t>(i)].environment, {});
    ASSERT_TRUE(view.ok() && view->has_value()) << view.status();
    EXPECT_EQ((*view)->node_rank, i);
    EXPECT_EQ((*view)->run_id, "local-1");
    EXPECT_TRUE((*view)->loopback_only);
    EXPECT_THAT((*view)->nodes, ElementsAre("127.0.0.1:4444", "127.0.0.2:4444", "127.0.0.3:4444"));
  }
}

TEST(LocalPlanTest, OptionsAndScriptArgumentsArePassedOn) {
  const auto nodes =
      PlanLocal(2, Parsed({"--nodes", "2", "-m", "--lease=3", "t.py", "--lease", "9", "--"}), {}, Facts());
  EXPECT_THAT(nodes[1].arguments, ElementsAre("--lease=3", "--module", "--", "t.py", "--lease", "9", "--"));
  EXPECT_TRUE(ParseCommandLine(RunOptions(), nodes[1].arguments).ok());
}

TEST(LocalPlanTest, AnotherJobsVariablesAreDropped) {
  const Environment outer = {{"PATH", "/bin"},
                             {"RANK", "3"},
                             {"PET_NODE_RANK", "1"},
                             {"MUSTER_STANDALONE", "1"},
                             {"TORCHELASTIC_RUN_ID", "x"},
                             {"LOCAL_RANK", "0"},
                             {"MUSTER_LEASE", "4"},
                             {"CLOUD_ML_TRIAL_ID", "2"}};
  const Environment inner = PlanLocal(2, Parsed({"--nodes", "2", "t.py"}), outer, Facts())[1].environment;
  for (const char* name :
       {"RANK", "PET_NODE_RANK", "MUSTER_STANDALONE", "TORCHELASTIC_RUN_ID", "LOCAL_RANK", "CLOUD_ML_TRIAL_ID"}) {
    EXPECT_EQ(inner.count(name), 0u) << name;
  }
  EXPECT_EQ(inner.at("PATH"), "/bin");
  EXPECT_EQ(inner.at("MUSTER_LEASE"), "4");
  EXPECT_EQ(inner.at("MUSTER_LOCAL_ADDR"), "127.0.0.2");
}

TEST(LocalPlanTest, PlatformDefaultsDoNotApply) {
  const auto inner = [](const Environment& outer) {
    return PlanLocal(2, Parsed({"--nodes", "2", "t.py"}), outer, Facts())[1].environment;
  };
  EXPECT_EQ(inner({}).at("MUSTER_RETRYABLE_EXIT_CODE"), "0");
  EXPECT_EQ(inner({}).at("MUSTER_LOG_STREAMS"), "stderr");
  EXPECT_EQ(inner({}).at("MUSTER_TERMINATION_GRACE"), "30s");
  EXPECT_EQ(inner({{"MUSTER_RETRYABLE_EXIT_CODE", "134"}}).at("MUSTER_RETRYABLE_EXIT_CODE"), "134");
}

TEST(LocalPlanTest, AcceleratorsAreDividedWithoutOverlap) {
  const auto nodes = PlanLocal(3, Parsed({"--nodes", "3", "t.py"}), {}, Facts(8));
  EXPECT_EQ(nodes[0].environment.at("CUDA_VISIBLE_DEVICES"), "0,1,2");
  EXPECT_EQ(nodes[1].environment.at("CUDA_VISIBLE_DEVICES"), "3,4,5");
  EXPECT_EQ(nodes[2].environment.at("CUDA_VISIBLE_DEVICES"), "6,7");
  const auto few = PlanLocal(2, Parsed({"--nodes", "2", "t.py"}), {}, Facts(1));
  EXPECT_EQ(few[1].environment.at("CUDA_VISIBLE_DEVICES"), "");
  const auto none = PlanLocal(2, Parsed({"--nodes", "2", "t.py"}), {}, Facts(0));
  EXPECT_EQ(none[0].environment.count("CUDA_VISIBLE_DEVICES"), 0u);
}

TEST(LocalPlanTest, RedrawnLinesAreKeptOnlyForATerminal) {
  LocalFacts facts = Facts();
  EXPECT_EQ(PlanLocal(1, Parsed({"--nodes", "1", "t.py"}), {}, facts)[0].environment.at(kRedrawsVariable), "0");
  facts.terminals = host::Streams::kErr;
  EXPECT_EQ(PlanLocal(1, Parsed({"--nodes", "1", "t.py"}), {}, facts)[0].environment.at(kRedrawsVariable), "2");
}

TEST(LocalPlanTest, AllNodesGetTheKeyboardUnlessStdinSaysOtherwise) {
  LocalFacts facts = Facts();
  const CommandLine line = Parsed({"--nodes", "1", "t.py"});
  EXPECT_EQ(PlanLocal(1, line, {}, facts)[0].environment.at("MUSTER_STDIN"), "none");
  EXPECT_EQ(PlanLocal(1, line, {{"MUSTER_STDIN", "0"}}, facts)[0].environment.at("MUSTER_STDIN"), "0");
  facts.keyboard = true;
  EXPECT_EQ(PlanLocal(1, line, {}, facts)[0].environment.at("MUSTER_STDIN"), "all");
  EXPECT_EQ(PlanLocal(1, line, {{"MUSTER_STDIN", "none"}}, facts)[0].environment.at("MUSTER_STDIN"), "none");
}

TEST(LocalPlanTest, PdbHasTheKeyboardAlone) {
  LocalFacts facts = Facts();
  facts.keyboard = true;
  const auto stdin_of = [&](const Words& words, const Environment& environment) {
    return PlanLocal(1, Parsed(words), environment, facts)[0].environment.at("MUSTER_STDIN");
  };
  EXPECT_EQ(stdin_of({"--nodes=1", "--debug=0", "t.py"}, {}), "");
  EXPECT_EQ(stdin_of({"--nodes=1", "t.py"}, {{"MUSTER_DEBUG", "0"}}), "");
  EXPECT_EQ(stdin_of({"--nodes=1", "--debug=0:5678", "t.py"}, {}), "all");
}

std::string Fed(NodeOutput* output, std::string_view bytes) {
  std::string out;
  output->Feed(bytes, [&out](std::string_view, size_t, std::string_view piece) { out += piece; });
  return out;
}

TEST(NodeOutputTest, LinesArePrefixedByNodeAndRank) {
  NodeOutput output(1, false);
  EXPECT_EQ(Fed(&output, "muster: hel"), "");
  EXPECT_EQ(Fed(&output,
                "lo\n\x1e"
                "3\x1fhi\n\x1e"
                "4"),
            "[node 1] muster: hello\n[node 1 rank 3] hi\n");
  EXPECT_EQ(Fed(&output, "\x1fthere\r\n"), "[node 1 rank 4] there\r\n");
}

TEST(NodeOutputTest, AnUnfinishedLineIsShownAtTheEnd) {
  NodeOutput output(0, false);
  std::string out = Fed(&output, "half");
  const auto take = [&out](std::string_view, size_t, std::string_view piece) { out += piece; };
  output.End(take);
  output.End(take);
  EXPECT_EQ(out, "[node 0] half\n");
}

TEST(NodeOutputTest, AProgressBarRedraws) {
  NodeOutput output(0, false);
  EXPECT_EQ(Fed(&output,
                "\x1e"
                "0\x1f"
                "10%\r"),
            "[node 0 rank 0] 10%\r");
  EXPECT_EQ(Fed(&output,
                "\x1e"
                "0\x1f"
                "20%\r"),
            "[node 0 rank 0] 20%\r");
  EXPECT_EQ(Fed(&output, "\n"), "[node 0 rank 0] 20%\n");
  EXPECT_EQ(Fed(&output, "\n"), "[node 0] \n");
}

TEST(NodeOutputTest, EachRowIsPrefixedByNodeAndRank) {
  NodeOutput output(1, false);
  EXPECT_EQ(Fed(&output,
                "\x1e"
                "3\x1f"
                "epoch\v\x1e"
                "3\x1fstep\r"),
            "[node 1 rank 3] epoch\v[node 1 rank 3] step\r");
}

TEST(NodeOutputTest, AnEndlessLineIsShownInParts) {
  NodeOutput output(0, false);
  EXPECT_EQ(Fed(&output, std::string(kMaxLocalLineBytes + 1, 'x')).size(), kMaxLocalLineBytes + 1 + 10);
}

TEST(NodeOutputTest, ColourEndsBeforeTheText) {
  NodeOutput output(0, true);
  EXPECT_EQ(Fed(&output, "x\n"), "\033[36m[node 0]\033[0m x\n");
}

}  // namespace
}  // namespace muster::cli
