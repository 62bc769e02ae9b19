// The whole environment of a worker, name by name.
#include "agent/host/core/worker_environment.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::host {
namespace {

// All numbers differ, so that none can be mistaken for another.
v1::Round SampleRound() {
  v1::Round round;
  round.set_node_rank(2);
  round.set_node_count(5);
  round.set_first_rank(16);
  round.set_world_size(40);
  round.set_role_first_rank(13);
  round.set_role_world_size(37);
  round.mutable_master()->set_host("10.0.0.9");
  round.mutable_master()->set_port(41234);
  round.set_restart_count(7);
  round.set_max_restarts(11);
  round.set_failures(1);
  return round;
}

WorkerEnvironmentOptions SampleOptions() {
  WorkerEnvironmentOptions options;
  options.slots = 8;
  options.role_name = "trainer";
  options.run_id = "job-1";
  options.marker = "h42";
  return options;
}

EnvironmentMap Worker3(const EnvironmentMap& inherited = {}) {
  return WorkerEnvironment(SampleRound(), 3, SampleOptions(), inherited);
}

EnvironmentMap ExpectedFromNothing() {
  return {{"LOCAL_RANK", "3"},
          {"RANK", "19"},
          {"GROUP_RANK", "2"},
          {"ROLE_RANK", "16"},
          {"ROLE_NAME", "trainer"},
          {"LOCAL_WORLD_SIZE", "8"},
          {"WORLD_SIZE", "40"},
          {"GROUP_WORLD_SIZE", "5"},
          {"ROLE_WORLD_SIZE", "37"},
          {"MASTER_ADDR", "10.0.0.9"},
          {"MASTER_PORT", "41234"},
          {"TORCHELASTIC_RESTART_COUNT", "7"},
          {"TORCHELASTIC_MAX_RESTARTS", "11"},
          {"TORCHELASTIC_RUN_ID", "job-1"},
          {"TORCHELASTIC_USE_AGENT_STORE", "False"},
          {"NODE_RANK", "2"},
          {"CROSS_RANK", "2"},
          {"CROSS_SIZE", "5"},
          {"LOCAL_SIZE", "8"},
          {"JAX_COORDINATOR_ADDRESS", "10.0.0.9:41234"},
          {"JAX_NUM_PROCESSES", "40"},
          {"JAX_PROCESS_ID", "19"},
          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
          {"PYTHONFAULTHANDLER", "1"},
          {"OMP_NUM_THREADS", "1"},
          {"MUSTER_HOST_ID", "h42"}};
}

TEST(WorkerEnvironment, FromNothingIsExactlyThis) { EXPECT_EQ(Worker3(), ExpectedFromNothing()); }

TEST(WorkerEnvironment, VariablesOfAnOuterLauncherAreOverwritten) {
  EnvironmentMap inherited;
  for (const auto& [name, value] : ExpectedFromNothing()) inherited[name] = "left by another";
  EnvironmentMap expected = ExpectedFromNothing();
  expected["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "left by another";  // the user's setting
  expected["PYTHONFAULTHANDLER"] = "left by another";
  expected["OMP_NUM_THREADS"] = "left by another";
  EXPECT_EQ(Worker3(inherited), expected);
}

TEST(WorkerEnvironment, VariablesOfThePlatformAreOverwritten) {
  const EnvironmentMap worker = Worker3({{"RANK", "1"},  // Vertex AI sets the node's, as for one process
                                         {"WORLD_SIZE", "2"},
                                         {"MASTER_ADDR", "cmle-training-workerpool0-ab-0"},
                                         {"MASTER_PORT", "3333"}});
  EXPECT_EQ(worker, ExpectedFromNothing());
}

TEST(WorkerEnvironment, UserSettingsPassThroughUntouched) {
  const EnvironmentMap passed = {{"PATH", "/bin"},
                                 {"CLUSTER_SPEC", "{}"},  // the Reduction Server's plugin reads it
                                 {"TF_CONFIG", "{}"},
                                 {"SLURM_PROCID", "1"},
                                 {"PYTHONUNBUFFERED", "0"},
                                 {"PYTHONPATH", ""},
                                 {"NCCL_DEBUG", "INFO"},
                                 {"CUDA_VISIBLE_DEVICES", "4,5"},
                                 {"PET_NPROC_PER_NODE", "8"},
                                 {"PET_MAX_RESTARTS", "2"},
                                 {"TORCHELASTIC_ENABLE_FILE_TIMER", "1"},
                                 {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x"},
                                 {"MUSTERED", "not ours"},
                                 {"", "a name that is empty"}};
  EnvironmentMap expected = ExpectedFromNothing();
  expected.insert(passed.begin(), passed.end());
  EXPECT_EQ(Worker3(passed), expected);
}

TEST(WorkerEnvironment, OurOwnSettingsAndSecretsAreNotPassedOn) {
  EXPECT_EQ(Worker3({{"MUSTER_TOKEN", "secret"}, {"MUSTER_NNODES", "4"}, {"MUSTER_ANYTHING", "x"}}),
            ExpectedFromNothing());
}

TEST(WorkerEnvironment, ATorchrunInsideAWorkerCannotTakeThisNodesPlace) {
  EXPECT_EQ(Worker3({{"PET_NNODES", "4"},
                     {"PET_NODE_RANK", "1"},
                     {"PET_MASTER_ADDR", "a"},
                     {"PET_MASTER_PORT", "1"},
                     {"PET_RDZV_BACKEND", "c10d"},
                     {"PET_RDZV_ENDPOINT", "a:1"},
                     {"PET_RDZV_CONF", "x=y"},
                     {"PET_RDZV_ID", "i"}}),
            ExpectedFromNothing());
}

TEST(WorkerEnvironment, AnOuterAgentsPipesAndFilesAreDropped) {
  EXPECT_EQ(Worker3({{"TORCHELASTIC_TIMER_FILE", "/tmp/w"}, {"TORCHELASTIC_ERROR_FILE", "/tmp/outer.json"}}),
            ExpectedFromNothing());
}

TEST(WorkerEnvironment, TheErrorFileIsSetOnlyIfThereIsOne) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.error_file = "/log/0/error.json";
  const EnvironmentMap worker =
      WorkerEnvironment(SampleRound(), 3, options, {{"TORCHELASTIC_ERROR_FILE", "/tmp/outer.json"}});
  EXPECT_EQ(worker.at("TORCHELASTIC_ERROR_FILE"), "/log/0/error.json");
}

// As in torchrun with --log-dir /dev/null.
TEST(WorkerEnvironment, TheErrorFileIsEmptyIfFilesAreForbidden) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.files_are_forbidden = true;
  EXPECT_EQ(WorkerEnvironment(SampleRound(), 3, options, {}).at("TORCHELASTIC_ERROR_FILE"), "");
}

TEST(WorkerEnvironment, BreakpointPassesWhereAnotherRankHasTheKeyboard) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.keyboard_is_anothers = true;
  const auto breakpoint = [&](const EnvironmentMap& inherited) {
    return WorkerEnvironment(SampleRound(), 3, options, inherited).at("PYTHONBREAKPOINT");
  };
  EXPECT_EQ(breakpoint({}), "0");
  EXPECT_EQ(breakpoint({{"PYTHONBREAKPOINT", "ipdb.set_trace"}}), "ipdb.set_trace");
}

TEST(WorkerEnvironment, ThePlatformsVariablesAreDefaults) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.platform = {{"NCCL_SOCKET_IFNAME", "eth0"}, {"SM_NUM_GPUS", "8"}};
  const EnvironmentMap inherited = {{"NCCL_SOCKET_IFNAME", ""}};
  for (const EnvironmentMap& environment : {WorkerEnvironment(SampleRound(), 3, options, inherited),
                                            NodeEnvironment(options, std::nullopt, inherited)}) {
    EXPECT_EQ(environment.at("NCCL_SOCKET_IFNAME"), "");
    EXPECT_EQ(environment.at("SM_NUM_GPUS"), "8");
  }
}

TEST(WorkerEnvironment, TheTimersPipeIsSetOnlyIfThereIsOne) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.timer_file = "/tmp/pipe";
  const EnvironmentMap worker =
      WorkerEnvironment(SampleRound(), 3, options, {{"TORCHELASTIC_TIMER_FILE", "/tmp/outer"}});
  EXPECT_EQ(worker.at("TORCHELASTIC_TIMER_FILE"), "/tmp/pipe");
}

TEST(WorkerEnvironment, OmpThreadsOfOneWorkerAreLeftToTheLibrary) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.slots = 1;
  EXPECT_FALSE(WorkerEnvironment(SampleRound(), 0, options, {}).contains("OMP_NUM_THREADS"));
  options.slots = 2;
  EXPECT_EQ(WorkerEnvironment(SampleRound(), 0, options, {}).at("OMP_NUM_THREADS"), "1");
}

TEST(WorkerEnvironment, AnEmptyValueIsTheUsersChoice) {
  const EnvironmentMap worker = Worker3({{"OMP_NUM_THREADS", ""}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}});
  EXPECT_EQ(worker.at("OMP_NUM_THREADS"), "");
  EXPECT_EQ(worker.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
}

TEST(WorkerEnvironment, VisibleDevicesAreSetForRanksWithDevices) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.visible_devices_variable = "CUDA_VISIBLE_DEVICES";
  options.visible_devices = {{0, "GPU-a"}, {1, ""}};
  const EnvironmentMap inherited = {{"CUDA_VISIBLE_DEVICES", "4,5,6"}};
  const auto devices_of = [&](int local_rank) {
    return WorkerEnvironment(SampleRound(), local_rank, options, inherited).at("CUDA_VISIBLE_DEVICES");
  };
  EXPECT_EQ(devices_of(0), "GPU-a");
  EXPECT_EQ(devices_of(1), "");
  EXPECT_EQ(devices_of(2), "4,5,6");
}

TEST(WorkerEnvironment, RanksOfANodeAreConsecutiveAndDistinct) {
  std::set<std::string> ranks;
  std::set<std::string> role_ranks;
  for (int local_rank = 0; local_rank < 8; ++local_rank) {
    const EnvironmentMap worker = WorkerEnvironment(SampleRound(), local_rank, SampleOptions(), {});
    EXPECT_EQ(worker.at("RANK"), std::to_string(16 + local_rank));
    EXPECT_EQ(worker.at("LOCAL_RANK"), std::to_string(local_rank));
    ranks.insert(worker.at("RANK"));
    role_ranks.insert(worker.at("ROLE_RANK"));
  }
  EXPECT_EQ(ranks.size(), 8u);
  EXPECT_EQ(role_ranks.size(), 8u);
}

TEST(WorkerEnvironment, AnIpv6MasterHasBracketsOnlyBeforeAPort) {
  v1::Round round = SampleRound();
  round.mutable_master()->set_host("fd00::1");
  const EnvironmentMap worker = WorkerEnvironment(round, 0, SampleOptions(), {});
  EXPECT_EQ(worker.at("MASTER_ADDR"), "fd00::1");
  EXPECT_EQ(worker.at("JAX_COORDINATOR_ADDRESS"), "[fd00::1]:41234");
}

TEST(CommonEnvironment, AndTheVariablesThatItLacksMakeUpAWorkers) {
  const EnvironmentMap inherited = {{"RANK", "1"}, {"PATH", "/bin"}, {"PET_NODE_RANK", "5"}, {"MASTER_ADDR", "a"}};
  WorkerEnvironmentOptions options = SampleOptions();
  options.error_file = "/e";
  options.done_file = "/d";
  options.heartbeat_file = "/h";
  options.timer_file = "/t";
  options.recorder = {{"TORCH_FR_DUMP", "/r"}};
  options.visible_devices_variable = "CUDA_VISIBLE_DEVICES";
  options.visible_devices = {{3, "GPU-3"}};
  const std::set<std::string> own = VariablesOfAWorker(options);
  EnvironmentMap common = WorkerEnvironment(SampleRound(), 3, options, inherited);
  for (const std::string& name : own) common.erase(name);
  EXPECT_EQ(CommonEnvironment(options, inherited), common);
  // For another worker in another round they are the same, so no variable is missing in the list.
  v1::Round other = SampleRound();
  other.set_node_rank(1);
  other.set_node_count(4);
  other.set_first_rank(8);
  other.set_world_size(32);
  other.set_role_first_rank(8);
  other.set_role_world_size(32);
  other.mutable_master()->set_host("b");
  other.mutable_master()->set_port(2);
  other.set_restart_count(8);
  other.set_max_restarts(12);
  WorkerEnvironmentOptions later = options;
  later.error_file = "/e2";
  later.done_file = "/d2";
  later.heartbeat_file = "/h2";
  later.timer_file = "/t2";
  later.recorder["TORCH_FR_DUMP"] = "/r2";
  EnvironmentMap of_other = WorkerEnvironment(other, 2, later, inherited);
  for (const std::string& name : own) of_other.erase(name);
  EXPECT_EQ(of_other, common);
}

TEST(NodeEnvironment, HasNoRankVariables) {
  const EnvironmentMap inherited = {{"RANK", "1"},          {"WORLD_SIZE", "2"},         {"LOCAL_RANK", "3"},
                                    {"NODE_RANK", "4"},     {"MASTER_ADDR", "10.0.0.1"}, {"JAX_PROCESS_ID", "4"},
                                    {"PET_NODE_RANK", "5"}, {"MUSTER_TOKEN", "x"},       {"PATH", "/bin"}};
  EnvironmentMap expected = {{"LOCAL_WORLD_SIZE", "8"},
                             {"LOCAL_SIZE", "8"},
                             {"NPROC", "8"},
                             {"TORCHELASTIC_RUN_ID", "job-1"},
                             {"MUSTER_HOST_ID", "h42"},
                             {"PATH", "/bin"},
                             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                             {"PYTHONFAULTHANDLER", "1"},
                             {"OMP_NUM_THREADS", "1"}};
  EXPECT_EQ(NodeEnvironment(SampleOptions(), std::nullopt, inherited), expected);
  expected["NODE_RANK"] = "6";
  EXPECT_EQ(NodeEnvironment(SampleOptions(), 6, inherited), expected);
}

// While a debugger stops one worker, NCCL's watchdog would end those that wait for it.
TEST(WorkerEnvironment, NcclLetsWorkersWaitForADebugger) {
  WorkerEnvironmentOptions options = SampleOptions();
  options.waits_for_debugger = true;
  const EnvironmentMap waiting = WorkerEnvironment(SampleRound(), 3, options, {});
  EXPECT_EQ(waiting.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
  EXPECT_EQ(waiting.at("TORCH_NCCL_ENABLE_MONITORING"), "0");
  const EnvironmentMap own = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}, {"TORCH_NCCL_ENABLE_MONITORING", ""}};
  const EnvironmentMap users = WorkerEnvironment(SampleRound(), 3, options, own);
  EXPECT_EQ(users.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
  EXPECT_EQ(users.at("TORCH_NCCL_ENABLE_MONITORING"), "");
}

}  // namespace
}  // namespace muster::host
