// Launchers, interpreters and shells in the place of the script.
#include "cli/launchers/inner_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/status_macros.h"
#include "cli/options/option_table.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using Words = std::vector<std::string>;

CommandLine Parse(const Words& words, std::string_view command = "muster run") {
  const auto line = ParseCommandLine(RunOptions(), words, command);
  EXPECT_TRUE(line.ok()) << line.status();
  return *line;
}

// Fails if there is none.
InnerLauncher Find(const Words& words) {
  const auto launcher = FindLauncher(Parse(words), false);
  EXPECT_TRUE(launcher.ok() && *launcher) << launcher.status();
  return launcher.ok() && *launcher ? **launcher : InnerLauncher{};
}

bool FindsNone(const Words& words, bool is_file = false) {
  const auto launcher = FindLauncher(Parse(words), is_file);
  return launcher.ok() && !*launcher;
}

TEST(FindLauncher, KnowsThemByTheirProgramsAndModules) {
  const struct {
    Words words;
    LauncherKind kind;
    const char* name;
  } lines[] = {
      {{"torchrun", "x.py"}, LauncherKind::kTorchrun, "torchrun"},
      {{"/venv/bin/torchrun", "x.py"}, LauncherKind::kTorchrun, "torchrun"},
      {{"--no-python", "torchrun", "x.py"}, LauncherKind::kTorchrun, "torchrun"},
      {{"-m", "torch.distributed.run", "x.py"}, LauncherKind::kTorchrun, "torch.distributed.run"},
      {{"python3", "-m", "torch.distributed.launch", "x.py"},
       LauncherKind::kTorchLaunch,
       "torch.distributed.launch"},
      {{"deepspeed", "x.py"}, LauncherKind::kDeepspeed, "deepspeed"},
      {{"/venv/bin/ds", "x.py"}, LauncherKind::kDeepspeed, "ds"},
      {{"-m", "deepspeed.launcher.runner", "x.py"}, LauncherKind::kDeepspeed, "deepspeed.launcher.runner"},
      {{"accelerate", "launch", "x.py"}, LauncherKind::kPython, "accelerate launch"},
      {{"accelerate-launch", "x.py"}, LauncherKind::kPython, "accelerate-launch"},
      {{"-m", "accelerate.commands.launch", "x.py"}, LauncherKind::kPython, "accelerate.commands.launch"},
      {{"tune", "run", "recipe"}, LauncherKind::kPython, "tune run"},
  };
  for (const auto& [words, kind, name] : lines) {
    const InnerLauncher launcher = Find(words);
    EXPECT_EQ(launcher.kind, kind) << name;
    EXPECT_EQ(NameOf(launcher), name);
  }
}

TEST(FindLauncher, TakesItsWordsAndItsInterpreterWhateverOptionsThatHas) {
  const InnerLauncher launcher = Find({"--nproc-per-node=2", "/usr/bin/python3.11", "-X", "dev", "-u", "-m",
                                       "torch.distributed.run", "--nnodes=1", "x.py", "-m"});
  EXPECT_EQ(launcher.interpreter, "/usr/bin/python3.11");
  EXPECT_EQ(launcher.program, "torch.distributed.run");
  EXPECT_THAT(launcher.words, ElementsAre("--nnodes=1", "x.py", "-m"));
  EXPECT_THAT(launcher.interpreter_options, ElementsAre("-X", "dev", "-u"));
  for (const Words& words :
       {Words{"python", "-mtorch.distributed.run", "x.py"},
        {"python3.13t", "-um", "torch.distributed.run", "x.py"},
        {"python", "--check-hash-based-pycs", "never", "-Wd", "-m", "torch.distributed.run", "x.py"}}) {
    EXPECT_EQ(Find(words).program, "torch.distributed.run");
    EXPECT_THAT(Find(words).words, ElementsAre("x.py"));
  }
}

TEST(FindLauncher, LeavesScriptsModulesAndTorchrunItselfAlone) {
  EXPECT_TRUE(FindsNone({"torchrun"}, true)) << "a script of this name";
  EXPECT_TRUE(FindsNone({"train.py", "torchrun"}));
  EXPECT_TRUE(FindsNone({"-m", "torchrun"})) << "a module of this name";
  EXPECT_TRUE(FindsNone({"python", "x.py"}));
  EXPECT_TRUE(FindsNone({"python", "-c", "-m", "torch.distributed.run"}));
  EXPECT_TRUE(FindsNone({"--no-python", "./tune", "--lr"}, true)) << "a program of this name";
  EXPECT_TRUE(FindsNone({"python", "-m"}));
  const auto nested = FindLauncher(Parse({"--no-python", "torchrun", "x.py"}, kTorchrun), false);
  EXPECT_TRUE(nested.ok() && !*nested);
}

TEST(FindLauncher, RefusesOtherCommandsOfALauncher) {
  const auto launcher = FindLauncher(Parse({"accelerate", "config"}), false);
  EXPECT_EQ(launcher.status().message(),
            "accelerate config: muster starts only accelerate launch; type the rest without muster run");
}

TEST(Join, OptionsInFrontTakePrecedenceAndAreNamed) {
  const CommandLine outer = Parse({"--nproc-per-node=4", "--max-restarts=1", "--standalone", "-m",
                                   "torch.distributed.run", "--nproc-per-node=2", "--standalone", "x.py", "a"});
  const InnerLauncher launcher = *FindLauncher(outer, false).value();
  auto own = ReadTorchLine(launcher);
  ASSERT_TRUE(own.ok()) << own.status();
  const JoinedLine joined = Join(OptionsInFrontOf(outer), {*own, {}});
  EXPECT_THAT(joined.line.given, UnorderedElementsAre(Pair("nproc-per-node", "4"), Pair("max-restarts", "1"),
                                                      Pair("standalone", "true")));
  EXPECT_EQ(joined.line.script, "x.py");
  EXPECT_THAT(joined.notes, ElementsAre("--nproc-per-node=4, given in front, takes precedence over the launcher's "
                                        "--nproc-per-node=2"));
}

TEST(Join, AnOptionInFrontVoidsWhatAnswersTheSameQuestion) {
  using Options = std::map<std::string, std::string>;
  const auto joined = [](const Options& in_front, const Options& own) {
    CommandLine line;
    line.given = own;
    return Join(in_front, {line, {}});
  };
  const JoinedLine addressed = joined({{"master-addr", "a"}}, {{"rdzv-endpoint", "b:1"}, {"node-rank", "1"}});
  EXPECT_THAT(addressed.line.given, UnorderedElementsAre(Pair("master-addr", "a"), Pair("node-rank", "1")));
  EXPECT_THAT(
      addressed.notes,
      ElementsAre("--master-addr=a, given in front, takes precedence over the launcher's --rdzv-endpoint=b:1"));
  EXPECT_THAT(joined({{"nnodes", "2"}}, {{"standalone", "true"}}).line.given, ElementsAre(Pair("nnodes", "2")));
  EXPECT_THAT(joined({{"standalone", "true"}}, {{"nnodes", "2"}, {"master-addr", "a"}}).line.given,
              ElementsAre(Pair("standalone", "true")));
  EXPECT_THAT(
      joined({{"master-addr", "a"}, {"master-port", "1"}}, {{"master-port", "2"}}).line.given["master-port"], "1");
}

TEST(IsNoLauncher, AScriptThatNamesNoLaunchersModule) {
  EXPECT_TRUE(IsNoLauncher("#!/usr/bin/python3\nimport tuning"));
  EXPECT_TRUE(IsNoLauncher("import tuning"));
  EXPECT_FALSE(IsNoLauncher("#!/venv/bin/python\nfrom torch.distributed.run import main"));
  EXPECT_FALSE(
      IsNoLauncher("\x7f"
                   "ELF"));
  EXPECT_FALSE(IsNoLauncher("")) << "there is no such file, which is said elsewhere";
}

TEST(ReadTorchLine, ReadsAsTorchrunDoes) {
  const auto line = ReadTorchLine(Find({"torchrun", "--nnodes=1", "x.py", "--", "-a"}));
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->as_torchrun);
  EXPECT_THAT(line->script_arguments, ElementsAre("-a"));
}

TEST(ReadTorchLine, OfLaunchPassesTheLocalRankWithoutUseEnv) {
  const auto given = [](const Words& options) {
    Words words = {"python", "-m", "torch.distributed.launch"};
    words.insert(words.end(), options.begin(), options.end());
    const auto line = ReadTorchLine(Find(words));
    return line.ok() ? line->given : std::map<std::string, std::string>{{"error", line.status().ToString()}};
  };
  EXPECT_THAT(given({"x.py", "--use-env"}), ElementsAre(Pair("pass-local-rank", "")));
  EXPECT_THAT(given({"--use_env", "x.py"}), IsEmpty());
  EXPECT_THAT(given({"--no-python", "x"})["error"], HasSubstr("--no-python needs --use-env"));
}

TEST(InterpreterNamedIn, ReadsTheFirstLine) {
  EXPECT_EQ(InterpreterNamedIn("#!/venv/bin/python3 -E\nimport x"), "/venv/bin/python3");
  EXPECT_EQ(InterpreterNamedIn("#! /usr/bin/env python3.11\n"), "python3.11");
  EXPECT_EQ(InterpreterNamedIn("#!/bin/sh\n'''exec' /long/python \"$0\""), "");
  EXPECT_EQ(InterpreterNamedIn("ELF python"), "");
  EXPECT_EQ(InterpreterNamedIn(""), "");
}

std::string Instead(const Words& words, bool is_file = false) {
  const auto line = ParseCommandLine(RunOptions(), words);
  EXPECT_TRUE(line.ok()) << line.status();
  return LineInstead(*line, is_file, "muster run").value_or("");
}

TEST(PythonInside, IsAnsweredWithTheLineToType) {
  EXPECT_EQ(Instead({"python", "x.py", "--lr", "0.1"}), "muster run x.py --lr 0.1");
  EXPECT_EQ(Instead({"--nproc-per-node", "2", "/usr/bin/python3.11", "-u", "-m", "pkg.mod", "a b"}),
            "muster run --nproc-per-node=2 -m pkg.mod 'a b'");
  EXPECT_EQ(Instead({"muster", "run", "x.py"}), "muster run x.py");
}

TEST(PythonInside, IsAnsweredWithALineOfTheSameCommand) {
  CommandLine line;
  line.given = {{"no-respawn", kSwitchGiven}, {"nodes", "2"}};
  line.script = "python";
  line.script_arguments = {"x.py"};
  EXPECT_EQ(LineInstead(line, false, "muster local"), "muster local --no-respawn --nodes=2 x.py");
}

TEST(PythonInside, KeepsInterpreterOptionsAndCode) {
  EXPECT_EQ(Instead({"python", "-W", "ignore", "-m", "pkg.mod", "a"}),
            "muster run --no-python python -W ignore -m pkg.mod a");
  EXPECT_EQ(Instead({"python3", "-X", "dev", "x.py"}), "muster run --no-python python3 -X dev x.py");
  EXPECT_EQ(Instead({"--nproc-per-node=2", "python", "-c", "print(1)"}),
            "muster run --nproc-per-node=2 --no-python python -c 'print(1)'");
  EXPECT_EQ(Instead({"python", "-u", "-c", "1"}), "muster run --no-python python -u -c 1");
  EXPECT_EQ(Instead({"python", "-"}), "muster run --no-python python -");
  EXPECT_EQ(Instead({"python", "-u"}), "muster run SCRIPT");
}

TEST(PythonInside, IgnoresFilesOfThatName) {
  EXPECT_EQ(Instead({"python"}, true), "");
  EXPECT_EQ(Instead({"pythonic.py"}), "");
}

TEST(ShellInside, IsAnsweredWithNoPython) {
  const auto instead = [](const Words& words, bool is_file = false) {
    const auto line = ParseCommandLine(RunOptions(), words);
    EXPECT_TRUE(line.ok()) << line.status();
    return ShellLineInstead(*line, is_file, "muster run").value_or("");
  };
  EXPECT_EQ(instead({"--nproc-per-node=2", "bash", "-c", "echo $RANK"}),
            "muster run --nproc-per-node=2 --no-python bash -c 'echo $RANK'");
  EXPECT_EQ(instead({"/bin/sh", "x"}), "muster run --no-python /bin/sh x");
  EXPECT_EQ(instead({"./s.sh", "a b"}, true), "muster run --no-python bash ./s.sh 'a b'");
  EXPECT_EQ(instead({"bash"}, true), "") << "a Python script of this name";
  EXPECT_EQ(instead({"bash.py"}), "");
}

}  // namespace
}  // namespace muster::cli
