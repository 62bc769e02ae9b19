// The table of platforms: which source takes precedence, and which sources must agree.
#include "agent/platform/discovery/discover.h"

#include "base/core/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kRank1Of2[] =
    R"({"cluster":{"workerpool0":["a:2222"],"workerpool1":["b:2222"]},"task":{"type":"workerpool1","index":0}})";

DiscoverOptions From(const std::string& source) {
  DiscoverOptions options;
  options.source = source;
  return options;
}

// The name of its first node is that of the primary in kRank1Of2.
Environment SlurmStep(const std::string& rank, const std::string& count) {
  return {{"SLURM_JOB_ID", "9"},
          {"SLURM_STEP_NODELIST", count == "1" ? "a" : "a,x[2-" + count + "]"},
          {"SLURM_STEP_NUM_NODES", count},
          {"SLURM_NODEID", rank}};
}

Environment Both(const std::string& slurm_rank, const std::string& slurm_count) {
  Environment environment = SlurmStep(slurm_rank, slurm_count);
  environment["CLUSTER_SPEC"] = kRank1Of2;
  return environment;
}

TEST(Discover, NothingFoundMeansOneNode) {
  const ClusterView view =
      DiscoverWith({{"HOME", "/root"}, {"RANK", "3"}, {"LOCAL_RANK", "3"}, {"WORLD_SIZE", "8"}}, {}).value();
  EXPECT_EQ(view.source, "single");
  EXPECT_EQ(view.node_rank, 0);
  EXPECT_EQ(view.nnodes, 1);
  EXPECT_TRUE(view.loopback_only);
  EXPECT_THAT(view.warnings, IsEmpty());
}

TEST(Discover, ASlurmStepThatAgreesIsNoConflict) {
  EXPECT_EQ(DiscoverWith(Both("1", "2"), {}).value().source, "vertex");
}

TEST(Discover, ASlurmStepThatDisagreesIsRefusedNamingBoth) {
  for (const auto& [rank, count] : {std::pair("0", "2"), std::pair("1", "3"), std::pair("2", "4")}) {
    const absl::Status status = DiscoverWith(Both(rank, count), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("vertex (CLUSTER_SPEC)"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("slurm (SLURM_STEP_NODELIST)"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("give --source vertex or --source slurm"));
  }
}

// A TF_CONFIG of two workers as the second one gets it.
Environment WithTfConfig(const std::string& first) {
  Environment environment = {{"AWS_BATCH_JOB_NUM_NODES", "2"},
                             {"AWS_BATCH_JOB_NODE_INDEX", "1"},
                             {"AWS_BATCH_JOB_MAIN_NODE_INDEX", "0"},
                             {"AWS_BATCH_JOB_ID", "j"},
                             {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "10.0.3.17"}};
  environment["TF_CONFIG"] =
      R"({"cluster":{"worker":[")" + first + R"(","x:2222"]},"task":{"type":"worker","index":1}})";
  return environment;
}

TEST(Discover, TwoPrimariesAreRefusedByName) {
  const absl::Status status = DiscoverWith(WithTfConfig("10.0.3.18:2222")).status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("says rank 1 of 2 with primary 10.0.3.18"),
                                                   HasSubstr("says rank 1 of 2 with primary 10.0.3.17")));
}

TEST(Discover, ANameAndAnAddressMayMeanOnePrimary) {
  for (const char* first : {"10.0.3.17:2222", "node-0:2222", "localhost:2222", "127.0.0.1:2222"}) {
    EXPECT_EQ(DiscoverWith(WithTfConfig(first)).value().source, "tf_config") << first;
  }
}

TEST(Discover, AShellInAOneNodeSlurmStepDoesNotForbidASpec) {
  EXPECT_EQ(DiscoverWith(Both("0", "1"), {}).value().node_rank, 1);
}

TEST(Discover, ABrokenSourceIsNamedWithARemedy) {
  Environment environment = Both("1", "2");
  environment["SLURM_STEP_NODELIST"] = "a[1-";
  const std::string message(AsStd(DiscoverWith(environment).status().message()));
  EXPECT_THAT(message, AllOf(HasSubstr("SLURM_STEP_NODELIST is a[1-"), HasSubstr("give --source vertex")));
  ExpectOneLine(message);
}

TEST(Discover, ASourceOfOneNodeDisagreesWithOneOfSeveral) {
  Environment environment = Both("1", "2");
  environment.insert({{"AWS_BATCH_JOB_NUM_NODES", "1"},
                      {"AWS_BATCH_JOB_NODE_INDEX", "0"},
                      {"AWS_BATCH_JOB_MAIN_NODE_INDEX", "0"}});
  EXPECT_THAT(std::string(DiscoverWith(environment).status().message()),
              AllOf(HasSubstr("vertex (CLUSTER_SPEC) says rank 1 of 2"),
                    HasSubstr("batch (AWS_BATCH_JOB_NUM_NODES) says rank 0 of 1")));
}

TEST(Discover, ANodeThatDoesNotTrainDisagreesWithOneThatDoes) {
  Environment environment = SlurmStep("1", "2");
  environment["CLUSTER_SPEC"] =
      R"({"cluster":{"workerpool0":["a:1"],"workerpool1":["b:1"],"workerpool2":["c:1"]},"task":{"type":"workerpool2","index":0}})";
  EXPECT_THAT(std::string(DiscoverWith(environment).status().message()),
              AllOf(HasSubstr("says no trainer of 2"), HasSubstr("says rank 1 of 2")));
}

TEST(Discover, ARequestedPlatformIsReadAlone) {
  EXPECT_EQ(DiscoverWith(Both("2", "4"), From("vertex")).value().node_rank, 1);
}

TEST(Discover, ARequestedPlatformMustBeThereAndKnown) {
  EXPECT_THAT(std::string(DiscoverWith({}, From("vertex")).status().message()),
              AllOf(HasSubstr("--source vertex: CLUSTER_SPEC"), HasSubstr("was not found on this node")));
  EXPECT_THAT(std::string(DiscoverWith({}, From("Vertex")).status().message()),
              HasSubstr("expected one of vertex"));
}

TEST(Discover, AStepIsRead) {
  const ClusterView view = DiscoverWith(SlurmStep("2", "4"), {}).value();
  EXPECT_EQ(view.source, "slurm");
  EXPECT_EQ(view.node_rank, 2);
  EXPECT_EQ(view.primary_host, "a");
  EXPECT_THAT(view.warnings, IsEmpty());
}

TEST(Discover, RequestedSlurmIsReadForOneNodeToo) {
  EXPECT_EQ(DiscoverWith(Both("0", "1"), From("slurm")).value().nnodes, 1);
  EXPECT_EQ(DiscoverWith(SlurmStep("0", "1")).value().source, "slurm-node");
}

TEST(Discover, ABatchScriptWithoutSrunNeedsAnotherSource) {
  Environment batch = {{"SLURM_JOB_ID", "9"}, {"SLURM_JOB_NUM_NODES", "4"}, {"SLURM_NODEID", "0"}};
  EXPECT_THAT(std::string(DiscoverWith(batch).status().message()), HasSubstr("write srun --nodes=4"));
  batch["CLUSTER_SPEC"] = kRank1Of2;
  EXPECT_EQ(DiscoverWith(batch).value().source, "vertex");
}

TEST(Discover, AllPoolsReachesTheReader) {
  const Environment environment = EnvironmentOf("cluster_spec_4pools_primary.json");
  DiscoverOptions options;
  options.vertex.all_pools = true;
  EXPECT_EQ(DiscoverWith(environment, options).value().nnodes, 8);
}

TEST(Discover, ABrokenSpecIsAnErrorAndNotTheNextPlatform) {
  EXPECT_FALSE(DiscoverWith({{"CLUSTER_SPEC", "{"}}, {}).ok());
}

// If options override the environment, a warning lists the sources that are present and were not read.
TEST(Discover, IgnoredSourcesAreNamed) {
  const FileReader no_files = ReaderOf({});
  EXPECT_THAT(SourcesHere({Both("1", "2"), no_files}, {}), ElementsAre("vertex", "slurm"));
  EXPECT_THAT(SourcesHere({{{"CLUSTER_SPEC", "{"}}, no_files}, {}), ElementsAre("vertex"));
  EXPECT_THAT(SourcesHere({{{"HOME", "/root"}}, no_files}, {}), IsEmpty());
}

// ---- The tables ----

size_t Row(std::string_view name) {
  for (size_t i = 0; i < Sources().size(); ++i) {
    if (Sources()[i].name == name) return i;
  }
  ADD_FAILURE() << name << " is no source";
  return 0;
}

TEST(Implications, NameKnownSourcesRicherOnesFirst) {
  for (const Source& richer : Sources()) {
    for (const std::string_view implied : richer.implies) {
      EXPECT_LT(Row(richer.name), Row(implied)) << richer.name << " implies " << implied;
    }
    EXPECT_TRUE(!richer.yields_to_all || Row(richer.name) > 0u) << richer.name;
  }
}

TEST(Sources, HaveDistinctNames) {
  for (size_t i = 0; i < Sources().size(); ++i) EXPECT_EQ(Row(Sources()[i].name), i);
}

}  // namespace
}  // namespace muster::discovery
