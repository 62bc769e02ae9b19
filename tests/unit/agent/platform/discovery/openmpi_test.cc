// Open MPI, MVAPICH and Hydra: the samples mpi_openmpi_* as tests/fixtures/expected.tsv reads them; then the
// details.
#include "agent/platform/discovery/openmpi.h"

#include "agent/platform/discovery/discover.h"
#include "base/core/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The variables that mpirun 4.1 sets for rank 1 of 3 with --map-by ppr:1:node.
Environment Rank1Of3() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "3"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
          {"OMPI_COMM_WORLD_NODE_RANK", "0"},  {"PMIX_NAMESPACE", "523370497"},
          {"MASTER_ADDR", "10.0.0.4"}};
}

Environment With(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

ClusterView ReadOk(const Environment& environment) {
  const absl::StatusOr<ClusterView> view = DiscoverWith(environment);
  EXPECT_TRUE(view.ok()) << view.status();
  return view.value_or(ClusterView());
}

std::string ErrorOf(const Environment& environment) {
  const absl::StatusOr<ClusterView> view = DiscoverWith(environment);
  return view.ok() ? "no error" : std::string(AsStd(view.status().message()));
}

TEST(OpenMpiFixtures, AreReadAsTheTableSays) {
  int seen = 0;
  for (const Fixture& fixture : FixturesOf("other")) {
    if (!fixture.file.starts_with("mpi_openmpi_")) continue;
    ++seen;
    const Environment environment = EnvironmentOf(fixture.file);
    if (fixture.outcome == "error") {
      EXPECT_THAT(ErrorOf(environment),
                  AllOf(HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK is 1: expected 0"),
                        HasSubstr("write mpirun --map-by ppr:1:node muster run --nproc-per-node 4 SCRIPT")));
      continue;
    }
    const ClusterView view = ReadOk(environment);
    EXPECT_EQ(view.source, "openmpi");
    EXPECT_EQ(view.node_rank, 1);
    EXPECT_EQ(view.nnodes, 2);
    EXPECT_EQ(view.primary_host, "10.0.0.4");
  }
  EXPECT_EQ(seen, 2);
}

TEST(OpenMpi, RunAndPortComeFromMpirunAndMasterPort) {
  EXPECT_EQ(ReadOk(Rank1Of3()).run_id, "openmpi-523370497");
  EXPECT_EQ(ReadOk(Rank1Of3()).primary_port, 29500);
  EXPECT_EQ(ReadOk(With(Rank1Of3(), "MASTER_PORT", "3333")).primary_port, 3333);
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "MASTER_PORT", "x")), HasSubstr("MASTER_PORT is x"));
}

TEST(OpenMpi, WithoutMasterAddrAnOptionNamesThePrimary) {
  EXPECT_EQ(ReadOk(With(Rank1Of3(), "MASTER_ADDR", "")).primary_host, "");
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "MASTER_ADDR", "a b")), HasSubstr("MASTER_ADDR is a b"));
}

TEST(OpenMpi, OneProcessIsAJobOfOneNode) {
  const ClusterView view = ReadOk({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(view.nnodes, 1);
  EXPECT_TRUE(view.loopback_only);
  EXPECT_NE(view.primary_host, "");
}

TEST(OpenMpi, SeveralProcessesOnANodeAreRefused) {
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "OMPI_COMM_WORLD_LOCAL_SIZE", "8")),
              AllOf(HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE is 8: expected 1"),
                    HasSubstr("muster run --nproc-per-node 8 SCRIPT")));
}

TEST(OpenMpi, ARankIsBelowTheSizeAndANumber) {
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "OMPI_COMM_WORLD_RANK", "3")), HasSubstr("OMPI_COMM_WORLD_RANK is 3"));
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "OMPI_COMM_WORLD_RANK", "-1")), HasSubstr("OMPI_COMM_WORLD_RANK is -1"));
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "OMPI_COMM_WORLD_SIZE", "")), HasSubstr("OMPI_COMM_WORLD_SIZE"));
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "OMPI_COMM_WORLD_SIZE", "99999999999")), HasSubstr("OMPI_COMM_WORLD_SIZE"));
}

TEST(OpenMpi, ASizeWithoutARankIsRefused) {
  EXPECT_THAT(ErrorOf(With(Rank1Of3(), "OMPI_COMM_WORLD_RANK", "")), HasSubstr("OMPI_COMM_WORLD_RANK is missing"));
}

void ExpectRank1Of3(const std::string& source, const Environment& environment) {
  const ClusterView view = ReadOk(environment);
  EXPECT_EQ(view.source, source);
  EXPECT_EQ(view.node_rank, 1);
  EXPECT_EQ(view.nnodes, 3);
  EXPECT_EQ(view.primary_host, "10.0.0.4");
  EXPECT_EQ(view.run_id, source + "-10.0.0.4");
  EXPECT_EQ(ReadOk(With(environment, "MASTER_ADDR", "")).primary_host, "") << "an option has to give it";
}

Environment HydraRank1Of3() {
  return {{"PMI_RANK", "1"},
          {"PMI_SIZE", "3"},
          {"MPI_LOCALRANKID", "0"},
          {"MPI_LOCALNRANKS", "1"},
          {"MASTER_ADDR", "10.0.0.4"}};
}

TEST(Mpich, IsReadByWhatHydraSets) { ExpectRank1Of3("mpich", HydraRank1Of3()); }

TEST(Mpich, SeveralProcessesOnANodeAreRefused) {
  EXPECT_THAT(ErrorOf(With(HydraRank1Of3(), "MPI_LOCALNRANKS", "8")),
              HasSubstr("write mpiexec -ppn 1 muster run --nproc-per-node 8 SCRIPT"));
  EXPECT_THAT(ErrorOf(With(HydraRank1Of3(), "MPI_LOCALRANKID", "1")),
              HasSubstr("MPI_LOCALRANKID is 1: expected 0"));
  EXPECT_THAT(ErrorOf(With(HydraRank1Of3(), "PMI_RANK", "3")), HasSubstr("PMI_RANK is 3"));
  EXPECT_THAT(ErrorOf(With(HydraRank1Of3(), "PMI_RANK", "")), HasSubstr("PMI_RANK is missing"));
}

TEST(Mpich, DefersToOpenMpiAndToASlurmStep) {
  Environment both = Rank1Of3();
  both.insert({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(ReadOk(both).source, "openmpi");
  const Environment step = {{"PMI_RANK", "5"},
                            {"PMI_SIZE", "8"},
                            {"SLURM_JOB_ID", "7"},
                            {"SLURM_STEP_NODELIST", "n[2-3]"},
                            {"SLURM_STEP_NUM_NODES", "2"},
                            {"SLURM_NODEID", "0"}};
  EXPECT_EQ(ReadOk(step).source, "slurm");
  EXPECT_EQ(ReadOk({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).source, "single");
}

TEST(Mpich, ARankAboveZeroNeedsASize) {
  EXPECT_THAT(ErrorOf({{"PMI_RANK", "1"}}), HasSubstr("PMI_SIZE is missing"));
  EXPECT_THAT(ErrorOf({{"PMI_RANK", "1"}, {"PMI_SIZE", ""}}), HasSubstr("PMI_SIZE is empty"));
  EXPECT_EQ(ReadOk({{"PMI_RANK", "0"}}).source, "single");
}

// As MVAPICH2's mpispawn sets them.
Environment MvapichRank1Of3() {
  return {{"MV2_COMM_WORLD_RANK", "1"},
          {"MV2_COMM_WORLD_SIZE", "3"},
          {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
          {"MV2_COMM_WORLD_LOCAL_SIZE", "1"},
          {"MASTER_ADDR", "10.0.0.4"}};
}

TEST(Mvapich, IsReadByItsOwnVariables) { ExpectRank1Of3("mvapich", MvapichRank1Of3()); }

TEST(Mvapich, SeveralProcessesOnANodeAreRefused) {
  EXPECT_THAT(ErrorOf(With(MvapichRank1Of3(), "MV2_COMM_WORLD_LOCAL_RANK", "1")),
              HasSubstr("MV2_COMM_WORLD_LOCAL_RANK is 1: expected 0"));
  EXPECT_THAT(ErrorOf(With(MvapichRank1Of3(), "MV2_COMM_WORLD_LOCAL_SIZE", "8")),
              HasSubstr("write mpiexec -ppn 1 muster run --nproc-per-node 8 SCRIPT"));
}

TEST(Mvapich, RankAndSizeAreNeededRankBelowSize) {
  EXPECT_THAT(ErrorOf(With(MvapichRank1Of3(), "MV2_COMM_WORLD_RANK", "3")), HasSubstr("MV2_COMM_WORLD_RANK is 3"));
  EXPECT_THAT(ErrorOf(With(MvapichRank1Of3(), "MV2_COMM_WORLD_RANK", "")), HasSubstr("RANK is missing"));
  EXPECT_THAT(ErrorOf({{"MV2_COMM_WORLD_RANK", "1"}}), HasSubstr("MV2_COMM_WORLD_SIZE is missing"));
  EXPECT_EQ(ReadOk({{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "1"}}).source, "single");
  EXPECT_EQ(ReadOk({{"MV2_COMM_WORLD_LOCAL_SIZE", "8"}}).source, "single") << "scripts set it for other libraries";
}

// MVAPICH's own variables take precedence over those that its Hydra sets for any MPI, but not over a Slurm step of
// several nodes.
TEST(Mvapich, RanksAboveHydraAndBelowALargerStep) {
  Environment hydra = MvapichRank1Of3();
  hydra.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "1"}});
  EXPECT_EQ(ReadOk(hydra).source, "mvapich");
  Environment step = MvapichRank1Of3();
  step.insert({{"SLURM_JOB_ID", "7"},
               {"SLURM_STEP_NODELIST", "n[2-3]"},
               {"SLURM_STEP_NUM_NODES", "2"},
               {"SLURM_NODEID", "0"}});
  EXPECT_EQ(ReadOk(step).source, "slurm");
  step["SLURM_STEP_NODELIST"] = "n2";
  step["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(ReadOk(step).source, "mvapich") << "a shell, from which mpirun_rsh went to other nodes by ssh";
}

// In a Slurm batch script mpirun starts its daemons with a step on all nodes except its own.
TEST(OpenMpi, TheStepOfItsDaemonsIsIgnored) {
  Environment environment = Rank1Of3();
  environment.insert({{"SLURM_JOB_ID", "7"},
                      {"SLURM_STEP_NODELIST", "n[2-3]"},
                      {"SLURM_STEP_NUM_NODES", "2"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_NODEID", "0"}});
  EXPECT_EQ(ReadOk(environment).source, "openmpi");
  Environment first = With(Rank1Of3(), "OMPI_COMM_WORLD_RANK", "0");
  first.insert({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}});
  EXPECT_EQ(ReadOk(first).nnodes, 3);
}

// sbatch inside an mpirun of one process passes mpirun's variables to the new job.
TEST(OpenMpi, OneProcessDoesNotHideAStepOfSeveralNodes) {
  Environment step = {{"OMPI_COMM_WORLD_RANK", "0"},     {"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_JOB_ID", "7"},
                      {"SLURM_STEP_NODELIST", "n[2-3]"}, {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_NODEID", "1"}};
  EXPECT_EQ(ReadOk(step).source, "slurm");
  EXPECT_EQ(ReadOk(step).node_rank, 1);
  step["SLURM_STEP_NODELIST"] = "n3";
  step["SLURM_STEP_NUM_NODES"] = "1";
  step["SLURM_NODEID"] = "0";
  EXPECT_EQ(ReadOk(step).source, "openmpi");
}

}  // namespace
}  // namespace muster::discovery
