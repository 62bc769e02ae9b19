// --debug: the worker's command, what is off during it, and what it contradicts.
#include "cli/plan/debugger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/status_macros.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_table.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/make_plan.h"
#include "cli/plan/program.h"
#include "tests/unit/cli/plan/plan_fixture.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

absl::StatusOr<RunPlan> TryOn(const Words& words, bool keyboard, const Environment& environment = {}) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words);
  if (!line.ok()) return line.status();
  Machine machine = MachineWith(0);
  machine.dialogue = keyboard;
  return Plan(*line, environment, machine);
}

RunPlan Launched(Words words) {
  words.insert(words.begin(), {"--nproc-per-node=2", "--python=/p/python"});
  absl::StatusOr<RunPlan> plan = TryOn(words, /*keyboard=*/true);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? WithProgram(*std::move(plan)) : RunPlan();
}

std::string Refused(const Words& words, const Environment& environment = {}) {
  const absl::Status status = TryOn(words, /*keyboard=*/true, environment).status();
  EXPECT_EQ(ExitCodeOf(status), 64) << status;
  return std::string(AsStd(status.message()));
}

TEST(DebuggerTest, DebugpyWaitsForAClient) {
  const RunPlan node = Launched({"--debug=1:5678", "t.py", "$local_rank", "-x"});
  ASSERT_EQ(node.launch.debugged_argv.size(), 2u);
  EXPECT_THAT(node.launch.debugged_argv[1],
              ElementsAre("/p/python", "-u", "-X", "frozen_modules=off", "-m", "debugpy", "--listen",
                          "127.0.0.1:5678", "--wait-for-client", "t.py", "1", "-x"));
  EXPECT_THAT(node.launch.argv[1], ElementsAre("/p/python", "-u", "t.py", "1", "-x")) << "of the others";
  ASSERT_TRUE(node.launch.debugged);
  EXPECT_EQ(node.launch.debugged->rank, 1);
  EXPECT_EQ(node.launch.debugged->port, 5678);
  EXPECT_EQ(node.launch.debugged->option, "--debug 1:5678");
  EXPECT_EQ(node.launch.stdin_rule.kind, host::StdinRule::kDefault);
}

TEST(DebuggerTest, PdbRunsTheScriptAndReadsTheKeyboard) {
  const RunPlan node = Launched({"--debug=1", "t.py", "a"});
  const std::vector<std::string>& argv = node.launch.debugged_argv[1];
  ASSERT_EQ(argv.size(), 6u);
  EXPECT_EQ(argv[2], "-c");
  EXPECT_THAT(argv[3], HasSubstr("pdb.main()"));
  EXPECT_EQ(argv[4], "t.py");
  EXPECT_EQ(node.launch.stdin_rule.kind, host::StdinRule::kRank);
  EXPECT_EQ(node.launch.stdin_rule.rank, 1);
}

TEST(DebuggerTest, AModuleStaysAModule) {
  EXPECT_THAT(Launched({"--debug=1:5678", "-m", "a.b"}).launch.debugged_argv[0],
              ElementsAre("/p/python", "-u", "-X", "frozen_modules=off", "-m", "debugpy", "--listen",
                          "127.0.0.1:5678", "--wait-for-client", "-m", "a.b"));
  const auto argv = Launched({"--debug=1", "-m", "a.b"}).launch.debugged_argv[0];
  EXPECT_EQ(argv[4] + " " + argv[5], "-m a.b");
  EXPECT_EQ(Launched({"--debug=1", "--run-path", "t"}).launch.debugged_argv[0][4], "t");
}

TEST(DebuggerTest, NothingEndsAJobThatIsDebugged) {
  const Environment platform = {{"CLUSTER_SPEC", kThreeNodes}};
  absl::StatusOr<RunPlan> plan = TryOn({"--debug=1:5678", "--hang-timeout=5m", "t.py"}, false, platform);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->host.config.hang_timeout_ms(), 0);
  EXPECT_EQ(plan->host.config.max_restarts(), 0);
  EXPECT_EQ(plan->host.config.scale_up(), v1::NodeConfig::SCALE_UP_ON_RESTART);
  for (const char* name : {"hang-timeout", "max-restarts", "scale-up", "debug"}) {
    EXPECT_EQ(Line(*plan, name).origin, "--debug") << name;
    const auto is_it = [name](const SettingLine& line) { return line.name == name; };
    EXPECT_EQ(std::count_if(plan->shown.lines.begin(), plan->shown.lines.end(), is_it), 1) << name;
  }
  EXPECT_THAT(plan->shown.notes, testing::Contains("--hang-timeout is off, because --debug is given"));
  const RunPlan node = WithProgram(*std::move(plan));
  EXPECT_FALSE(node.launch.watches_activity);
  EXPECT_TRUE(node.launch.environment.waits_for_debugger);
}

TEST(DebuggerTest, RestartsThatAreAskedForRemain) {
  const RunPlan plan = Planned({"--debug=0:5678", "--max-restarts=2", "--scale-up=immediate", "t.py"});
  EXPECT_EQ(plan.host.config.max_restarts(), 2);
  EXPECT_EQ(plan.host.config.scale_up(), v1::NodeConfig::SCALE_UP_IMMEDIATE);
}

TEST(DebuggerTest, WithoutDebugNothingChanges) {
  RunPlan plan = Planned({"--hang-timeout=5m", "t.py"}, {{"CLUSTER_SPEC", kThreeNodes}});
  EXPECT_EQ(plan.host.config.hang_timeout_ms(), 300'000);
  EXPECT_EQ(plan.host.config.max_restarts(), kPlatformMaxRestarts);
  EXPECT_EQ(plan.host.config.scale_up(), v1::NodeConfig::SCALE_UP_IMMEDIATE);
  const RunPlan node = WithProgram(std::move(plan));
  EXPECT_FALSE(node.launch.debugged);
  EXPECT_FALSE(node.launch.environment.waits_for_debugger);
}

TEST(DebuggerTest, ContradictionsAreNamed) {
  EXPECT_THAT(Refused({"--debug=0", "--no-python", "true"}), StartsWith("--debug 0: expected a Python script"));
  EXPECT_EQ(Refused({"--debug=0", "--stdin=none", "t.py"}),
            "--stdin none: pdb needs the keyboard for rank 0 (--debug): leave one of them out, or give --debug "
            "0:PORT for debugpy");
  EXPECT_THAT(Refused({"--debug=1", "--nproc-per-node=2", "--stdin=0", "t.py"}), StartsWith("--stdin 0:"));
  EXPECT_TRUE(TryOn({"--debug=0", "--stdin=0", "t.py"}, true).ok());
  EXPECT_TRUE(TryOn({"--debug=0:5678", "--stdin=none", "t.py"}, true).ok());
  EXPECT_TRUE(TryOn({"--debug=0", "-r=3", "t.py"}, true).ok()) << "pdb writes to the terminal anyway";
  EXPECT_THAT(Refused({"--debug=0", "-r=3", "t.py"}, {{kRedrawsVariable, "0"}}), StartsWith("--redirects 3:"));
}

TEST(DebuggerTest, PdbNeedsATerminal) {
  const absl::Status status = TryOn({"--debug=0", "t.py"}, /*keyboard=*/false).status();
  EXPECT_EQ(ExitCodeOf(status), 64);
  EXPECT_THAT(std::string(AsStd(status.message())), HasSubstr("for debugpy give --debug 0:PORT"));
  EXPECT_TRUE(TryOn({"--debug=0:5678", "t.py"}, false).ok());
  EXPECT_TRUE(TryOn({"--debug=0", "t.py"}, false, {{"CLUSTER_SPEC", kThreeNodes}}).ok()) << "rank 0 is elsewhere";
  EXPECT_TRUE(TryOn({"--debug=0", "t.py"}, false, {{kRedrawsVariable, "0"}}).ok()) << "muster local has it";
}

TEST(DebuggerTest, AScriptThatNoDebuggerCanShowIsRefused) {
  EXPECT_EQ(Launched({"--debug=0:5678", "-"}).check.exit_code, 64);
  const auto folder = [](const std::string& path) {
    machine::FileState state = Everything(path);
    state.is_directory = path == "folder";
    return state;
  };
  const auto check = [&](const char* option) {
    return WithProgram(*TryOn({option, "--python=/p/python", "folder"}, true), {}, folder).check;
  };
  EXPECT_EQ(check("--debug=0").problem,
            "--debug 0: pdb runs no directory: name folder/__main__.py, or give --debug 0:PORT for debugpy");
  EXPECT_EQ(check("--debug=0").exit_code, 64);
  EXPECT_EQ(check("--debug=0:5678").exit_code, 0);
}

TEST(DebuggerTest, AMissingDebugpyIsNamedWithItsPython) {
  const Setting<DebugChoice> debug = {{0, 5678}, Origin::kFlag, "--debug", "0:5678"};
  const machine::ProgramCheck check = WithoutDebugpy(debug, "/p/python");
  EXPECT_EQ(check.exit_code, 127);
  EXPECT_EQ(check.problem,
            "--debug 0:5678: /p/python has no module debugpy; install it: /p/python -m pip install debugpy");
}

TEST(DebuggerTest, ANodeWithoutWorkersIgnoresIt) {
  EXPECT_TRUE(TryOn({"--debug=0", "--no-python", "t"}, false, {{"CLUSTER_SPEC", kReducer}}).ok());
}

}  // namespace
}  // namespace muster::cli
