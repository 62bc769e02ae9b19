// Which nodes are in a job that is started by the name torchrun: what counts beside torchrun's own options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_table.h"
#include "cli/plan/make_plan.h"
#include "tests/unit/cli/plan/plan_fixture.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kConfigFile[] = "/opt/ml/input/config/resourceconfig.json";
constexpr char kTwoHosts[] = R"({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})";

// A machine with the file of SageMaker, or without.
absl::StatusOr<RunPlan> TryTorchrun(const Words& words, const Environment& environment, bool sagemaker = false) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words, kTorchrun);
  if (!line.ok()) return line.status();
  const discovery::FileReader files = [sagemaker](const std::string& path, size_t) -> absl::StatusOr<std::string> {
    if (sagemaker && path == kConfigFile) return kTwoHosts;
    return absl::NotFoundError(path);
  };
  Machine machine = MachineWith(8);
  machine.discover = [&](const Environment& variables, const discovery::DiscoverOptions& options) {
    return discovery::Discover({variables, files}, options);
  };
  machine.sources_here = [&](const Environment& variables, const discovery::DiscoverOptions& options) {
    return discovery::SourcesHere({variables, files}, options);
  };
  return Plan(*line, environment, machine);
}

std::string OneOf(const absl::StatusOr<RunPlan>& plan) {
  if (!plan.ok()) return absl::StrCat(ExitCodeOf(plan.status()), " ", plan.status().message());
  if (plan->host.config.single_node()) return "alone";
  const std::string rank = plan->host.config.has_place() ? absl::StrCat(plan->host.config.place()) : "-";
  return absl::StrCat(plan->view.source, " ", rank, " of ", plan->host.config.max_nodes());
}

std::string Job(const Words& words, const Environment& environment) {
  return OneOf(TryTorchrun(words, environment));
}

// A pod of a PyTorchJob as its operator sets it up: RANK counts pods.
const Environment kPytorchJob = {
    {"MASTER_ADDR", "j-master-0"}, {"MASTER_PORT", "23456"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}};
const Environment kStep = {{"SLURM_JOB_ID", "5"},         {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "a,b"},
                           {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_NODEID", "1"},  {"SLURM_LOCALID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "2"}};
const Environment kBatchScript = {
    {"SLURM_JOB_ID", "5"},         {"SLURM_NODEID", "0"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_NNODES", "2"},
    {"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
const Environment kMpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                          {"OMPI_COMM_WORLD_SIZE", "8"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}};
const Environment kIndexedPod = {{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "j-1"}, {"MUSTER_SUBDOMAIN", "s"}};

Environment Both(Environment first, const Environment& second) {
  first.insert(second.begin(), second.end());
  return first;
}

TEST(TorchrunMembership, IsOneNodeWithoutNnodes) {
  const Environment foreign[] = {
      kPytorchJob,
      kBatchScript,
      kMpi,
      Both(kStep, kMpi),  // the step's variables describe mpirun's daemons
      {{"MASTER_ADDR", "node-0"}, {"NODE_RANK", "1"}, {"NNODES", "2"}},
      {{"MASTER_ADDR", "node-0"}, {"NODE_RANK", "0"}},
      {{"MASTER_ADDR", "node-0"}, {"RANK", "0"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "0"}},
      {{"MASTER_ADDR", "node-0"},
       {"RANK", "1"},
       {"WORLD_SIZE", "8"},
       {"LOCAL_RANK", "1"},
       {"TORCHELASTIC_RUN_ID", "outer"}},
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}},
      {{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "4"}},
      {{"AZ_BATCH_MASTER_NODE", "10.0.0.4:6000"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
      {{"AWS_BATCH_JOB_NUM_NODES", "2"}, {"AWS_BATCH_JOB_NODE_INDEX", "0"}},
      {{"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}},
  };
  for (const Environment& environment : foreign) {
    const absl::StatusOr<RunPlan> plan = TryTorchrun({"t.py"}, environment);
    EXPECT_EQ(OneOf(plan), "alone") << environment.begin()->first;
    if (!plan.ok()) continue;
    EXPECT_EQ(plan->host.config.slots(), 1) << environment.begin()->first;
    EXPECT_THAT(plan->shown.notes,
                Contains(StartsWith("without --nnodes torchrun runs a job of one node; ignored: ")))
        << environment.begin()->first;
    EXPECT_EQ(Job({"t.py"}, Both(environment, {{"PET_NNODES", "1"}})), "alone") << environment.begin()->first;
  }
}

TEST(TorchrunMembership, OneNodeOfSeveralIsWarnedOf) {
  const auto warnings = [](const Words& words, const Environment& environment) {
    const absl::StatusOr<RunPlan> plan = TryTorchrun(words, environment);
    EXPECT_EQ(OneOf(plan), "alone");
    return plan.ok() ? plan->shown.warnings : std::vector<std::string>();
  };
  EXPECT_THAT(
      warnings({"t.py"}, kBatchScript),
      ElementsAre(AllOf(StartsWith("without --nnodes torchrun trains on this node alone; SLURM_STEP_NODELIST "
                                   "is missing: expected srun"),
                        HasSubstr("SLURM_JOB_NUM_NODES is 2"), EndsWith("give --standalone"))));
  const Environment tf_config = {
      {"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}};
  EXPECT_THAT(
      warnings({"t.py"}, tf_config),
      ElementsAre("without --nnodes torchrun trains on this node alone, but the platform (tf_config) has 2 "
                  "nodes; if one node is meant, give --standalone"));
  EXPECT_THAT(warnings({"--standalone", "t.py"}, kBatchScript), IsEmpty());
  EXPECT_THAT(warnings({"--nnodes=1", "t.py"}, kBatchScript), IsEmpty());
  EXPECT_THAT(warnings({"t.py"}, kMpi), IsEmpty()) << "all of its ranks are on this node";
  Environment one_node = kBatchScript;
  for (const char* variable : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) one_node[variable] = "1";
  one_node["SLURM_JOB_NODELIST"] = "a";
  EXPECT_THAT(warnings({"t.py"}, one_node), IsEmpty());
}

TEST(TorchrunMembership, CountsWhereNJobsWouldWriteOneCheckpoint) {
  EXPECT_EQ(Job({}, {{"CLUSTER_SPEC", kThreeNodes}}), "vertex 2 of 3");
  EXPECT_EQ(OneOf(TryTorchrun({}, {}, true)), "sagemaker 1 of 2");
  EXPECT_EQ(Job({}, kStep), "slurm 1 of 2");
  EXPECT_THAT(Job({}, kIndexedPod), StartsWith("65 MUSTER_NNODES is missing"));
  EXPECT_EQ(Job({}, Both(kIndexedPod, {{"MUSTER_NNODES", "2"}})), "indexed-job 1 of 2");
  EXPECT_EQ(Job({}, {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "a"}}), "trainer 1 of 2");
  EXPECT_EQ(Job({}, Both(kPytorchJob, {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "a"}})),
            "pytorchjob 1 of 2");
  EXPECT_THAT(Job({}, {{"CLUSTER_SPEC", kThreeNodes}, {"PET_NNODES", "1"}}), StartsWith("65 PET_NNODES 1: "));
}

TEST(TorchrunMembership, AnOwnOptionOfMusterNamesASource) {
  const Environment environment = Both(kPytorchJob, {{"NPROC_PER_NODE", "4"}});
  const absl::StatusOr<RunPlan> plan = TryTorchrun({"--source", "static"}, environment);
  EXPECT_EQ(OneOf(plan), "static 1 of 2");
  EXPECT_EQ(plan->host.config.slots(), 4);
}

TEST(TorchrunMembership, OneWorkerIsTheDefaultOnPlatforms) {
  EXPECT_EQ(TryTorchrun({}, {{"CLUSTER_SPEC", kThreeNodes}})->host.config.slots(), 1);
  EXPECT_EQ(TryTorchrun({"--nproc-per-node=gpu"}, {{"CLUSTER_SPEC", kThreeNodes}})->host.config.slots(), 8);
}

TEST(TorchrunMembership, VariablesOfOthersNameNoPrimary) {
  const Environment static_ones = {{"MASTER_ADDR", "far"}, {"NODE_RANK", "0"}, {"NNODES", "2"}};
  const absl::StatusOr<RunPlan> plan = TryTorchrun({"--nnodes=2", "--node-rank=1"}, static_ones);
  EXPECT_EQ(OneOf(plan), "flags 1 of 2");
  EXPECT_EQ(plan->host.config.primary().host(), "127.0.0.1") << "torchrun's default of --master-addr";
  EXPECT_THAT(Job({"--nnodes=2", "--rdzv-backend=c10d"}, static_ones), StartsWith("64 --nnodes 2: needs --rdzv"));
}

TEST(TorchrunMembership, AnOnlyNodeIgnoresItsRank) {
  for (const Words& words :
       {Words{"--standalone"}, Words{"--nnodes=1"}, Words{"--nnodes=1:1"}, Words{},
        Words{"--nnodes=1", "--master-addr=a", "--master-port=29500"}, Words{"--standalone", "--nnodes=1:2"}}) {
    for (const char* rank : {"0", "1", "7"}) {
      Words with_rank = words;
      with_rank.push_back(absl::StrCat("--node-rank=", rank));
      const absl::StatusOr<RunPlan> plan = TryTorchrun(with_rank, {});
      EXPECT_EQ(OneOf(plan), "alone") << testing::PrintToString(with_rank);
      if (!plan.ok()) continue;
      std::vector<std::string> told = plan->shown.notes;
      told.insert(told.end(), plan->shown.warnings.begin(), plan->shown.warnings.end());
      const std::string line = absl::StrCat("--node-rank ", rank, ": has no effect in a job of one node");
      if (std::string_view(rank) == "0") {
        EXPECT_THAT(told, IsEmpty());
      } else {
        EXPECT_THAT(told, Contains(StartsWith(line)));
      }
    }
  }
  EXPECT_EQ(Job({"--nnodes=1"}, {{"PET_NODE_RANK", "3"}}), "alone");
  EXPECT_THAT(Job({"--nnodes=2", "--master-addr=a", "--node-rank=2"}, {}),
              StartsWith("64 --node-rank 2: must be"));
  EXPECT_EQ(ExitCodeOf(TryPlan({"--nnodes=1", "--node-rank=1"}).status()), 64) << "muster run";
}

TEST(TorchrunMembership, Port0IsAnyFreePortOfOneNode) {
  for (const Words& words :
       {Words{"--master-port=0"}, Words{"--nnodes=1", "--master-port=0"},
        Words{"--master-addr=here", "--master-port=0"}, Words{"--rdzv-backend=c10d", "--rdzv-endpoint=here:0"},
        Words{"--rdzv-backend=c10d", "--rdzv-endpoint=[::2]:0", "--master-port=0"},
        Words{"--rdzv-backend=c10d", "--rdzv-endpoint=here:0", "--nnodes=1:4"}}) {
    EXPECT_EQ(Job(words, {}), "alone") << testing::PrintToString(words);
  }
  constexpr char kWhy[] = "port 0 is any free port, which no other node knows; give a port, the same on all nodes";
  EXPECT_EQ(Job({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=here:0"}, {}),
            absl::StrCat("64 --nnodes 2: cannot be used with --rdzv-endpoint here:0: ", kWhy));
  EXPECT_EQ(Job({"--nnodes=2", "--node-rank=0", "--master-addr=here", "--master-port=0"}, {}),
            absl::StrCat("64 --master-port 0: ", kWhy));
  EXPECT_EQ(Job({}, {{"CLUSTER_SPEC", kThreeNodes}, {"PET_MASTER_PORT", "0"}}),
            absl::StrCat("65 PET_MASTER_PORT 0: ", kWhy));
}

TEST(TorchrunMembership, AStaticRangeIsItsGreatestNumber) {
  const auto nodes = [](const Words& words) {
    const absl::StatusOr<RunPlan> plan = TryTorchrun(words, {});
    return plan.ok() ? std::pair(plan->host.config.min_nodes(), plan->host.config.max_nodes()) : std::pair(0, 0);
  };
  EXPECT_EQ(nodes({"--nnodes=1:3", "--node-rank=0", "--master-addr=a"}), std::pair(3, 3));
  EXPECT_EQ(nodes({"--nnodes=1:3", "--rdzv-backend=static", "--rdzv-endpoint=a:1"}), std::pair(3, 3));
  EXPECT_EQ(nodes({"--nnodes=1:3", "--rdzv-backend=c10d", "--rdzv-endpoint=a:1"}), std::pair(1, 3));
  EXPECT_EQ(nodes({"--nnodes=1:3", "--coordinator=a:1"}), std::pair(1, 3)) << "no option of torchrun";
  const RunPlan plan = *TryTorchrun({"--nnodes=1:3", "--rdzv-endpoint=a:1"}, {});
  EXPECT_THAT(plan.shown.notes, Contains(HasSubstr("--nnodes 1:3: the job needs all 3 nodes, as under torchrun")));
  EXPECT_EQ(Planned({"--nnodes=1:3", "--rdzv-endpoint=a:1"}).host.config.min_nodes(), 1) << "muster run";
}

}  // namespace
}  // namespace muster::cli
