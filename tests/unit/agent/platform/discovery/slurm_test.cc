// Slurm: every .env sample of the family "slurm" is read as tests/fixtures/expected.tsv says; then the details.
#include "agent/platform/discovery/slurm.h"

#include <map>
#include <regex>

#include "absl/strings/str_cat.h"
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

const FileReader& NoFiles() {
  static const FileReader reader = [](const std::string&, size_t) { return absl::NotFoundError("no file"); };
  return reader;
}

// Calls the readers in the table's order: for several nodes, then for one. At most one of them answers.
Reading Read(const Environment& environment) {
  const Reading several = ReadSlurm({environment, NoFiles()});
  const Reading one = ReadSlurmNode({environment, NoFiles()});
  const bool both = several.ok() && one.ok() && several->has_value() && one->has_value();
  EXPECT_FALSE(both);
  return !several.ok() || several->has_value() ? several : one;
}

ClusterView ReadOk(const Environment& environment) {
  const Reading reading = Read(environment);
  EXPECT_TRUE(reading.ok()) << reading.status();
  if (!reading.ok() || !reading->has_value()) return {};
  return **reading;
}

std::string ErrorOf(const Environment& environment) {
  const Reading reading = Read(environment);
  if (reading.ok()) return "no error";
  EXPECT_EQ(reading.status().code(), absl::StatusCode::kInvalidArgument);
  std::string message(AsStd(reading.status().message()));
  ExpectOneLine(message);
  return message;
}

// The variables that srun 22.05 sets for task `rank` of a step with one task on each of n1, n2, n3.
Environment StepOf3(int rank) {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "n[1-3]"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
          {"SLURM_NODEID", std::to_string(rank)},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_LOCALID", "0"},
          {"SLURMD_NODENAME", "n" + std::to_string(rank + 1)},
          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}};
}

Environment With(Environment environment, const std::map<std::string, std::string>& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

// ---- Driven from expected.tsv ----

// Expected view or required text of the error, by file; the table's row describes it.
struct Right {
  std::string primary;
  std::string run_id;
  std::string nproc;
  std::string error;
};

const std::map<std::string, Right>& RightReadings() {
  static const std::map<std::string, Right> readings = {
      {"slurm_srun_2nodes.env", {"gpu-08", "4711", "8", ""}},
      {"slurm_step_subset.env", {"gpu-10", "4711.3", "", ""}},
      {"slurm_het_job.env", {"gpu1", "100", "", ""}},
      {"broken_slurm_nodename_differs.env", {"n1", "1", "", ""}},
      {"slurm_batch_script_no_srun.env",
       {"", "", "", "write srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 muster run SCRIPT"}},
      {"slurm_many_tasks_per_node.env", {"", "", "", "SLURM_LOCALID is 1: expected 0: muster is started once"}},
      {"broken_slurm_count_mismatch.env", {"", "", "", "SLURM_STEP_NUM_NODES is 2: expected 3"}},
      {"broken_slurm_no_nodelist.env", {"", "", "", "SLURM_STEP_NODELIST is missing"}},
  };
  return readings;
}

// Places that the table does not state in the form that StatedPlace() reads.
Fixture::Place PlaceOf(const Fixture& fixture) {
  if (fixture.file == "broken_slurm_nodename_differs.env") return {0, 2};
  const std::optional<Fixture::Place> stated = fixture.StatedPlace();
  EXPECT_TRUE(stated.has_value()) << "expected.tsv states no place: " << fixture.reading;
  return stated.value_or(Fixture::Place{-1, -1});
}

class SlurmFixture : public ::testing::TestWithParam<Fixture> {};

TEST_P(SlurmFixture, IsReadAsTheTableSays) {
  const Fixture& fixture = GetParam();
  const auto right = RightReadings().find(fixture.file);
  ASSERT_NE(right, RightReadings().end()) << "this row needs an entry in RightReadings()";
  const Environment environment = EnvironmentOf(fixture.file);
  if (fixture.outcome == "error") {
    EXPECT_THAT(ErrorOf(environment), HasSubstr(right->second.error));
    return;
  }
  const ClusterView view = ReadOk(environment);
  const Fixture::Place place = PlaceOf(fixture);
  EXPECT_EQ(view.node_rank, place.rank);
  EXPECT_EQ(view.nnodes, place.count);
  EXPECT_EQ(view.primary_host, right->second.primary);
  EXPECT_EQ(view.run_id, right->second.run_id);
  EXPECT_EQ(view.nproc, right->second.nproc);
  EXPECT_EQ(view.warnings.empty(), fixture.outcome != "warn");
}

std::vector<Fixture> Environments() {
  std::vector<Fixture> fixtures = FixturesOf("slurm");
  std::erase_if(fixtures, [](const Fixture& f) { return f.outcome == "table"; });  // nodelist_test reads these
  return fixtures;
}

INSTANTIATE_TEST_SUITE_P(All, SlurmFixture, ::testing::ValuesIn(Environments()), [](const auto& info) {
  return std::regex_replace(info.param.file, std::regex("[^A-Za-z0-9]"), "_");
});

TEST(SlurmFixtures, AreAllThere) { EXPECT_EQ(Environments().size(), RightReadings().size()); }

// ---- The step ----

TEST(SlurmStep, NodesDifferInTheirPlaceOnly) {
  const ClusterView first = ReadOk(StepOf3(0));
  const ClusterView last = ReadOk(StepOf3(2));
  EXPECT_EQ(first.node_rank, 0);
  EXPECT_EQ(last.node_rank, 2);
  EXPECT_EQ(last.self, "n3");
  EXPECT_EQ(first.primary_host, "n1");
  EXPECT_EQ(last.primary_host, "n1");
  EXPECT_EQ(first.primary_port, last.primary_port);
  EXPECT_EQ(first.run_id, last.run_id);
  EXPECT_THAT(last.nodes, ElementsAre("n1:24711", "n2:24711", "n3:24711"));
  EXPECT_FALSE(first.loopback_only);
}

TEST(SlurmStep, ItsVariablesComeBeforeThoseOfTheJob) {
  const ClusterView view = ReadOk(With(StepOf3(1), {{"SLURM_JOB_NODELIST", "m[1-9]"},
                                                    {"SLURM_NODELIST", "m[1-9]"},
                                                    {"SLURM_JOB_NUM_NODES", "9"},
                                                    {"SLURM_NNODES", "9"},
                                                    {"SLURM_NTASKS", "72"}}));
  EXPECT_EQ(view.nnodes, 3);
  EXPECT_EQ(view.primary_host, "n1");
}

TEST(SlurmStep, TasksAreCountedByTheOldVariableToo) {
  Environment environment = With(StepOf3(1), {{"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "24"}});
  environment.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_THAT(ErrorOf(environment), HasSubstr("SLURM_NTASKS is 24: expected 3, one on each node"));
  EXPECT_EQ(ReadOk(With(environment, {{"SLURM_NTASKS", "3"}})).node_rank, 1);
}

TEST(SlurmStep, IsNotThereWithoutSlurm) {
  EXPECT_EQ(Read({})->has_value(), false);
  EXPECT_EQ(Read({{"SLURM_CONF", "/etc/slurm/slurm.conf"}, {"SLURM_NODEID", "3"}})->has_value(), false);
  EXPECT_EQ(Read({{"SLURM_STEP_NODELIST", ""}})->has_value(), false) << "an empty variable is one not set";
}

TEST(SlurmStep, ARequeuedJobAndAnotherStepAreOtherRuns) {
  EXPECT_EQ(ReadOk(With(StepOf3(0), {{"SLURM_RESTART_COUNT", "0"}})).run_id, "4711");
  EXPECT_EQ(ReadOk(With(StepOf3(0), {{"SLURM_RESTART_COUNT", "2"}})).run_id, "4711-requeue-2");
  EXPECT_EQ(ReadOk(With(StepOf3(0), {{"SLURM_STEP_ID", "7"}, {"SLURM_RESTART_COUNT", "1"}})).run_id,
            "4711.7-requeue-1");
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_RESTART_COUNT", "once"}})),
              HasSubstr("SLURM_RESTART_COUNT is once"));
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_JOB_ID", ""}})), HasSubstr("SLURM_JOB_ID is missing"));
}

TEST(SlurmStep, RunsThatShareANodeHaveDifferentPorts) {
  const auto port = [](const char* job, const char* step) {
    return ReadOk(With(StepOf3(0), {{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}})).primary_port;
  };
  EXPECT_NE(port("4711", "0"), port("4712", "0"));
  EXPECT_NE(port("4711", "0"), port("4711", "1"));
  for (const char* step : {"0", "1", "4294967290", "4294967295"}) {
    EXPECT_GE(port("4294967295", step), kFirstSlurmPort);
    EXPECT_LT(port("4294967295", step), kFirstSlurmPort + kSlurmPorts);
  }
}

TEST(SlurmStep, SeveralTasksOnANodeAreRefused) {
  const std::map<std::string, std::string> many = {{"SLURM_STEP_NUM_TASKS", "24"},
                                                   {"SLURM_STEP_TASKS_PER_NODE", "8(x3)"}};
  const std::string line =
      "write srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --kill-on-bad-exit=0 muster run --nproc-per-node 8 "
      "SCRIPT";
  EXPECT_THAT(ErrorOf(With(StepOf3(1), many)),
              AllOf(HasSubstr("SLURM_STEP_NUM_TASKS is 24: expected 3, one on each node"), HasSubstr(line)));
  Environment second = With(StepOf3(1), many);
  second["SLURM_LOCALID"] = "1";
  EXPECT_THAT(ErrorOf(second), AllOf(HasSubstr("SLURM_LOCALID is 1: expected 0"), HasSubstr(line)));
  EXPECT_THAT(ErrorOf(With(StepOf3(1), {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "junk"}})),
              HasSubstr("SLURM_STEP_NUM_TASKS is 4"));
}

TEST(SlurmStep, TheNodeMustBeInTheStep) {
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_NODEID", "3"}})),
              HasSubstr("SLURM_NODEID is 3: expected a whole number from 0 to 2"));
  for (const char* id : {"-1", "x", "1.0", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_NODEID", id}})), HasSubstr("SLURM_NODEID is"));
  }
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_NODEID", ""}})), HasSubstr("SLURM_NODEID is missing"));
}

// sbatch inside a step passes that step's variables to the new job's script.
TEST(SlurmStep, VariablesOfAnotherStepAreRefused) {
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURMD_NODENAME", "m7"}})),
              AllOf(HasSubstr("SLURMD_NODENAME is m7: expected one of SLURM_STEP_NODELIST"),
                    HasSubstr("write srun --nodes=3")));
}

TEST(SlurmStep, ACountWithoutAListIsRefused) {
  EXPECT_THAT(ErrorOf({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_NODEID", "1"}}),
              HasSubstr("SLURM_STEP_NODELIST is missing"));
}

TEST(SlurmStep, NumbersHaveOneSpelling) {
  for (const char* variable : {"SLURM_NODEID", "SLURM_STEP_NUM_NODES", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"}) {
    for (const char* text : {"+1", "01", "1.0", "-1", "0x1", "1e0", "99999999999999999999", "one"}) {
      EXPECT_THAT(ErrorOf(With(StepOf3(1), {{variable, text}})), HasSubstr(absl::StrCat(variable, " is ", text)));
    }
  }
  EXPECT_EQ(ReadOk(With(StepOf3(1), {{"SLURM_NODEID", " 1 "}})).node_rank, 1) << "surrounding blanks do not count";
}

TEST(SlurmStep, ABrokenListIsNamed) {
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_STEP_NODELIST", "n[1-3"}})),
              HasSubstr("SLURM_STEP_NODELIST is n[1-3: expected a ']'"));
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_STEP_NODELIST", "(null)"}})), HasSubstr("is (null)"));
  EXPECT_THAT(ErrorOf(With(StepOf3(0), {{"SLURM_STEP_NUM_NODES", "3\n"}, {"SLURM_STEP_NODELIST", "a\nb"}})),
              HasSubstr("SLURM_STEP_NUM_NODES is 3: expected 2"));
}

TEST(SlurmStep, AGpuListBeatsSlurmsGpuCount) {
  const auto nproc = [](const std::map<std::string, std::string>& gpus) {
    return ReadOk(With(StepOf3(0), gpus)).nproc;
  };
  EXPECT_EQ(nproc({{"SLURM_GPUS_ON_NODE", "4"}}), "4");
  EXPECT_EQ(nproc({{"SLURM_GPUS_ON_NODE", "8"}, {"CUDA_VISIBLE_DEVICES", "0,1,2,3"}}), "") << "--gpu-bind";
  EXPECT_EQ(nproc({{"SLURM_GPUS_ON_NODE", "0"}}), "");
  EXPECT_EQ(nproc({{"SLURM_GPUS_ON_NODE", "gpu:4"}}), "");
  EXPECT_EQ(nproc({}), "");
}

TEST(SlurmStep, OneNodeIsLeftToTheLastReader) {
  const Environment one = With(
      StepOf3(0), {{"SLURM_STEP_NODELIST", "n1"}, {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_FALSE(ReadSlurm({one, NoFiles()})->has_value());
  const ClusterView view = ReadOk(one);
  EXPECT_EQ(view.nnodes, 1);
  EXPECT_EQ(view.run_id, "4711");
  EXPECT_THAT(view.warnings, IsEmpty());
  EXPECT_THAT(ErrorOf(With(one, {{"SLURM_STEP_NUM_TASKS", "8"}})), HasSubstr("SLURM_STEP_NUM_TASKS is 8"));
}

TEST(SlurmStep, LoopbackNodeNamesAreRecognized) {
  const ClusterView view =
      ReadOk(With(StepOf3(1), {{"SLURM_STEP_NODELIST", "127.0.0.[1-3]"}, {"SLURMD_NODENAME", "127.0.0.2"}}));
  EXPECT_TRUE(view.loopback_only);
  EXPECT_EQ(view.self, "127.0.0.2");
}

// ---- An allocation without a step ----

TEST(SlurmBatch, TheShellOfSallocGetsTheLineToType) {
  EXPECT_THAT(
      ErrorOf({{"SLURM_JOB_ID", "5"}, {"SLURM_NNODES", "4"}, {"SLURM_JOB_NODELIST", "n[1-4]"}}),
      AllOf(HasSubstr("SLURM_STEP_NODELIST is missing: expected srun"), HasSubstr("SLURM_NNODES is 4"),
            HasSubstr(
                "write srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --kill-on-bad-exit=0 muster run SCRIPT")));
}

TEST(SlurmBatch, OneNodeIsAJobOfItsOwnWithAWarning) {
  const ClusterView view = ReadOk({{"SLURM_JOB_ID", "5"},
                                   {"SLURM_JOB_NUM_NODES", "1"},
                                   {"SLURM_JOB_NODELIST", "n1"},
                                   {"SLURM_GPUS_ON_NODE", "2"}});
  EXPECT_EQ(view.node_rank, 0);
  EXPECT_EQ(view.nnodes, 1);
  EXPECT_EQ(view.run_id, "5");
  EXPECT_EQ(view.nproc, "2");
  EXPECT_THAT(view.nodes, IsEmpty());
  EXPECT_THAT(view.warnings, ElementsAre(HasSubstr("write srun --nodes=1")));
}

TEST(SlurmBatch, AHeterogeneousJobIsMoreThanItsFirstGroup) {
  EXPECT_THAT(ErrorOf({{"SLURM_JOB_ID", "7"}, {"SLURM_HET_SIZE", "2"}, {"SLURM_JOB_NUM_NODES", "1"}}),
              AllOf(HasSubstr("SLURM_HET_SIZE is 2"), HasSubstr("srun --het-group=GROUP")));
}

TEST(SlurmBatch, WithoutACountTheListsNodesAreCounted) {
  EXPECT_THAT(ErrorOf({{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NODELIST", "n[1-3]"}}),
              HasSubstr("SLURM_JOB_NODELIST names 3 and this muster was started outside of a step"));
  EXPECT_THAT(ErrorOf({{"SLURM_JOB_ID", "5"}, {"SLURM_NODELIST", "n[1-"}}), HasSubstr("SLURM_NODELIST is n[1-"));
  EXPECT_EQ(ReadOk({{"SLURM_JOB_ID", "5"}, {"SLURM_NODELIST", "n1"}}).nnodes, 1);
}

TEST(SlurmBatch, AJobIdAloneIsNoSource) {
  EXPECT_EQ(Read({{"SLURM_JOB_ID", "5"}})->has_value(), false);
  EXPECT_EQ(Read({{"SLURM_JOB_NUM_NODES", "4"}, {"SLURM_NODEID", "0"}})->has_value(), false);
}

}  // namespace
}  // namespace muster::discovery
