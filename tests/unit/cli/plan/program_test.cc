// Results of a plan: a worker's command, the report of settings, and variables that are not settings.
#include "cli/plan/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "base/core/status_macros.h"
#include "cli/env/env_report.h"
#include "tests/unit/cli/plan/plan_fixture.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ProgramTest, AWorkersCommandMatchesTorchruns) {
  const RunPlan node =
      WithProgram(Planned({"--nproc-per-node", "2", "--python", "/p/python", "t.py", "${local_rank}", "-x"}));
  ASSERT_EQ(node.launch.argv.size(), 2u);
  EXPECT_THAT(node.launch.argv[1], ElementsAre("/p/python", "-u", "t.py", "1", "-x"));
  const RunPlan module = WithProgram(Planned({"--python=/p/python", "-m", "a.b"}));
  EXPECT_THAT(module.launch.argv[0], ElementsAre("/p/python", "-u", "-m", "a.b"));
  const RunPlan program = WithProgram(Planned({"--no-python", "/bin/echo", "a"}));
  EXPECT_THAT(program.launch.argv[0], ElementsAre("/bin/echo", "a"));
  const RunPlan found = WithProgram(Planned({"--no-python", "echo", "a"}), {{"PATH", "/p"}});
  EXPECT_EQ(found.launch.file, "/p/echo");
  EXPECT_THAT(found.launch.argv[0], ElementsAre("echo", "a"));  // the form that Python's Popen uses
}

TEST(ProgramTest, AMissingScriptIsReportedToAllNodes) {
  const auto no_script = [](const std::string& path) {
    return path == "t.py" ? machine::FileState() : Everything(path);
  };
  const RunPlan node = WithProgram(
      Planned({"--python", "/p/python", "--node-setup", "fetch", "t.py"}, {{"CLUSTER_SPEC", kThreeNodes}}), {},
      no_script);
  EXPECT_EQ(node.check.exit_code, 127);
  EXPECT_EQ(node.host.config.cannot_start().exit_code(), 127);
  EXPECT_EQ(node.host.config.cannot_start().node_rank(), 2);
  EXPECT_EQ(node.host.setup_timeout, absl::ZeroDuration()) << "nothing is prepared for a round that cannot be";
}

TEST(ProgramTest, NobodyInheritsTheToken) {
  EXPECT_THAT(WithProgram(Planned({"t.py"}), {{"MUSTER_TOKEN", "secret"}, {"A", "b"}}).launch.inherited,
              ElementsAre(Pair("A", "b")));
}

TEST(ProgramTest, CommandsOfTheNodeHaveATimeLimit) {
  const auto launch = [](std::vector<std::string> options) {
    options.emplace_back("t.py");
    return WithProgram(Planned(options));
  };
  const RunPlan none = launch({});
  EXPECT_EQ(none.launch.setup + none.launch.on_success + none.launch.on_failure, "");
  EXPECT_EQ(none.host.setup_timeout, absl::ZeroDuration());
  const RunPlan setup = launch({"--node-setup", "fetch"});
  EXPECT_EQ(setup.launch.setup, "fetch");
  EXPECT_EQ(setup.host.setup_timeout, absl::Minutes(30));
  const RunPlan last = launch(
      {"--on-success", "upload", "--on-failure", "tell", "--hook-timeout", "5m", "--termination-grace", "7s"});
  EXPECT_EQ(last.host.setup_timeout, absl::ZeroDuration()) << "there is no setup";
  EXPECT_EQ(last.launch.on_success, "upload");
  EXPECT_EQ(last.launch.on_failure, "tell");
  EXPECT_EQ(last.launch.last_command_limits.run, absl::Minutes(5));
  EXPECT_EQ(last.launch.last_command_limits.grace, absl::Seconds(7));
}

TEST(ProgramTest, SeveralWorkersCannotReadOneStandardInput) {
  for (const std::string script : {"-", "/dev/stdin", "/dev/fd/0"}) {
    const auto check = [&script](const char* workers) {
      return WithProgram(Planned({"--python", "/p/python", "--nproc-per-node", workers, script})).check;
    };
    EXPECT_EQ(check("2").exit_code, 64);
    EXPECT_EQ(check("2").problem,
              "the script " + script + " is standard input, which 2 workers cannot all read: save it as a file");
    EXPECT_EQ(check("1").exit_code, 0);
  }
}

TEST(ProgramTest, AnObserverNeedsNoProgram) {
  const RunPlan node = WithProgram(Planned({"--node-setup", "fetch"}, {{"CLUSTER_SPEC", kReducer}}), {},
                                   [](const std::string&) { return machine::FileState(); });
  EXPECT_EQ(node.check.exit_code, 0);
  EXPECT_FALSE(node.host.config.has_cannot_start());
  EXPECT_EQ(node.host.setup_timeout, absl::ZeroDuration()) << "it prepares nothing for workers";
}

TEST(VariablesTest, AMistypedVariableGetsASuggestion) {
  const auto warnings = [](const Environment& environment) { return Planned({}, environment).shown.warnings; };
  EXPECT_THAT(warnings({{"MUSTER_NPROCS_PER_NODE", "2"}}),
              ElementsAre("MUSTER_NPROCS_PER_NODE: no such setting; did you mean MUSTER_NPROC_PER_NODE?"));
  EXPECT_THAT(warnings({{"PET_MAX_RESTART", "2"}}),
              ElementsAre("PET_MAX_RESTART: no such setting; did you mean PET_MAX_RESTARTS?"));
  EXPECT_THAT(warnings({{"MUSTER_TOKENS", "x"}}),
              ElementsAre("MUSTER_TOKENS: no such setting; did you mean MUSTER_TOKEN?"));
}

TEST(VariablesTest, KnownAndForeignVariablesAreNoErrors) {
  EXPECT_THAT(Planned({}, {{"MUSTER_TOKEN", "twenty-two-characters-"},
                           {"MUSTER_LOG_LEVEL", "info"},
                           {"MUSTER_LEASE", "3"},
                           {"MUSTER_PORTS", "tcp://10.0.0.1:80"},
                           {"MUSTER_HOST_ID", "h"},
                           {"PET_NAME", "Rex"},
                           {"PETS_NNODE", "1"}})
                  .shown.warnings,
              testing::IsEmpty());
}

TEST(EnvReportTest, TheTableHasNoDuplicates) {
  const RunPlan plan = Planned({}, {});
  const machine::Interpreter interpreter{"/p/python", "python is /p/python: it is the first on PATH"};
  const std::string text = EnvTable({plan, interpreter, machine::Accelerators(), {}});
  EXPECT_THAT(text, HasSubstr("/p/python                    it is the first on PATH\n"));
  EXPECT_THAT(text, HasSubstr("primary                 none (single-node job)\n"));
  EXPECT_THAT(text, HasSubstr("heartbeat-interval      depends on the job's size    default\n"));
}

TEST(EnvReportTest, AWideValueHasItsOwnLine) {
  const auto table = [](const Environment& environment) {
    return EnvTable({Planned({}, environment), {}, {}, {}});
  };
  EXPECT_THAT(table({{"CLUSTER_SPEC", kThreeNodes}}),
              HasSubstr("\nnodes                   a-0:2222 b-0:2222 b-1:2222   CLUSTER_SPEC\n"));
  const Environment wide = {
      {"TF_CONFIG", R"({"cluster": {"worker": ["one.trainers.default.svc:1", "two.trainers.default.svc:1"]},
                        "task": {"type": "worker", "index": 1}})"}};
  EXPECT_THAT(table(wide), HasSubstr("\nnodes                   one.trainers.default.svc:1\n"
                                     "                        two.trainers.default.svc:1\n"
                                     "                        (TF_CONFIG)\n"));
}

TEST(EnvReportTest, TheObjectHasItsFieldsAndNoSecret) {
  const Environment environment = {
      {"CLUSTER_SPEC", kThreeNodes}, {"MUSTER_TOKEN", "hush-hush-hush-hush-hush"}, {"OTHER", "unseen"}};
  const RunPlan plan = Planned({}, environment);
  const machine::Interpreter interpreter{"/p/python", "because"};
  const std::string text = EnvJson({plan, interpreter, machine::Accelerators(), environment});
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json["source"], "vertex");
  EXPECT_EQ(json["primary"]["host"], "a-0");
  EXPECT_EQ(json["primary"]["port"], 2222);
  EXPECT_EQ(json["node_rank"], 2);
  EXPECT_EQ(json["nnodes"], 3);
  EXPECT_EQ(json["nodes"].size(), 3u);
  EXPECT_EQ(json["role"], "trainer");
  EXPECT_EQ(json["evidence"], "CLUSTER_SPEC");
  EXPECT_GE(json["explanation"].size(), 3u);
  EXPECT_FALSE(json.contains("checks"));
  EXPECT_TRUE(json["run_id"].is_string());
  EXPECT_EQ(json["interpreter"]["path"], "/p/python");
  EXPECT_EQ(json["accelerators"]["count"], 0);
  EXPECT_EQ(json["settings"]["lease"]["value"], "10s");
  EXPECT_THAT(text, testing::Not(HasSubstr("hush")));
  EXPECT_THAT(text, testing::Not(HasSubstr("unseen")));
}

TEST(EnvReportTest, AReplicaThatDoesNotTrainHasNoRank) {
  const Environment environment = {{"CLUSTER_SPEC", kReducer}};
  const RunPlan plan = Planned({}, environment);
  const nlohmann::json json =
      nlohmann::json::parse(EnvJson({plan, machine::Interpreter(), machine::Accelerators(), environment}));
  EXPECT_EQ(json["role"], "aux");
  EXPECT_TRUE(json["node_rank"].is_null());
  EXPECT_EQ(json["nnodes"], 2);
}

TEST(EnvReportTest, SentencesNameSourcesAndConsequences) {
  const auto explained = [](const Words& words, const Environment& environment) {
    return absl::StrJoin(Explanation(Planned(words, environment)), " ");
  };
  EXPECT_EQ(
      explained({"--nproc-per-node", "4"}, {{"CLUSTER_SPEC", kThreeNodes}}),
      "The membership was read from CLUSTER_SPEC (Vertex AI). This is node 2 of nodes 0 to 2. All nodes connect "
      "to the primary, a-0:2222. It starts 4 workers, ranks 8 to 11 if the other nodes start as many; when a "
      "worker fails, all restart, at most 3 times.");
  EXPECT_EQ(
      explained({}, {}),
      "Nothing here names other nodes, so this is a single-node job. It listens on no port. It starts 1 worker; "
      "when a worker fails, the job ends.");
  EXPECT_THAT(explained({}, {{"CLUSTER_SPEC", kReducer}}), HasSubstr("which does not train"));
  EXPECT_THAT(explained({"--coordinator", "c", "--nnodes", "2", "--rdzv-id", "x"}, {}),
              testing::EndsWith("; muster coordinator has the restart policy."));
  const std::string task = R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})";
  EXPECT_THAT(explained({}, {{"TF_CONFIG", task}}),
              testing::StartsWith("The membership was read from TF_CONFIG. "));
}

TEST(EnvReportTest, TheTableNamesEachValuesSource) {
  const Environment environment = {{"MUSTER_LEASE", "20"}};
  const RunPlan plan = Planned({"--max-restarts", "2"}, environment);
  const std::string table = EnvTable({plan, machine::Interpreter(), machine::Accelerators(), environment});
  EXPECT_THAT(table, testing::ContainsRegex("lease +20s +MUSTER_LEASE"));
  EXPECT_THAT(table, testing::ContainsRegex("max-restarts +2 +--max-restarts"));
  EXPECT_THAT(table, testing::ContainsRegex("join-timeout +10m +default"));
  const RunPlan alone = Planned({"--coordinator", "c", "--nnodes", "2", "--rdzv-id", "x"}, environment);
  EXPECT_THAT(EnvTable({alone, machine::Interpreter(), machine::Accelerators(), environment}),
              testing::ContainsRegex("max-restarts +set on the coordinator +muster coordinator"));
}

TEST(Settings, AnAddressMayStandInBracketsAndHasNoPort) {
  const Words nodes = {"--nnodes", "2", "--node-rank", "0", "--master-addr", "[fd00::1]", "--local-addr"};
  const auto with = [&](const std::string& address) {
    Words words = nodes;
    words.insert(words.end(), {address, "train.py"});
    return TryPlan(words);
  };
  const auto plan = with("[fd00::2]");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->host.config.local_addr(), "fd00::2");
  EXPECT_EQ(plan->host.config.primary().host(), "fd00::1");
  for (const char* zoned : {"fe80::1%eth0", "[fe80::1%eth0]"}) {
    EXPECT_EQ(with(zoned)->host.config.local_addr(), "fe80::1%eth0");
    for (const char* option : {"--master-addr", "--rdzv-endpoint", "--coordinator"}) {
      EXPECT_THAT(std::string(AsStd(TryPlan({"--nnodes", "2", option, zoned}).status().message())),
                  HasSubstr("expected an address that all nodes can use, without a zone (%)"));
    }
  }
  const std::pair<const char*, const char*> cases[] = {{"10.0.0.1:80", "10.0.0.1:80"},
                                                       {"ten zero", "'ten zero'"},
                                                       {"http://here", "http://here"},
                                                       {"fe80::1%", "fe80::1%"},
                                                       {"a;b", "a;b"},
                                                       {"$(id)", "$(id)"},
                                                       {"a\"b", "a\"b"},
                                                       {"ten\nzero", "ten\\nzero"}};
  for (const auto& [bad, shown] : cases) {
    EXPECT_THAT(std::string(AsStd(with(bad).status().message())),
                HasSubstr(std::string("--local-addr ") + shown + ": expected a host name or an IP address"));
  }
}

TEST(VirtualLocalRank, EachWorkerSeesItsOwnDevice) {
  const Words line = {"--nproc-per-node", "2", "--virtual-local-rank", "train.py"};
  const auto devices = [&](const Environment& environment) {
    return Planned(line, environment).launch.environment.visible_devices;
  };
  EXPECT_THAT(devices({}), ElementsAre(Pair(0, "0"), Pair(1, "1")));
  EXPECT_THAT(devices({{"CUDA_VISIBLE_DEVICES", "5,GPU-a,7"}}), ElementsAre(Pair(0, "5"), Pair(1, "GPU-a")));
  EXPECT_EQ(std::string(AsStd(TryPlan(line, {{"CUDA_VISIBLE_DEVICES", "5"}}).status().message())),
            "--virtual-local-rank: CUDA_VISIBLE_DEVICES has 1 devices for 2 workers");
  EXPECT_THAT(Planned({"--nproc-per-node", "2", "train.py"}).launch.environment.visible_devices,
              ::testing::IsEmpty());
}

}  // namespace
}  // namespace muster::cli
