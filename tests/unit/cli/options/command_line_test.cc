// Parsing of command lines, and the help texts.
#include "cli/options/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/sources.h"
#include "base/core/status_macros.h"
#include "base/text/duration.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/nearest.h"
#include "cli/options/option_table.h"
#include "cli/options/read_settings.h"
#include "cli/options/settings.h"
#include "cli/options/values.h"

namespace muster::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

CommandLine Parsed(const Words& words) {
  absl::StatusOr<CommandLine> result = ParseCommandLine(RunOptions(), words);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : CommandLine();
}

std::string Error(const Words& words) {
  const absl::StatusOr<CommandLine> result = ParseCommandLine(RunOptions(), words);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(AsStd(result.status().message()));
}

struct Row {
  Words words;
  std::map<std::string, std::string> given;
  std::string script;
  Words arguments;
};

class CommandLineTable : public testing::TestWithParam<Row> {};

TEST_P(CommandLineTable, IsReadAsWritten) {
  const CommandLine line = Parsed(GetParam().words);
  EXPECT_EQ(line.given, GetParam().given);
  EXPECT_EQ(line.script, GetParam().script);
  EXPECT_EQ(line.script_arguments, GetParam().arguments);
}

INSTANTIATE_TEST_SUITE_P(
    All, CommandLineTable,
    testing::Values(
        Row{{}, {}, "", {}}, Row{{"t.py"}, {}, "t.py", {}},
        Row{{"t.py", "--nnodes", "3", "-m"}, {}, "t.py", {"--nnodes", "3", "-m"}},
        Row{{"t.py", "--", "x", "--help"}, {}, "t.py", {"--", "x", "--help"}},
        Row{{"--", "t.py", "--", "x"}, {}, "t.py", {"--", "x"}}, Row{{"--", "-odd.py", "x"}, {}, "-odd.py", {"x"}},
        Row{{"--nnodes", "3", "t.py"}, {{"nnodes", "3"}}, "t.py", {}},
        Row{{"--nnodes=3", "t.py"}, {{"nnodes", "3"}}, "t.py", {}},
        Row{{"--nnodes", "3", "--", "t.py"}, {{"nnodes", "3"}}, "t.py", {}},
        Row{{"--nnodes", "3", "--nnodes", "4", "t.py"}, {{"nnodes", "4"}}, "t.py", {}},
        Row{{"--nproc_per_node=2", "t.py"}, {{"nproc-per-node", "2"}}, "t.py", {}},
        Row{{"--nproc-per-node", "gpu", "t.py", "a b", ""}, {{"nproc-per-node", "gpu"}}, "t.py", {"a b", ""}},
        Row{{"--master_addr", "::1", "--master_port=1", "t"},
            {{"master-addr", "::1"}, {"master-port", "1"}},
            "t",
            {}},
        Row{{"--rdzv-endpoint=[::1]", "t"}, {{"rdzv-endpoint", "[::1]"}}, "t", {}},
        Row{{"--rdzv-endpoint", "[::1]:29400", "t"}, {{"rdzv-endpoint", "[::1]:29400"}}, "t", {}},
        Row{{"--rdzv-conf=a=1,b=2", "t"}, {{"rdzv-conf", "a=1,b=2"}}, "t", {}},
        Row{{"--rdzv_conf", "a=1,b=2", "t"}, {{"rdzv-conf", "a=1,b=2"}}, "t", {}},
        Row{{"--worker-port", "1:2", "t"}, {{"worker-port", "1:2"}}, "t", {}},
        Row{{"-m", "pkg.mod", "-m"}, {{"module", "true"}}, "pkg.mod", {"-m"}},
        Row{{"--module", "pkg.mod"}, {{"module", "true"}}, "pkg.mod", {}},
        Row{{"--no_python", "sleep", "1"}, {{"no-python", "true"}}, "sleep", {"1"}},
        Row{{"--standalone", "--no-python", "t"}, {{"standalone", "true"}, {"no-python", "true"}}, "t", {}},
        Row{{"--lease", "500ms", "t"}, {{"lease", "500ms"}}, "t", {}},
        Row{{"--rdzv-id", "", "t"}, {{"rdzv-id", ""}}, "t", {}},
        Row{{"--redirect=3", "t.py"}, {{"redirects", "3"}}, "t.py", {}},
        Row{{"--nproc", "2", "t.py"}, {{"nproc-per-node", "2"}}, "t.py", {}},
        Row{{"--rdzv_e", "h", "t.py"}, {{"rdzv-endpoint", "h"}}, "t.py", {}},
        Row{{"--max", "2", "t.py"}, {{"max-restarts", "2"}}, "t.py", {}},
        Row{{"--max-node", "2", "t.py"}, {{"max-node-losses", "2"}}, "t.py", {}},
        Row{{"-r", "1", "-t=2", "t.py", "-r"}, {{"redirects", "1"}, {"tee", "2"}}, "t.py", {"-r"}},
        Row{{"-r0:1,1:2", "-t3", "t.py"}, {{"redirects", "0:1,1:2"}, {"tee", "3"}}, "t.py", {}},
        Row{{"-mr3", "pkg.mod"}, {{"module", "true"}, {"redirects", "3"}}, "pkg.mod", {}},
        Row{{"-mt", "3", "pkg.mod"}, {{"module", "true"}, {"tee", "3"}}, "pkg.mod", {}},
        Row{{"--pass-local-rank", "t.py"}, {{"pass-local-rank", ""}}, "t.py", {}},
        Row{{"--pass-local-rank=local_rank", "t.py"}, {{"pass-local-rank", "local_rank"}}, "t.py", {}},
        Row{{"--node-rank", "-1", "t.py"}, {{"node-rank", "-1"}}, "t.py", {}},
        Row{{"t.py", "--unknown=1", "-x", "-3"}, {}, "t.py", {"--unknown=1", "-x", "-3"}}));

// As Python's argparse from 3.8 to 3.13 does.
TEST(CommandLineTest, TorchrunLosesADoubleDashAfterTheScript) {
  const std::tuple<Words, Words, Words> rows[] = {
      // The line; the script's arguments under torchrun, and under muster run.
      {{"t.py", "--", "--depth=20"}, {"--depth=20"}, {"--", "--depth=20"}},
      {{"-m", "pkg.mod", "--", "-m"}, {"-m"}, {"--", "-m"}},
      {{"t.py", "--"}, {}, {"--"}},
      {{"t.py", "--", "--", "x"}, {"--", "x"}, {"--", "--", "x"}},
      {{"t.py", "a", "--", "x"}, {"a", "--", "x"}, {"a", "--", "x"}},
      {{"--", "t.py", "--", "x"}, {"--", "x"}, {"--", "x"}},
  };
  for (const auto& [words, torchrun, run] : rows) {
    const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words, kTorchrun);
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(line->script_arguments, torchrun) << absl::StrJoin(words, " ");
    EXPECT_EQ(Parsed(words).script_arguments, run) << absl::StrJoin(words, " ");
  }
}

// As an abbreviation of --token-file it would be shown as a file that cannot be read.
TEST(CommandLineTest, ATokenItselfIsRefusedAndNotShown) {
  for (const Words& words : {Words{"--token", "hush-hush", "t.py"}, Words{"--token=hush-hush", "t.py"}}) {
    const auto line = ParseCommandLine(RunOptions(), words, "muster run");
    ASSERT_FALSE(line.ok());
    EXPECT_EQ(line.status().message().find("hush"), absl::string_view::npos) << line.status();
    EXPECT_NE(line.status().message().find("use --token-file FILE"), absl::string_view::npos) << line.status();
  }
}

TEST(CommandLineTest, EveryOptionTakesDashesAndUnderscores) {
  for (const OptionSpec& spec : RunOptions()) {
    for (const char mark : {'-', '_'}) {
      std::string name(spec.name);
      std::replace(name.begin(), name.end(), '-', mark);
      const Words words = spec.is_switch()           ? Words{"--" + name, "t.py"}
                          : spec.value_is_optional() ? Words{"--" + name + "=7", "t.py"}
                                                     : Words{"--" + name, "7", "t.py"};
      const CommandLine line = Parsed(words);
      EXPECT_EQ(line.given.count(std::string(spec.name)), 1u) << name;
      EXPECT_EQ(line.script, "t.py") << name;
    }
  }
}

TEST(CommandLineTest, AnUnknownOptionBeforeTheScriptIsNamed) {
  EXPECT_EQ(Error({"--tee-all", "3", "t.py"}),
            "--tee-all: no such option (options of the script go after the script; see muster run --help)");
  EXPECT_THAT(Error({"--tee-all=3", "t.py"}), HasSubstr("--tee-all: no such option"));
  EXPECT_THAT(Error({"--standalone", "-x", "t.py"}), HasSubstr("-x: no such option"));
  EXPECT_EQ(Error({"--nprocpernode", "2", "t.py"}),
            "--nprocpernode: no such option; did you mean --nproc-per-node? (options of the script go after the "
            "script; see muster run --help)");
  EXPECT_THAT(
      AsStd(ParseCommandLine(EnvOptions(), {"--jsn"}, "muster env").status().message()),
      HasSubstr("did you mean --json? (options of the script go after the script; see muster env --help)"));
}

TEST(CommandLineTest, TheCoordinatorsErrorsMentionNoScript) {
  const auto line = ParseCommandLine(CoordinatorCommandOptions(), {"--node-rank", "1"}, "muster coordinator");
  EXPECT_EQ(line.status().message(), "--node-rank: no such option (see muster coordinator --help)");
}

TEST(CommandLineTest, ListenAddressesAreHostsOrPorts) {
  for (const char* port : {"29401", ":29401", "0.0.0.0:29401", "node0:29401"}) {
    EXPECT_EQ(ParseListen(port)->port, 29401) << port;
  }
  EXPECT_EQ(ParseListen("0")->port, 0);
  for (const char* host : {"localhost", "127.0.0.1", "::1", "[::1]"}) {
    EXPECT_EQ(ParseListen(host)->port, kDefaultRendezvousPort) << host;
  }
  for (const char* neither : {"foo", "node0", "29400x", "70000", ":70000", "29400 ", " 29400", "-1", "+1", "1.2.3",
                              "0x7300", "29400:29401:1", "", ":", "node0:70000"}) {
    EXPECT_FALSE(ParseListen(neither).ok()) << neither;
  }
}

TEST(CommandLineTest, AWebServerIsOnThisMachineUnlessAnAddressIsNamed) {
  for (const auto& [text, host] : {std::pair("9400", "127.0.0.1"), std::pair("localhost:9400", "127.0.0.1"),
                                   std::pair("0.0.0.0:9400", "0.0.0.0"), std::pair("[::1]:9400", "::1")}) {
    EXPECT_EQ(ParseHttpAddress(text)->host, host) << text;
    EXPECT_EQ(ParseHttpAddress(text)->port, 9400) << text;
  }
  for (const char* neither :
       {"", ":9400", "127.0.0.1", "node0:9400", "70000", "[fe80::1%eth0]:9400", "127.0.0.1:x"})
    EXPECT_FALSE(ParseHttpAddress(neither).ok()) << neither;
}

TEST(CommandLineTest, AnAmbiguousPrefixListsItsMatches) {
  EXPECT_EQ(Error({"--rdzv=1", "t.py"}),
            "--rdzv: ambiguous; could be --rdzv-endpoint, --rdzv-id, --rdzv-backend, --rdzv-conf");
}

TEST(CommandLineTest, ASwitchTakesNoValue) {
  EXPECT_EQ(Error({"--standalone=1", "t.py"}), "--standalone=1: takes no value");
  EXPECT_EQ(Error({"-mx", "t.py"}), "-m=x: takes no value");
}

TEST(CommandLineTest, AMissingValueIsNamed) {
  EXPECT_EQ(Error({"--nnodes", "--standalone", "t.py"}), "--nnodes: needs a value");
  EXPECT_EQ(Error({"--nnodes"}), "--nnodes: needs a value");
  EXPECT_EQ(Error({"--lease", "1", "--node-rank"}), "--node-rank: needs a value");
}

TEST(CommandLineTest, HelpIsAskedForOnlyBeforeTheScript) {
  EXPECT_TRUE(Parsed({"--help"}).help);
  EXPECT_TRUE(Parsed({"-h"}).help);
  EXPECT_FALSE(Parsed({"t.py", "--help"}).help);
}

std::string OnOneLine(const std::string& text) {
  return absl::StrJoin(absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
}

std::vector<std::string> TooWide(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.size() > kHelpColumns) lines.push_back(line);
  }
  return lines;
}

TEST(NearestWordTest, IsAGuessOnlyWhereAFewLettersAreWrong) {
  const Words known = {"run", "local", "env"};
  EXPECT_EQ(NearestWord("rnu", known), "run");
  EXPECT_EQ(NearestWord("locl", known), "local");
  EXPECT_EQ(NearestWord("evn", known), "env");
  for (const char* word : {"run", "dance", "rubbish", "", "nu"}) EXPECT_EQ(NearestWord(word, known), "") << word;
}

TEST(NearestWordTest, TheNearestOfSeveralIsTaken) {
  const Words known = {"max-node-losses", "max-restarts", "nproc-per-node"};
  EXPECT_EQ(NearestWord("max-restrats", known), "max-restarts");
  EXPECT_EQ(NearestWord("nprocpernode", known), "nproc-per-node");
  EXPECT_EQ(NearestWord("max-starts", known), "max-restarts");
  EXPECT_EQ(NearestWord("losses", known), "");
}

TEST(HelpTest, FitsIntoEightyColumns) {
  for (const std::string& text : {MainHelp(), RunHelp(), RunHelp("torchrun"), DeepspeedHelp(), LocalHelp(),
                                  EnvHelp(), HostfileHelp(), CoordinatorHelp()})
    EXPECT_THAT(TooWide(text), IsEmpty());
}

// If an error for an invalid value says "from A to B", A and B are in the option's help. The limits that all
// times share are in the paragraph on times.
TEST(HelpTest, NamesTheLimitsThatErrorsName) {
  const std::regex limits(R"(from (\S+) to ([^\s,;]+))");
  EXPECT_THAT(OnOneLine(RunHelp()), HasSubstr("A TIME is in seconds"));
  EXPECT_THAT(OnOneLine(RunHelp()), HasSubstr(absl::StrCat("at most ", muster::FormatDuration(kTimes.most))));
  int named = 0;
  for (const OptionSpec& spec : RunOptions()) {
    const std::string name(spec.name);
    const auto line =
        ParseCommandLine(RunOptions(), {"--" + name + (spec.is_switch() ? "" : "=no value"), "t.py"});
    const std::string error(AsStd(ReadSettings(*line, {}).status().message()));
    const std::string help = HelpOf(spec);
    for (std::sregex_iterator at(error.begin(), error.end(), limits), end; at != end; ++at) {
      ++named;
      const std::string low = (*at)[1], high = (*at)[2];
      if (high != muster::FormatDuration(kTimes.most)) {
        EXPECT_THAT(help, HasSubstr(low + " to " + high)) << name;
      } else if (low != "0") {
        EXPECT_THAT(help, ContainsRegex("[Aa]t least " + low)) << name;
      }
    }
  }
  EXPECT_GT(named, 30);
}

TEST(HelpTest, ListsTheSourcesWithTheirMeaning) {
  const std::string help = RunHelp();
  for (const discovery::Source& source : discovery::Sources()) {
    EXPECT_THAT(help, ContainsRegex(absl::StrCat("\n  ", source.name, " +", source.shown_as))) << source.name;
  }
}

TEST(HelpTest, NamesEveryOptionAndItsValue) {
  const std::pair<std::string, const std::vector<OptionSpec>*> all[] = {
      {RunHelp(), &RunOptions()}, {CoordinatorHelp(), &CoordinatorCommandOptions()}};
  for (const auto& [help, table] : all) {
    for (const OptionSpec& spec : *table) {
      std::string head = "--" + std::string(spec.name);
      if (!spec.is_switch()) head += " " + std::string(spec.value);
      EXPECT_THAT(help, HasSubstr(head));
    }
  }
}

TEST(HelpTest, ListsASubcommandsOwnOptions) {
  const std::pair<std::string, const std::vector<OptionSpec>*> all[] = {
      {LocalHelp(), &LocalOptions()}, {EnvHelp(), &EnvOptions()}, {HostfileHelp(), &HostfileCommandOptions()}};
  for (const auto& [help, table] : all) {
    for (const OptionSpec& spec : *table) {
      if (FindOption(RunOptions(), spec.name) != nullptr) continue;
      EXPECT_THAT(help, HasSubstr("--" + std::string(spec.name)));
    }
  }
}

TEST(OptionTableTest, VariablesAreNamedLikeOptions) {
  EXPECT_EQ(VariableName("MUSTER_", "node-rank"), "MUSTER_NODE_RANK");
  EXPECT_EQ(VariableName("PET_", "nproc-per-node"), "PET_NPROC_PER_NODE");
}

}  // namespace
}  // namespace muster::cli
