// The rows of the option table: where a value goes, its default, and the help text made from them.
#include "cli/options/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/wire/ranges.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/option_readers.h"
#include "cli/options/read_settings.h"

namespace muster::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

absl::StatusOr<Settings> Read(const Words& words, const Environment& environment = {}) {
  const auto line = ParseCommandLine(RunOptions(), words);
  if (!line.ok()) return line.status();
  return ReadSettings(*line, environment);
}

SettingLine LineOf(const Settings& settings, const std::string& name) {
  for (const SettingLine& line : settings.config_lines) {
    if (line.name == name) return line;
  }
  ADD_FAILURE() << name << " has no line";
  return {};
}

TEST(OptionTable, EveryRowReadsItsValue) {
  for (const OptionSpec& spec : RunOptions()) EXPECT_TRUE(spec.reader.read) << spec.name;
}

TEST(OptionTable, EveryDefaultIsAValidValue) {
  int defaults = 0;
  for (const OptionSpec& spec : RunOptions()) {
    if (spec.reader.fallback.empty()) continue;
    ++defaults;
    const std::string text(spec.reader.fallback);
    EXPECT_TRUE(Read({absl::StrCat("--", AsAbsl(spec.name), "=", text), "t.py"}).ok()) << spec.name;
  }
  EXPECT_GT(defaults, 8);
}

TEST(OptionTable, AValueForTheAgentGoesIntoTheConfiguration) {
  const auto plain = Read({"t.py"}), given = Read({"--exclude-for", "2h", "--scale-up", "never", "t.py"});
  ASSERT_TRUE(plain.ok() && given.ok());
  EXPECT_EQ(plain->config.exclude_for_ms(), 3'600'000);
  EXPECT_EQ(LineOf(*plain, "exclude-for").origin, "default");
  EXPECT_EQ(given->config.exclude_for_ms(), 7'200'000);
  EXPECT_EQ(LineOf(*given, "exclude-for").value, "2h");
  EXPECT_EQ(LineOf(*given, "exclude-for").origin, "--exclude-for");
  EXPECT_EQ(given->config.scale_up(), v1::NodeConfig::SCALE_UP_NEVER);
  EXPECT_EQ(LineOf(*given, "scale-up").value, "never");
}

TEST(OptionTable, ARoleIsNoLongerThanACoordinatorTakes) {
  EXPECT_TRUE(Read({"--role", std::string(kMaxShortText, 'x'), "t.py"}).ok());
  const absl::Status too_long = Read({"--role", std::string(kMaxShortText + 1, 'x'), "t.py"}).status();
  EXPECT_THAT(std::string(too_long.message()), EndsWith("expected a name of at most 1024 bytes"));
}

TEST(OptionTable, ATypedAddressTakesPrecedenceOverAVariablesEndpoint) {
  const Environment environment = {{"MUSTER_RDZV_ENDPOINT", "q"}};
  EXPECT_FALSE(Read({"--master-addr", "h", "t.py"}, environment)->membership.rdzv_endpoint);
  EXPECT_TRUE(Read({"--master-addr", "h", "--rdzv-endpoint", "q", "t.py"})->membership.rdzv_endpoint);
  const auto as_torchrun = ParseCommandLine(RunOptions(), {"--master-addr", "h", "t.py"}, kTorchrun);
  EXPECT_TRUE(ReadSettings(*as_torchrun, environment)->membership.rdzv_endpoint) << "as torchrun itself";
}

TEST(OptionTable, TheRendezvousConfYieldsToTheOption) {
  EXPECT_FALSE(Read({"t.py"})->times.join_timeout.has_value()) << "the plan knows the platform's default";
  EXPECT_EQ(Read({"--rdzv-conf", "join_timeout=7", "t.py"})->times.join_timeout->value, absl::Seconds(7));
  EXPECT_EQ(Read({"--rdzv-conf", "join_timeout=7", "--join-timeout", "8", "t.py"})->times.join_timeout->value,
            absl::Seconds(8));
}

TEST(OptionTable, TheHelpEndsWithTheDefault) {
  const std::string help =
      absl::StrJoin(absl::StrSplit(RunHelp(), absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
  for (const OptionSpec& spec : RunOptions()) {
    EXPECT_THAT(help, HasSubstr(HelpOf(spec))) << spec.name;
    if (spec.reader.fallback.empty()) continue;
    EXPECT_THAT(HelpOf(spec), EndsWith(absl::StrCat(" Default: ", AsAbsl(spec.reader.fallback), ".")))
        << spec.name;
  }
}

TEST(OptionTable, NoMarkIsLeftInTheHelp) {
  for (const std::string& help : {MainHelp(), RunHelp(), CoordinatorHelp()})
    EXPECT_THAT(help, Not(ContainsRegex("@[A-Z_]+@")));
}

// `muster coordinator` has the options of the job, and a node's own ones would have no effect there.
TEST(OptionTable, TheCoordinatorHasTheOptionsOfTheJob) {
  for (const OptionSpec& spec : RunOptions()) {
    EXPECT_EQ(FindOption(CoordinatorCommandOptions(), spec.name) != nullptr, spec.has(kJob)) << spec.name;
  }
  for (const char* name :
       {"exclude-after", "lease", "last-call-timeout", "rejoin-timeout", "start-timeout", "on-hang"}) {
    EXPECT_TRUE(HasFlag(name, kDecides)) << name;
  }
  EXPECT_FALSE(HasFlag("join-timeout", kDecides)) << "it also limits how long a node looks for the coordinator";
  EXPECT_FALSE(HasFlag("hang-timeout", kDecides)) << "each node looks for signs of life itself";
  EXPECT_FALSE(HasFlag("listen", kDecides)) << "no option of muster run";
}

// It belongs to no platform: its own command line alone decides.
TEST(OptionTable, TheCoordinatorsHelpPromisesNoPlatformsDefaults) {
  for (const OptionSpec& spec : CoordinatorCommandOptions()) {
    if (spec.name == "log-streams") continue;  // of the platform on which it runs
    EXPECT_THAT(HelpOf(spec), Not(ContainsRegex("platform|Slurm|Vertex"))) << spec.name;
  }
}

TEST(Subcommands, AreFoundByNameAndInternalOnesAreNotListed) {
  for (const Subcommand& command : kSubcommands) {
    EXPECT_EQ(FindSubcommand(command.name), &command);
    EXPECT_EQ(command.usage == nullptr, command.summary == nullptr) << command.name;
  }
  EXPECT_EQ(FindSubcommand("moon"), nullptr);
  EXPECT_THAT(SubcommandNames(), Each(Not(std::string(kLocalNodeCommand))));
  EXPECT_THAT(MainHelp(), Not(HasSubstr(kLocalNodeCommand)));
}

}  // namespace
}  // namespace muster::cli
