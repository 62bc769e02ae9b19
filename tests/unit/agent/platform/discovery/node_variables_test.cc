// Platforms with one variable each for rank, number of nodes and address: each sample of the family "nodes" is
// read as tests/fixtures/expected.tsv says (those of PBS with its file), and then the details that the table does
// not hold.
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/discover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::map<std::string, std::string> kFiles = {{"/shared/hosts", "n1\nn1\nn2\nn2\n"}};

absl::StatusOr<ClusterView> Read(const Environment& environment, bool as_torchrun = false) {
  DiscoverOptions options;
  options.as_torchrun = as_torchrun;
  return DiscoverWith(environment, options, kFiles);
}

// The place, or the error.
std::string Place(const absl::StatusOr<ClusterView>& view) {
  if (view.ok()) {
    return absl::StrCat(view->source, " ", view->node_rank, "/", view->nnodes, " ", view->primary_host, ":",
                        view->primary_port);
  }
  EXPECT_EQ(view.status().code(), absl::StatusCode::kInvalidArgument);
  std::string message(view.status().message().data(), view.status().message().size());
  ExpectOneLine(message);
  return message;
}

Environment With(const std::string& file, const std::string& name, const std::string& value) {
  Environment environment = EnvironmentOf(file);
  environment[name] = value;
  return environment;
}

class NodesFixture : public ::testing::TestWithParam<Fixture> {};

TEST_P(NodesFixture, IsReadAsTheTableSays) {
  static const std::map<std::string, std::string> expected = {
      {"skypilot_2nodes.env", "skypilot 1/2 10.0.0.1:29400"},
      {"dstack_2nodes.env", "dstack 1/2 10.0.0.1:29400"},
      {"lws_worker.env", "lws 1/2 llm-0.llm.default:29400"},
      {"runpod_3nodes.env", "runpod 2/3 10.65.0.2:29400"},
      {"volcengine_2nodes.env", "volcengine 1/2 10.0.0.1:2222"},
      {"pai_dlc_worker.env", "static 2/3 dlc18isgeayd0000-master-0:23456"},
      {"pbs_pbsdsh.env", "pbs 1/2 n1:29400"},
      {"pbs_batch_script.env", "PBS_TASKNUM is 1: expected one muster on each of the 2 hosts"},
      {"pbs_pals.env", "pbs 1/2 n1:29400"},
      {"broken_skypilot_count.env", "expected the addresses of all nodes, 2 as SKYPILOT_NUM_NODES says"},
      {"broken_dstack_no_address.env", "DSTACK_MASTER_NODE_IP is missing: expected the address of node 0"},
      {"broken_lws_no_size.env", "LWS_GROUP_SIZE is missing"},
      {"broken_volcengine_rank.env", "MLP_ROLE_INDEX is 2: expected a whole number from 0 to 1"},
  };
  const Fixture& fixture = GetParam();
  const absl::StatusOr<ClusterView> view = Read(EnvironmentOf(fixture.file));
  EXPECT_EQ(view.ok(), fixture.outcome == "ok");
  EXPECT_THAT(Place(view), HasSubstr(expected.at(fixture.file)));
  if (const auto place = fixture.StatedPlace(); place && view.ok()) {
    EXPECT_EQ(view->node_rank, place->rank);
    EXPECT_EQ(view->nnodes, place->count);
  }
}

INSTANTIATE_TEST_SUITE_P(ExpectedTsv, NodesFixture, ::testing::ValuesIn(FixturesOf("nodes")));

// Most jobs have one node; nothing changes for them.
TEST(NodeVariables, OneNodeNeedsNoPlatform) {
  EXPECT_EQ(Place(Read({{"DSTACK_NODE_RANK", "0"}, {"DSTACK_NODES_NUM", "1"}})), "single 0/1 :0");
  EXPECT_EQ(Place(Read({{"LWS_GROUP_SIZE", "1"}, {"LWS_LEADER_ADDRESS", "a"}})), "single 0/1 :0");
}

TEST(NodeVariables, MissingOnesAreNamed) {
  EXPECT_THAT(Place(Read({{"SKYPILOT_NODE_RANK", "0"}})), HasSubstr("SKYPILOT_NUM_NODES is missing"));
  EXPECT_THAT(Place(Read({{"SKYPILOT_NUM_NODES", "2"}})), HasSubstr("SKYPILOT_NODE_RANK is missing"));
  EXPECT_THAT(Place(Read({{"SKYPILOT_NODE_RANK", "0"}, {"SKYPILOT_NUM_NODES", "2"}})),
              HasSubstr("SKYPILOT_NODE_IPS is missing"));
  EXPECT_THAT(Place(Read({{"PRIMARY_ADDR", "a"}, {"NODE_RANK", "0"}})), HasSubstr("NUM_NODES is missing"));
}

TEST(NodeVariables, AddressesAreDistinctAndReachable) {
  EXPECT_THAT(Place(Read(With("skypilot_2nodes.env", "SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.1"))),
              HasSubstr("SKYPILOT_NODE_IPS is 10.0.0.1: expected each address once"));
  EXPECT_THAT(Place(Read(With("dstack_2nodes.env", "DSTACK_MASTER_NODE_IP", "0.0.0.0"))),
              HasSubstr("the address by which the other nodes reach node 0"));
}

TEST(NodeVariables, NodesAndRunAreNamed) {
  const absl::StatusOr<ClusterView> view = Read(EnvironmentOf("skypilot_2nodes.env"));
  ASSERT_TRUE(view.ok());
  EXPECT_THAT(view->nodes, ElementsAre("10.0.0.1:29400", "10.0.0.2:29400"));
  EXPECT_EQ(view->run_id, "skypilot-sky-2026-01-05-10-30-00-000000_train_1");
  EXPECT_EQ(Read(EnvironmentOf("lws_worker.env"))->run_id, "lws-llm-0.llm.default");
}

// The platform starts one command on each node: without an own number of nodes each would write the same
// checkpoint. A person starts RunPod's; MASTER_ADDR and RANK do not count under this name.
TEST(NodeVariables, UnderTorchrunWhatThePlatformStartsCounts) {
  for (const char* file : {"skypilot_2nodes.env", "dstack_2nodes.env", "lws_worker.env", "volcengine_2nodes.env",
                           "pbs_pbsdsh.env", "pbs_pals.env"}) {
    EXPECT_EQ(Read(EnvironmentOf(file), true)->node_rank, 1) << file;
  }
  for (const char* file : {"runpod_3nodes.env", "pai_dlc_worker.env"}) {
    EXPECT_EQ(Place(Read(EnvironmentOf(file), true)), "single 0/1 :0") << file;
  }
}

// Slurm counts the same nodes in its own order, and a worker's host name looks like that of another StatefulSet's
// pod.
TEST(NodeVariables, WhatTheyRunOnDoesNotContradict) {
  Environment on_slurm = EnvironmentOf("skypilot_2nodes.env");
  on_slurm.merge(EnvironmentOf("slurm_srun_2nodes.env"));
  on_slurm["SLURM_NODEID"] = "0";
  EXPECT_EQ(Place(Read(on_slurm)), "skypilot 1/2 10.0.0.1:29400");
  Environment counted = With("lws_worker.env", "MUSTER_NNODES", "2");
  counted["MUSTER_SUBDOMAIN"] = "llm";
  EXPECT_EQ(Place(Read(counted)), "lws 1/2 llm-0.llm.default:29400");
}

}  // namespace
}  // namespace muster::discovery
