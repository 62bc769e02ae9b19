// Precedence of settings, and the plan for each way to define the job's membership.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_table.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/make_plan.h"
#include "tests/unit/cli/plan/plan_fixture.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlanTest, OnlyAHostThatOthersMeetHasAKey) {
  const host::HostOptions alone = Planned({"t.py"}).host;
  EXPECT_EQ(alone.host_id.size(), 32u);
  EXPECT_EQ(alone.config.host_key(), "");
  const host::HostOptions member =
      Planned({"--nnodes", "2", "--master-addr", "n0", "--node-rank", "0", "t.py"}).host;
  EXPECT_EQ(member.config.host_key().size(), kSecretBytes);
  EXPECT_EQ(member.host_id, IdentityFrom(member.config.host_key()).id);
}

// Several nodes may share the folder.
TEST(PlanTest, ALogFolderOfOneOfSeveralNodesHasItsName) {
  const auto folder = [](const Words& words, const Environment& environment = {}) {
    return Planned(words, environment).launch.output.folder_name;
  };
  const Words several = {"--nnodes", "2", "--master-addr", "n0", "--node-rank", "1", "--rdzv-id", "r"};
  Words logged = several;
  logged.insert(logged.end(), {"--log-dir", "logs"});
  EXPECT_EQ(folder(logged), "r_here");
  EXPECT_EQ(folder(several), "r") << "a temporary folder of its own";
  EXPECT_EQ(folder({"--log-dir", "logs", "--rdzv-id", "r"}), "r");
  EXPECT_EQ(folder(logged, {{kRedrawsVariable, "1"}}), "r_node1") << "all of muster local have one host name";
}

TEST(PlanTest, TheDefaultIsOneNodeAsInTorchrun) {
  const RunPlan plan = Planned({"t.py", "--nnodes", "9"}, {}, 8);
  EXPECT_EQ(plan.view.source, "single");
  EXPECT_TRUE(plan.host.config.single_node());
  EXPECT_EQ(plan.host.config.slots(), 1);
  EXPECT_EQ(plan.host.config.max_restarts(), 0);
  EXPECT_EQ(plan.host.config.lease_ms(), 0);
  EXPECT_EQ(plan.host.config.last_call_ms(), 30'000);
  EXPECT_EQ(plan.host.config.run_id(), "random");
  EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_YES);
  EXPECT_EQ(plan.host.termination_grace, absl::Seconds(30));
  EXPECT_EQ(plan.launch.program, "t.py");
  EXPECT_THAT(plan.script_arguments, ElementsAre("--nnodes", "9"));
}

TEST(PlanTest, AContainersIdGivesWayToThePlatformsName) {
  Machine machine = MachineWith(0);
  const auto name = [&machine](const std::string& hostname, const std::string& spec) {
    machine.hostname = hostname;
    const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), {"train.py"});
    return Plan(*line, {{"CLUSTER_SPEC", spec}}, machine)->host.config.hostname();
  };
  EXPECT_EQ(name("babd8b14992f", kThreeNodes), "b-1");
  EXPECT_EQ(name("gpu-07", kThreeNodes), "gpu-07");
  constexpr char kAddresses[] = R"({"cluster":{"workerpool0":["10.0.0.1:2222"],"workerpool1":["10.0.0.2:2222"]},)"
                                R"("task":{"type":"workerpool1","index":0}})";
  EXPECT_EQ(name("babd8b14992f", kAddresses), "babd8b14992f");
}

TEST(PlanTest, EveryFormOfStandaloneIsOneNode) {
  for (const Words& words :
       {Words{"--standalone"}, Words{"--nnodes", "1"}, Words{"--rdzv-endpoint", "localhost:0"},
        Words{"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--nnodes=1"},
        Words{"--standalone", "--rdzv-endpoint", "far:29400"}}) {
    const RunPlan plan = Planned(words, {{"CLUSTER_SPEC", kThreeNodes}});
    EXPECT_TRUE(plan.host.config.single_node()) << words[0];
    EXPECT_EQ(plan.view.source, "flags") << words[0];
    EXPECT_EQ(plan.host.config.max_nodes(), 1) << words[0];
  }
}

TEST(PlanTest, APlatformGivesRankPrimaryAndDefaults) {
  const RunPlan plan = Planned({}, {{"CLUSTER_SPEC", kThreeNodes}, {"CLOUD_ML_JOB_ID", "77"}}, 8);
  EXPECT_EQ(plan.view.source, "vertex");
  EXPECT_EQ(plan.host.config.place(), 2);
  EXPECT_EQ(plan.host.config.min_nodes(), 3);
  EXPECT_EQ(plan.host.config.max_nodes(), 3);
  EXPECT_EQ(plan.host.config.primary().host(), "a-0");
  EXPECT_EQ(plan.host.config.primary().port(), 2222u);
  EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_NO);
  EXPECT_THAT(plan.host.config.place_names(), ElementsAre("a-0:2222", "b-0:2222", "b-1:2222"));
  EXPECT_EQ(plan.host.config.run_id(), "77");
  EXPECT_EQ(plan.host.config.slots(), 8);
  EXPECT_EQ(plan.host.config.max_restarts(), 3);
  EXPECT_EQ(plan.host.config.last_call_ms(), 5'000);
  EXPECT_EQ(plan.host.config.lease_ms(), 10'000);
  EXPECT_EQ(Line(plan, "max-restarts").origin, "vertex");
}

TEST(PlanTest, AutoByHandCountsCpusOnAPlatform) {
  EXPECT_EQ(Planned({}, {{"CLUSTER_SPEC", kThreeNodes}}).host.config.slots(), 1);
  EXPECT_EQ(Planned({"--nproc-per-node", "auto"}, {{"CLUSTER_SPEC", kThreeNodes}}).host.config.slots(), 16);
}

TEST(PlanTest, AnElasticRangeKeepsThePlatformsRanks) {
  const RunPlan plan = Planned({"--nnodes", "2:3", "--master-port", "3333"}, {{"CLUSTER_SPEC", kThreeNodes}});
  EXPECT_EQ(plan.host.config.min_nodes(), 2);
  EXPECT_EQ(plan.host.config.max_nodes(), 3);
  EXPECT_EQ(plan.host.config.place(), 2);
  EXPECT_EQ(plan.host.config.primary().port(), 3333u);
  EXPECT_EQ(Line(plan, "nnodes").origin, "--nnodes");
}

TEST(PlanTest, AReplicaThatDoesNotTrainObserves) {
  const RunPlan plan = Planned({}, {{"CLUSTER_SPEC", kReducer}}, 8);
  EXPECT_EQ(plan.host.config.role(), v1::ROLE_OBSERVER);
  EXPECT_FALSE(plan.host.config.has_place());
  EXPECT_EQ(plan.host.config.slots(), 0);
  EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_NO);
  EXPECT_EQ(Planned({"--pools", "all"}, {{"CLUSTER_SPEC", kReducer}}).host.config.place(), 2);
}

TEST(PlanTest, OneReplicaIsOneNodeWithPlatformDefaults) {
  const RunPlan plan = Planned({}, {{"CLUSTER_SPEC", kOneReplica}}, 4);
  EXPECT_TRUE(plan.host.config.single_node());
  EXPECT_EQ(plan.host.config.slots(), 4);
  EXPECT_EQ(plan.host.config.max_restarts(), 3);
}

TEST(PlanTest, TheOnlyTrainerListensForObservers) {
  const std::string spec = R"({"cluster":{"workerpool0":["a-0:2222"],"workerpool3":["c-0:2222"]},)"
                           R"("task":{"type":"workerpoolN","index":0}})";
  const auto of = [&](const char* number) { return absl::StrReplaceAll(spec, {{"N", number}}); };
  const RunPlan trainer = Planned({}, {{"CLUSTER_SPEC", of("0")}}, 4);
  EXPECT_FALSE(trainer.host.config.single_node());
  EXPECT_EQ(trainer.host.config.serves(), v1::NodeConfig::SERVES_YES);
  EXPECT_GT(trainer.host.config.lease_ms(), 0);
  EXPECT_EQ(trainer.host.config.min_nodes(), 1);
  EXPECT_EQ(trainer.host.config.max_nodes(), 1);
  const RunPlan other = Planned({}, {{"CLUSTER_SPEC", of("3")}}, 4);
  EXPECT_EQ(other.host.config.role(), v1::ROLE_OBSERVER);
  EXPECT_EQ(other.host.config.primary().port(), trainer.host.config.primary().port());
  EXPECT_FALSE(Planned({}, {{"TF_CONFIG", R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":0}})"}})
                   .host.config.single_node())
      << "an evaluator is in no list";
}

TEST(PlanTest, MembershipByHandOverridesThePlatform) {
  for (const Words& words : {Words{"--standalone"}, Words{"--nnodes", "1"},
                             Words{"--nnodes", "2", "--node-rank", "0", "--master-addr", "a"}}) {
    const RunPlan plan = Planned(words, {{"CLUSTER_SPEC", kThreeNodes}});
    EXPECT_EQ(plan.view.source, "flags");
    EXPECT_THAT(plan.shown.notes, ElementsAre(words[0] + " sets the membership; ignored: vertex"));
    EXPECT_THAT(Planned(words).shown.notes, ElementsAre());
  }
}

TEST(PlanTest, ARequestedSourceIsAlwaysRead) {
  const Environment environment = {{"CLUSTER_SPEC", kThreeNodes}, {"PET_NNODES", "1"}};
  EXPECT_EQ(Planned({"--nnodes", "1"}, environment).view.source, "flags");
  EXPECT_EQ(Planned({"--source", "vertex"}, environment).host.config.place(), 2);
  const Environment ours = {{"CLUSTER_SPEC", kThreeNodes}, {"MUSTER_SOURCE", "vertex"}, {"PET_NNODES", "1"}};
  EXPECT_EQ(Planned({}, ours).view.source, "vertex");
  EXPECT_EQ(Planned({"--nnodes", "1"}, ours).view.source, "flags");
  EXPECT_EQ(Planned({"--standalone"}, ours).view.source, "flags");
}

// PET_NNODES=1 must not split a platform's nodes into jobs of one node each.
TEST(PlanTest, PetNnodesOneOnSeveralNodesIsRefused) {
  const absl::Status status = TryPlan({}, {{"CLUSTER_SPEC", kThreeNodes}, {"PET_NNODES", "1"}}).status();
  EXPECT_EQ(ExitCodeOf(status), 65);
  EXPECT_THAT(std::string(AsStd(status.message())),
              HasSubstr("PET_NNODES 1: expected 3, the number of nodes of the platform (vertex)"));
  EXPECT_EQ(Planned({}, {{"CLUSTER_SPEC", kOneReplica}, {"PET_NNODES", "1"}}).view.source, "flags");
  EXPECT_EQ(Planned({}, {{"PET_NNODES", "1"}}).view.source, "flags");
}

// The plan on a machine named "here", which is the second host in the file "hosts".
absl::StatusOr<RunPlan> PlanByHostfile(const Words& words, const Environment& environment = {}) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words);
  if (!line.ok()) return line.status();
  Machine machine = MachineWith(0);
  machine.discover = [](const Environment& variables, const discovery::DiscoverOptions& asked) {
    const discovery::FileReader read = [](const std::string& path, size_t) -> absl::StatusOr<std::string> {
      if (path == "hosts") return "node-a slots=3\nhere slots=2\n";
      return absl::NotFoundError(path);
    };
    discovery::DiscoverOptions options = asked;
    options.hostfile.hostname = "here";
    return discovery::Discover({variables, read}, options);
  };
  return Plan(*line, environment, machine);
}

std::string HostfileFault(const Words& words) {
  return std::string(AsStd(PlanByHostfile(words).status().message()));
}

TEST(PlanTest, AHostfileGivesRankPrimaryAndWorkers) {
  const absl::StatusOr<RunPlan> plan = PlanByHostfile({"--hostfile", "hosts"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->host.config.place(), 1);
  EXPECT_EQ(plan->host.config.max_nodes(), 2);
  EXPECT_EQ(plan->host.config.slots(), 2);
  EXPECT_EQ(plan->host.config.primary().host(), "node-a");
  EXPECT_EQ(plan->host.config.primary().port(), 29500);
  EXPECT_EQ(Line(*plan, "nproc-per-node").origin, "hostfile");
  EXPECT_EQ(Line(*plan, "max-restarts").value, "3");
}

TEST(PlanTest, OptionsBeatTheHostfile) {
  const absl::StatusOr<RunPlan> plan =
      PlanByHostfile({"--hostfile", "hosts", "--master-addr", "10.0.0.9", "--master-port", "3333",
                      "--nproc-per-node", "1", "--nnodes", "1:2", "--node-rank", "0", "--rdzv-id", "mine"},
                     {{"PET_NNODES", "1"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->view.source, "hostfile");
  EXPECT_EQ(plan->host.config.primary().host(), "10.0.0.9");
  EXPECT_EQ(plan->host.config.primary().port(), 3333);
  EXPECT_EQ(plan->host.config.slots(), 1);
  EXPECT_EQ(plan->host.config.place(), 0);
  EXPECT_EQ(plan->host.config.min_nodes(), 1);
  EXPECT_EQ(plan->host.config.run_id(), "mine");
}

TEST(PlanTest, ATimeOfTheStartWithoutAWatchIsSaid) {
  EXPECT_THAT(Planned({"--start-timeout", "10", "t.py"}).shown.notes,
              testing::Contains("--start-timeout has no effect, because --hang-timeout is off"));
  EXPECT_THAT(Planned({"--start-timeout", "10", "--hang-timeout", "5m", "t.py"}).shown.notes, ElementsAre());
}

TEST(PlanTest, APrimaryAtLoopbackIsEachMachinesOwn) {
  for (const char* host : {"localhost", "127.0.1.1", "[::1]"}) {
    EXPECT_THAT(Planned({"--nnodes", "2", "--rdzv-endpoint", absl::StrCat(host, ":15213"), "t.py"}).shown.notes,
                testing::Contains(testing::HasSubstr("is each machine's own address: all 2 nodes must be on")));
  }
  EXPECT_THAT(Planned({"--nnodes", "2", "--rdzv-endpoint", "10.0.0.1", "t.py"}).shown.notes, ElementsAre());
}

TEST(PlanTest, ANodeAtLoopbackBesideOtherMachinesIsAFault) {
  const auto warnings = [](const char* primary, const char* other) {
    const std::string spec = absl::StrCat(R"({"cluster":{"workerpool0":[")", primary, R"("],"workerpool1":[")",
                                          other, R"("]},"task":{"type":"workerpool0","index":0}})");
    return Planned({"t.py"}, {{"CLUSTER_SPEC", spec}}).shown.warnings;
  };
  EXPECT_THAT(
      warnings("localhost:2222", "node1:2222"),
      ElementsAre(testing::HasSubstr("localhost, a node of this job, is each machine's own address, and node1 "
                                     "is another machine's")));
  EXPECT_THAT(warnings("node0:2222", "[::1]:2222"), ElementsAre(testing::HasSubstr("::1, a node of this job")));
  EXPECT_THAT(warnings("localhost:2222", "127.0.0.2:2222"), ElementsAre());
  EXPECT_THAT(warnings("node0:2222", "node1:2222"), ElementsAre());
}

TEST(PlanTest, AnOptionBehindTheScriptIsTheScripts) {
  const std::string said =
      "--nproc-per-node stands behind t.py, so the script gets it: muster's own options stand before the script";
  EXPECT_THAT(Planned({"t.py", "--nproc_per_node=2"}).shown.notes, testing::Contains(said));
  EXPECT_THAT(Planned({"--nproc-per-node", "1", "t.py", "--nproc-per-node", "2"}).shown.notes,
              testing::Not(testing::Contains(said)))
      << "a wrapper's script may have it";
  EXPECT_THAT(Planned({"t.py", "--log-dir", "x"}).shown.notes, ElementsAre()) << "many scripts have that one";
}

TEST(PlanTest, LinesAreGroupedOnATerminalUnlessTheyKeepTorchrunsForm) {
  const auto planned = [](Words words, bool terminal, bool as_torchrun = false) {
    words.insert(words.end(), {"--nproc-per-node", "2", "t.py"});
    absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words);
    line->as_torchrun = as_torchrun;
    Machine machine = MachineWith(0);
    machine.out_is_terminal = machine.err_is_terminal = terminal;
    return Plan(*line, {}, machine)->launch.output;
  };
  EXPECT_EQ(planned({}, true).grouped, host::Streams::kBoth);
  EXPECT_FALSE(planned({}, true).prefix_all) << "workers keep their terminal";
  EXPECT_EQ(planned({"--group-lines", "auto"}, false).grouped, host::Streams::kNone);
  EXPECT_EQ(planned({}, true, true).grouped, host::Streams::kNone);
  EXPECT_EQ(planned({"--group-lines", "off"}, true).grouped, host::Streams::kNone);
  EXPECT_EQ(planned({"--group-lines", "on"}, false, true).grouped, host::Streams::kBoth);
  EXPECT_TRUE(planned({"--group-lines", "on"}, false).prefix_all);
}

TEST(PlanTest, AFolderForLogsThatWillHaveNoneIsSaid) {
  const std::string said = "--log-dir without -r or -t writes no output to files; for stdout and stderr add -t 3";
  EXPECT_THAT(Planned({"--log-dir", "logs", "t.py"}).shown.notes, testing::Contains(said));
  for (const char* option : {"-r", "-t"})
    EXPECT_THAT(Planned({"--log-dir", "logs", option, "3", "t.py"}).shown.notes, ElementsAre());
  EXPECT_THAT(Planned({"--log-dir", "/dev/null", "t.py"}).shown.notes, ElementsAre());
}

TEST(PlanTest, ACountOfNodesMayHaveBlanks) {
  const RunPlan plan = Planned({"--nnodes", "1 : 2", "--rdzv-endpoint", "10.0.0.1", "t.py"});
  EXPECT_EQ(plan.host.config.min_nodes(), 1);
  EXPECT_EQ(plan.host.config.max_nodes(), 2);
}

TEST(PlanTest, UnusableHostfileOptionsAreErrors) {
  EXPECT_EQ(HostfileFault({"--include", "a"}), "--include a: needs --hostfile, whose hosts it filters");
  EXPECT_EQ(HostfileFault({"--hostfile", "hosts", "--source", "vertex"}),
            "--hostfile hosts: cannot be used with --source vertex");
  EXPECT_EQ(HostfileFault({"--hostfile", "hosts", "--standalone"}),
            "--hostfile hosts: cannot be used with --standalone");
  EXPECT_THAT(HostfileFault({"--hostfile", "other"}), HasSubstr("--hostfile other: file not found"));
}

TEST(PlanTest, ErrorsNameTheVariable) {
  const auto message = [](const absl::StatusOr<RunPlan>& plan) {
    return std::string(AsStd(plan.status().message()));
  };
  const Environment groups = {{"SM_HOSTS", R"(["a"])"}, {"SM_CURRENT_HOST", "a"}, {"MUSTER_INSTANCE_GROUPS", "x"}};
  EXPECT_THAT(message(TryPlan({}, groups)), HasSubstr("MUSTER_INSTANCE_GROUPS is x: expected an instance group"));
  EXPECT_THAT(message(PlanByHostfile({}, {{"MUSTER_HOSTFILE", "other"}})),
              HasSubstr("MUSTER_HOSTFILE other: file not found"));
  EXPECT_THAT(Planned({"--instance-groups", "g"}, {{"CLUSTER_SPEC", kThreeNodes}}).shown.warnings,
              testing::Contains(HasSubstr("--instance-groups: ignored")));
}

TEST(PlanTest, SageMakersTrainArgumentIsNotTheScripts) {
  const Environment environment = {{"SM_HOSTS", R"(["algo-1","algo-2"])"}, {"SM_CURRENT_HOST", "algo-2"}};
  const RunPlan plan = Planned({"train.py", "--lr", "1", "train"}, environment);
  EXPECT_THAT(plan.script_arguments, ElementsAre("--lr", "1"));
  EXPECT_EQ(plan.launch.report.failure_file, "/opt/ml/output/failure");
  EXPECT_EQ(Line(plan, "termination-grace").value, "1m50s");
  EXPECT_EQ(plan.view.for_workers.at("SM_NUM_GPUS"), "0");
  EXPECT_THAT(Planned({"train.py", "train", "train"}, environment).script_arguments, ElementsAre("train"));
  EXPECT_THAT(Planned({"train.py", "train"}).script_arguments, ElementsAre("train"));
  EXPECT_EQ(Planned({"train.py"}).launch.report.failure_file, "");

  EXPECT_EQ(ExitCodeOf(TryPlan({"train"}, environment).status()), 64);
  Environment with_program = environment;
  with_program["SAGEMAKER_PROGRAM"] = "main.py";
  EXPECT_EQ(Planned({"train"}, with_program).launch.program, "/opt/ml/code/main.py");
  with_program["SAGEMAKER_PROGRAM"] = "/src/main.py";
  EXPECT_EQ(Planned({"train"}, with_program).launch.program, "/src/main.py");
}

TEST(PlanTest, StaticOptionsNamePrimaryAndRank) {
  const Words words = {"--nnodes", "2", "--node-rank", "1", "--master-addr", "A", "--master-port", "1234"};
  const RunPlan plan = Planned(words, {{"CLUSTER_SPEC", kThreeNodes}});
  EXPECT_EQ(plan.view.source, "flags");
  EXPECT_EQ(plan.host.config.place(), 1);
  EXPECT_EQ(plan.host.config.primary().host(), "A");
  EXPECT_EQ(plan.host.config.primary().port(), 1234u);
  EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_NO);
  EXPECT_EQ(plan.host.config.run_id(), "none");
  EXPECT_EQ(plan.host.config.max_restarts(), 0);
  EXPECT_FALSE(plan.host.config.loopback_only());
}

TEST(PlanTest, NodeZeroServesUnderStaticOptions) {
  const RunPlan plan = Planned({"--nnodes", "2", "--node-rank", "0"});
  EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_YES);
  EXPECT_EQ(plan.host.config.primary().host(), "127.0.0.1");
  EXPECT_EQ(plan.host.config.primary().port(), 29500u);
  EXPECT_TRUE(plan.host.config.loopback_only());
}

TEST(PlanTest, TheOwnerOfTheEndpointServes) {
  const RunPlan plan = Planned({"--nnodes", "2:4", "--rdzv-endpoint", "[fd00::1]", "--rdzv-id", "j"});
  EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_IF_LOCAL);
  EXPECT_FALSE(plan.host.config.has_place());
  EXPECT_EQ(plan.host.config.primary().host(), "fd00::1");
  EXPECT_EQ(plan.host.config.primary().port(), 29400u);
  EXPECT_EQ(plan.host.config.run_id(), "j");
}

// Which node serves, and what its rank counts, where an endpoint is given.
TEST(PlanTest, AnEndpointsOwnerServesWhateverTheRanks) {
  const v1::NodeConfig::Serves owner = v1::NodeConfig::SERVES_IF_LOCAL,
                               or_reached = v1::NodeConfig::SERVES_IF_REACHED, yes = v1::NodeConfig::SERVES_YES,
                               no = v1::NodeConfig::SERVES_NO;
  const struct {
    const char* words;
    bool as_torchrun;
    v1::NodeConfig::Serves serves;
    int place;  // -1: none
    bool is_hint;
  } cases[] = {
      {"", false, owner, -1, false},
      {"--node-rank 0", false, or_reached, 0, false},
      {"--node-rank 1", false, owner, 1, false},
      {"--node-rank 1 --rdzv-backend c10d", false, owner, 1, false},
      {"--node-rank 1 --rdzv-backend static", true, owner, 1, false},
      {"--node-rank 0 --rdzv-backend c10d", true, or_reached, 0, true},
      {"--node-rank 1 --rdzv-backend c10d", true, owner, 1, true},
      {"--node-rank 7 --rdzv-backend c10d", true, owner, -1, false},  // no rank of two nodes
      {"--node-rank 1 --rdzv-backend c10d --rdzv-conf is_host=true", true, yes, 1, true},
      {"--node-rank 0 --rdzv-backend c10d --rdzv-conf is_host=false", true, no, 0, true},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.words);
    Words words = {"--nnodes", "2", "--rdzv-endpoint", "node0", "--rdzv-id", "j"};
    for (const auto word : absl::StrSplit(one.words, ' ', absl::SkipEmpty())) words.emplace_back(word);
    absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words);
    ASSERT_TRUE(line.ok()) << line.status();
    line->as_torchrun = one.as_torchrun;
    const absl::StatusOr<RunPlan> plan = Plan(*line, {}, MachineWith(0));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->host.config.serves(), one.serves);
    EXPECT_EQ(plan->host.config.has_place() ? plan->host.config.place() : -1, one.place);
    EXPECT_EQ(plan->host.config.place_is_hint(), one.is_hint);
  }
}

TEST(PlanTest, SourcesOfSettingsHaveAnOrder) {
  Environment environment = {{"CLUSTER_SPEC", kThreeNodes}};
  EXPECT_EQ(Line(Planned({}, environment), "max-restarts").value, "3");
  environment["PET_MAX_RESTARTS"] = "4";
  EXPECT_EQ(Line(Planned({}, environment), "max-restarts").origin, "PET_MAX_RESTARTS");
  environment["MUSTER_MAX_RESTARTS"] = "5";
  EXPECT_EQ(Planned({}, environment).host.config.max_restarts(), 5);
  const RunPlan plan = Planned({"--max-restarts", "6"}, environment);
  EXPECT_EQ(plan.host.config.max_restarts(), 6);
  EXPECT_EQ(Line(plan, "max-restarts").origin, "--max-restarts");
}

TEST(PlanTest, PetVariablesExistForTorchrunsOptionsOnly) {
  EXPECT_EQ(Planned({}, {{"PET_LEASE", "3"}, {"MUSTER_REJOIN_TIMEOUT", "7"}}).host.config.rejoin_timeout_ms(),
            7'000);
  EXPECT_EQ(Line(Planned({}, {{"PET_LEASE", "3"}}), "lease").origin, "default");
}

TEST(PlanTest, MembershipFromTorchrunsVariablesAlone) {
  const RunPlan plan = Planned(
      {}, {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "0"}, {"PET_MASTER_ADDR", "m"}, {"PET_MASTER_PORT", "23456"}});
  EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_YES);
  EXPECT_EQ(plan.host.config.primary().port(), 23456u);
}

TEST(PlanTest, KubeflowHasTorchrunsDefaults) {
  Environment trainer = {{"PET_NNODES", "4"},
                         {"PET_NODE_RANK", "3"},
                         {"PET_MASTER_ADDR", "tj-node-0-0.tj"},
                         {"JOB_COMPLETION_INDEX", "3"}};
  const RunPlan plan = Planned({}, trainer);
  EXPECT_EQ(plan.view.source, "trainer");
  EXPECT_EQ(plan.host.config.place(), 3);
  EXPECT_EQ(plan.host.config.slots(), 1);
  EXPECT_EQ(plan.host.config.max_restarts(), 0);
  EXPECT_THAT(plan.shown.notes, testing::IsEmpty()) << "nothing is silenced by itself";
  EXPECT_EQ(Planned({"--nnodes", "2", "--node-rank", "1"}, trainer).view.source, "flags");
  trainer["CLUSTER_SPEC"] = kThreeNodes;
  EXPECT_THAT(std::string(AsStd(TryPlan({}, trainer).status().message())),
              testing::AllOf(HasSubstr("vertex (CLUSTER_SPEC)"), HasSubstr("trainer (PET_NODE_RANK)")));
  EXPECT_EQ(Planned({"--source", "vertex"}, trainer).view.source, "vertex");
}

TEST(PlanTest, AnElasticPytorchJobHasItsRange) {
  const RunPlan plan = Planned({}, {{"PET_NNODES", "2:4"}, {"PET_RDZV_ENDPOINT", "e-worker-0:23456"}});
  EXPECT_EQ(plan.view.source, "pytorchjob");
  EXPECT_EQ(plan.host.config.min_nodes(), 2);
  EXPECT_EQ(plan.host.config.max_nodes(), 4);
  EXPECT_FALSE(plan.host.config.has_place());
}

TEST(PlanTest, VertexReplicasWaitLongerForEachOther) {
  const auto minutes = [](const RunPlan& plan) { return plan.host.config.join_timeout_ms() / 60'000; };
  const Environment replica = {{"CLUSTER_SPEC", kThreeNodes}};
  EXPECT_EQ(minutes(Planned({}, replica)), 45);
  EXPECT_EQ(Line(Planned({}, replica), "join-timeout").origin, "Vertex AI");
  EXPECT_EQ(minutes(Planned({"--nnodes=2", "--rdzv-endpoint=a"}, replica)), 45) << "they are still on Vertex AI";
  EXPECT_EQ(minutes(Planned({"--join-timeout=5m"}, replica)), 5);
  EXPECT_EQ(minutes(Planned({"--rdzv-conf=join_timeout=300"}, replica)), 5);
  EXPECT_EQ(minutes(Planned({}, {{"CLUSTER_SPEC", kThreeNodes}, {kRedrawsVariable, "0"}})), 10) << "muster local";
  EXPECT_EQ(minutes(Planned({})), 10);
}

TEST(PlanTest, SlurmHasShorterTimeouts) {
  const Environment step = {
      {"SLURM_JOB_ID", "7"},         {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "n[1-2]"},
      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_NODEID", "1"},  {"SLURM_LOCALID", "0"},
      {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"},  {"SLURM_NTASKS", "2"}};
  const RunPlan plan = Planned({}, step);
  EXPECT_EQ(plan.view.source, "slurm");
  EXPECT_EQ(plan.host.config.rejoin_timeout_ms(), absl::ToInt64Milliseconds(absl::Minutes(5)));
  EXPECT_EQ(plan.host.config.coordinator_timeout_ms(), absl::ToInt64Milliseconds(absl::Minutes(5)));
  EXPECT_EQ(Line(plan, "rejoin-timeout").origin, "Slurm");
  EXPECT_EQ(Planned({"--rejoin-timeout", "20"}, step).host.config.rejoin_timeout_ms(), 20'000);
  const RunPlan vertex = Planned({}, {{"CLUSTER_SPEC", kThreeNodes}});
  EXPECT_EQ(vertex.host.config.rejoin_timeout_ms(), absl::ToInt64Milliseconds(absl::Minutes(30)));
  EXPECT_EQ(vertex.host.config.coordinator_timeout_ms(), absl::ToInt64Milliseconds(absl::Minutes(15)));
}

TEST(PlanTest, EachPlatformHasItsOwnTerminationGrace) {
  const auto grace = [](const Environment& environment, const Words& words = {}) {
    return absl::ToInt64Seconds(Planned(words, environment).host.termination_grace);
  };
  const Environment pod = {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  Environment vertex = {{"CLUSTER_SPEC", kThreeNodes}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  EXPECT_EQ(grace({}), 30);
  EXPECT_EQ(grace(pod), 25);
  EXPECT_EQ(grace(vertex), 8);
  EXPECT_EQ(grace({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "n1"}}), 25);
  EXPECT_EQ(grace(pod, {"--preemption-notice", "gce"}), 10);
  EXPECT_EQ(grace(pod, {"--preemption-notice", "file:/x"}), 25);
  EXPECT_EQ(grace(vertex, {"--termination-grace", "20"}), 20);
  EXPECT_EQ(
      grace(
          {{"JOB_COMPLETION_INDEX", "0"}, {"HOSTNAME", "j-0"}, {"MUSTER_SUBDOMAIN", "s"}, {"MUSTER_NNODES", "2"}}),
      25)
      << "only pods have these variables";
}

TEST(PlanTest, ThePlatformIsKnownDespiteMembershipOptions) {
  const Environment vertex = {{"CLUSTER_SPEC", kThreeNodes}, {"AIP_MODEL_DIR", "gs://b/model/"}};
  for (const Words& words : {Words{"--standalone"}, Words{"--nnodes", "1"}}) {
    const RunPlan plan = Planned(words, vertex);
    EXPECT_EQ(plan.view.source, "flags");
    EXPECT_EQ(absl::ToInt64Seconds(plan.host.termination_grace), 8);
    EXPECT_EQ(plan.host.retryable_exit_code, 134);
    EXPECT_TRUE(plan.host.config.log_split());
    EXPECT_EQ(plan.view.for_workers.at("OUTPUT_FOLDER"), "/gcs/b/model/");
  }
  const Environment slurm = {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}};
  EXPECT_EQ(absl::ToInt64Seconds(Planned({"--standalone"}, slurm).host.termination_grace), 25);
  const Environment sagemaker = {{"SM_HOSTS", R"(["algo-1"])"}, {"SM_CURRENT_HOST", "algo-1"}};
  const RunPlan plan = Planned({"--standalone", "train.py", "train"}, sagemaker);
  EXPECT_THAT(plan.script_arguments, testing::IsEmpty());
  EXPECT_EQ(plan.launch.report.failure_file, "/opt/ml/output/failure");
  EXPECT_EQ(absl::ToInt64Seconds(plan.host.termination_grace), 110);
}

TEST(PlanTest, SomePlatformsHaveARetryableExitCode) {
  const auto code = [](const Environment& environment, const Words& words = {}) {
    return Planned(words, environment).host.retryable_exit_code;
  };
  Environment kubeflow = {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "m"}};
  EXPECT_EQ(code({}), 0);
  EXPECT_EQ(code({{"CLUSTER_SPEC", kThreeNodes}}), 134);
  EXPECT_EQ(code(kubeflow), 0) << "people set these, too";
  kubeflow["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  EXPECT_EQ(code(kubeflow), 143);
  EXPECT_EQ(code(kubeflow, {"--retryable-exit-code", "0"}), 0);
  EXPECT_EQ(code({{"PET_NNODES", "2"},
                  {"PET_NODE_RANK", "1"},
                  {"PET_MASTER_ADDR", "m"},
                  {"MASTER_ADDR", "m"},
                  {"RANK", "1"},
                  {"WORLD_SIZE", "2"}}),
            143)
      << "only the operator of PyTorchJobs sets all of them";
  EXPECT_EQ(code({{"MUSTER_RETRYABLE_EXIT_CODE", "137"}}), 137);
  EXPECT_EQ(ExitCodeOf(TryPlan({"--retryable-exit-code", "256"}).status()), 64);
}

TEST(PlanTest, TheOptionGivesAnIndexedJobItsNodes) {
  const Environment environment = {{"JOB_COMPLETION_INDEX", "2"}, {"HOSTNAME", "j-2"}, {"MUSTER_SUBDOMAIN", "s"}};
  const RunPlan plan = Planned({"--nnodes", "2:3", "--master-port", "1234"}, environment);
  EXPECT_EQ(plan.view.source, "indexed-job");
  EXPECT_EQ(plan.host.config.place(), 2);
  EXPECT_EQ(plan.host.config.min_nodes(), 2);
  EXPECT_EQ(plan.host.config.primary().host(), "j-0.s");
  EXPECT_EQ(plan.host.config.primary().port(), 1234u);
  EXPECT_EQ(ExitCodeOf(TryPlan({}, environment).status()), 65);
  EXPECT_TRUE(Planned({"--standalone"}, environment).host.config.single_node());
}

TEST(PlanTest, OptionsBeatThePlatformsWorkerCount) {
  Environment environment = {{"MASTER_ADDR", "a"}, {"NODE_RANK", "0"}, {"NNODES", "2"}, {"NPROC_PER_NODE", "6"}};
  EXPECT_EQ(Planned({}, environment).host.config.slots(), 6);
  EXPECT_EQ(Line(Planned({}, environment), "nproc-per-node").origin, "NPROC_PER_NODE");
  EXPECT_EQ(Planned({"--nproc-per-node", "2"}, environment).host.config.slots(), 2);
  environment["NPROC_PER_NODE"] = "many";
  EXPECT_THAT(std::string(AsStd(TryPlan({}, environment).status().message())),
              HasSubstr("NPROC_PER_NODE many: expected a whole number"));
}

TEST(PlanTest, EmptyAndServiceVariablesAreNoSettings) {
  const RunPlan plan = Planned({}, {{"MUSTER_NNODES", ""}, {"MUSTER_MASTER_PORT", "tcp://10.0.0.1:29400"}});
  EXPECT_TRUE(plan.host.config.single_node());
}

TEST(PlanTest, InsideAWorkerTheOuterRankIsDropped) {
  const Environment nested = {{"LOCAL_RANK", "1"},
                              {"TORCHELASTIC_RUN_ID", "x"},
                              {"PET_NODE_RANK", "5"},
                              {"MUSTER_NNODES", "7:9"},
                              {"CLUSTER_SPEC", kThreeNodes}};
  EXPECT_TRUE(Planned({"--standalone"}, nested).host.config.single_node());
  const RunPlan plan = Planned({"--nnodes", "2", "--rdzv-endpoint", "h"}, nested);
  EXPECT_EQ(plan.host.config.max_nodes(), 2);
  EXPECT_FALSE(plan.host.config.has_place());
  EXPECT_EQ(ExitCodeOf(TryPlan({}, nested).status()), 65);
}

// The check begins with the option alone.
TEST(PlanTest, AWrongCertificateIsNamedByItsFile) {
  Machine machine = MachineWith(0);
  machine.read_secret = [](const std::string& path, FileKind, size_t) -> absl::StatusOr<SecretFile> {
    return SecretFile{.text = "x", .path = path, .warning = ""};
  };
  std::string fault;
  machine.check_certificates = [&fault](const v1::NodeConfig&) { return absl::FailedPreconditionError(fault); };
  const auto why_not = [&](const Words& words, const Environment& environment) {
    return std::string(Plan(*ParseCommandLine(RunOptions(), words), environment, machine).status().message());
  };
  const Words words = {"--tls-cert", "c.pem", "--tls-key", "c.key", "--tls-ca", "ca.pem"};
  for (const auto& [said, shown] : std::vector<std::pair<std::string, std::string>>{
           {"--tls-cert: it has expired", "--tls-cert c.pem: it has expired"},
           {"--tls-key: it is another's", "--tls-key c.key: it is another's"},
           {"--tls-ca: it is empty", "--tls-ca ca.pem: it is empty"},
           {"--tls-name x: it is none", "--tls-name x: it is none"}}) {
    fault = said;
    EXPECT_EQ(why_not(words, {}), shown);
  }
  fault = "--tls-ca: it is empty";
  EXPECT_EQ(why_not({words.begin(), words.end() - 2}, {{"MUSTER_TLS_CA", "/a"}}), "MUSTER_TLS_CA /a: it is empty");
}

TEST(PlanTest, RdzvConfGivesDefaultTimeouts) {
  const RunPlan plan =
      Planned({"--rdzv-conf", "join_timeout=20,last_call_timeout=3,read_timeout=1", "--last-call-timeout", "4"});
  EXPECT_EQ(plan.host.config.join_timeout_ms(), 20'000);
  EXPECT_EQ(plan.host.config.last_call_ms(), 4'000);
}

TEST(PlanTest, AShortLeaseHasAShortReconnectGrace) {
  EXPECT_EQ(Planned({"--lease", "2"}).host.config.reconnect_grace_ms(), 1'000);
}

TEST(PlanTest, TheGraceDependsOnTheSupervisor) {
  EXPECT_EQ(Planned({}, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}).host.termination_grace, absl::Seconds(25));
  EXPECT_EQ(Planned({"--termination-grace", "500ms"}).host.termination_grace, absl::Milliseconds(500));
  Machine machine = MachineWith(0);
  machine.first_process = true;
  EXPECT_EQ(Plan(CommandLine(), {}, machine)->host.termination_grace, absl::Seconds(8));
  EXPECT_EQ(Plan(CommandLine(), {{"KUBERNETES_SERVICE_HOST", "x"}}, machine)->host.termination_grace,
            absl::Seconds(25));
}

}  // namespace
}  // namespace muster::cli
