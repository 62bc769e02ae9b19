// The meaning of torchrun's own options, and their completion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <fstream>

#include "base/core/status_macros.h"
#include "cli/commands/completion.h"
#include "cli/options/option_table.h"
#include "cli/options/output_values.h"
#include "cli/options/read_settings.h"
#include "cli/options/settings.h"

namespace muster::cli {
namespace {

using host::Streams;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

TEST(Streams, AreANumberOrAMapOfRanks) {
  EXPECT_EQ(ParseStreams("3")->Of(7), Streams::kBoth);
  const auto map = ParseStreams("0:1,12:2,3:0");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->Of(0), Streams::kOut);
  EXPECT_EQ(map->Of(12), Streams::kErr);
  EXPECT_EQ(map->Of(1), Streams::kNone);
  EXPECT_TRUE(ParseStreams("0")->IsNothing());
  EXPECT_TRUE(ParseStreams("0:0")->IsNothing());
  EXPECT_FALSE(map->IsNothing());
  for (const char* bad : {"4", "-1", "", "a", "0:4", "0:1,", "0=1", ":1", "0:"})
    EXPECT_FALSE(ParseStreams(bad).ok()) << bad;
}

TEST(LocalRanks, AreNumbersWithCommas) {
  EXPECT_THAT(*ParseLocalRanks("0,12, 3"), ElementsAre(0, 12, 3));
  for (const char* bad : {"", "a", "1,,2", "-1"}) EXPECT_FALSE(ParseLocalRanks(bad).ok()) << bad;
}

TEST(Filters, AreSplitAtCommasADoubledOneIsLiteral) {
  EXPECT_THAT(*ParseFilters("apple, orange"), ElementsAre("apple", "orange"));
  EXPECT_THAT(*ParseFilters("a,,b,c"), ElementsAre("a,b", "c"));
  EXPECT_FALSE(ParseFilters(",").ok() && ParseFilters(" ").ok());
}

TEST(Size, HasBinaryUnitsAndAMinimum) {
  EXPECT_EQ(*ParseSize("500k"), 500 * 1024);
  EXPECT_EQ(*ParseSize("20M"), 20 * 1024 * 1024);
  EXPECT_EQ(*ParseSize("1G"), 1024 * 1024 * 1024);
  EXPECT_EQ(*ParseSize("65536"), 65536);
  for (const char* bad : {"", "k", "1k", "-1M", "1T", "99999999999G", "1.5M"})
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
}

TEST(Signals, AreReadByNameUnknownOnesSkipped) {
  const auto choice = ParseSignals("SIGTERM, usr1,SIGBREAK,SIGTERM");
  ASSERT_TRUE(choice.ok());
  EXPECT_THAT(choice->numbers, ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_THAT(choice->unknown, ElementsAre("SIGBREAK"));
  for (const char* bad : {"", ",", "SIGKILL", "SIGTERM,SIGSTOP"}) EXPECT_FALSE(ParseSignals(bad).ok()) << bad;
}

TEST(OptionName, IsLocalRankByDefault) {
  EXPECT_EQ(*ParseOptionName(""), "local-rank");
  EXPECT_EQ(*ParseOptionName("local_rank"), "local_rank");
  EXPECT_EQ(*ParseOptionName("--rank"), "rank");
  EXPECT_FALSE(ParseOptionName("--").ok() || ParseOptionName("a b").ok());
}

absl::StatusOr<Settings> Read(const Words& words, const Environment& environment = {}) {
  const auto line = ParseCommandLine(RunOptions(), words);
  if (!line.ok()) return line.status();
  return ReadSettings(*line, environment);
}

TEST(RendezvousConf, KeysOfTorchAreTakenOthersAreAWarning) {
  const auto s = Read(
      {"--rdzv-conf", "timeout=900,last_call_timeout=3,keep_alive_interval=5,read_timeout=60,typo=1", "t.py"});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->times.join_timeout->value, absl::Seconds(900));
  EXPECT_EQ(s->times.last_call_timeout->value, absl::Seconds(3));
  EXPECT_THAT(s->notes, ElementsAre("--rdzv-conf: keys without effect: keep_alive_interval, read_timeout"));
  EXPECT_THAT(s->warnings, ElementsAre("--rdzv-conf: unknown key typo is ignored"));
  EXPECT_EQ(Read({"--rdzv-conf", "is_host=True", "t.py"})->membership.is_host, true);
  EXPECT_EQ(Read({"--rdzv-conf", "is_host=perhaps", "t.py"}).status().message(),
            "--rdzv-conf is_host=perhaps: is_host: expected true or false");
}

TEST(Backend, EveryBackendOfTorchIsAccepted) {
  EXPECT_THAT(Read({"--rdzv-backend", "static", "t.py"})->notes, IsEmpty());
  for (const char* name : {"c10d", "etcd", "etcd-v2"}) {
    const auto s = Read({"--rdzv-backend", name, "t.py"});
    ASSERT_TRUE(s.ok()) << name;
    EXPECT_THAT(s->notes, ElementsAre(HasSubstr(name)));
  }
}

TEST(TorchVariables, RankBelowTheCommandLine) {
  const Environment environment = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${rank}>"},
                                   {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"},
                                   {"PET_TEE", "3"},
                                   {"PET_VIRTUAL_LOCAL_RANK", "2"}};
  const auto s = Read({"t.py"}, environment);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->output.line_prefix->value, "<${rank}>");
  EXPECT_EQ(s->times.shutdown_timeout->value, absl::Seconds(7));
  EXPECT_EQ(s->output.tee->value.everywhere, Streams::kBoth);
  EXPECT_TRUE(s->workers.virtual_local_rank->value) << "any number but 0";
  EXPECT_EQ(std::string(AsStd(Read({"t.py"}, {{"PET_MODULE", "yes"}}).status().message())),
            "PET_MODULE yes: expected 1 or 0; correct it, or unset it");
  EXPECT_EQ(Read({"--log-line-prefix-template", "x", "t.py"}, environment)->output.line_prefix->value, "x");
}

TEST(RendezvousConf, TimeoutIsNoLimitOfADynamicBackend) {
  for (const char* backend : {"c10d", "etcd-v2"}) {
    const auto s = Read({"--rdzv-backend", backend, "--rdzv-conf", "timeout=5,join_timeout=60", "t.py"});
    EXPECT_EQ(s->times.join_timeout->value, absl::Seconds(60)) << backend;
    EXPECT_THAT(s->notes, testing::Contains("--rdzv-conf: keys without effect: timeout")) << backend;
  }
  EXPECT_EQ(Read({"--rdzv-backend=static", "--rdzv-conf=timeout=5", "t.py"})->times.join_timeout->value,
            absl::Seconds(5));
}

TEST(TorchVariables, MayHaveBlanksAndNewlinesAroundThem) {
  const auto s = Read({"--max-restarts", " 2", "t.py"}, {{"PET_NNODES", " 2\n"},
                                                         {"PET_NPROC_PER_NODE", "gpu\n"},
                                                         {"PET_RDZV_ENDPOINT", "\thead:29400 \r\n"},
                                                         {"PET_MODULE", " 1 "},
                                                         {"PET_ROLE", " \n"},
                                                         {"PET_LOG_LINE_PREFIX_TEMPLATE", "${rank} "}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->membership.nnodes->value.max, 2);
  EXPECT_EQ(s->workers.nproc_per_node->value.kind, SlotCount::kGpu);
  EXPECT_EQ(s->membership.rdzv_endpoint->value.host, "head");
  EXPECT_EQ(s->restarts.max_restarts->value, 2);
  EXPECT_TRUE(s->program.module->value);
  EXPECT_EQ(s->workers.role->value, "default") << "nothing but blanks counts as not set";
  EXPECT_EQ(s->output.line_prefix->value, "${rank} ") << "its blanks are part of it";
}

TEST(TorchVariables, OptionsWithoutAVariableAreNotReadFromOne) {
  const auto s = Read({"t.py"}, {{"PET_NUMA_BINDING", "moon"}, {"PET_LOGS_SPECS", "x"}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_FALSE(s->workers.numa_binding.has_value());
}

TEST(PythonCode, IsRefusedWithTheReason) {
  EXPECT_THAT(std::string(AsStd(Read({"--logs-specs", "x", "t.py"}).status().message())),
              HasSubstr("--logs-specs x: names a Python class"));
  EXPECT_THAT(std::string(AsStd(Read({"--event-log-handler", "console", "t.py"}).status().message())),
              HasSubstr("--event-log-handler console: names a Python handler"));
  EXPECT_TRUE(Read({"--event-log-handler", "null", "t.py"}).ok());
}

// The completions that bash offers for a line, computed by the script itself.
std::string Offered(const std::string& script, const std::string& words, int at) {
  const std::string file = ::testing::TempDir() + "completion.bash";
  std::ofstream(file) << script << "COMP_WORDS=(" << words << ")\nCOMP_CWORD=" << at
                      << "\n_muster\nprintf '%s ' \"${COMPREPLY[@]}\"\n";
  FILE* bash = popen(("bash " + file).c_str(), "r");
  std::string text;
  for (int c = 0; (c = fgetc(bash)) != EOF;) text += static_cast<char>(c);
  EXPECT_EQ(pclose(bash), 0);
  return text;
}

TEST(Completion, OffersCommandsOptionsAndTheirWordsInBash) {
  const auto script = CompletionScript("bash");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(Offered(*script, "muster ru", 1), "run ");
  EXPECT_EQ(Offered(*script, "muster run --rdzv-e", 2), "--rdzv-endpoint ");
  EXPECT_EQ(Offered(*script, "/bin/torchrun --nnodes 2 --tee", 3), "--tee ");
  EXPECT_EQ(Offered(*script, "torchrun --nproc-per-node g", 2), "gpu ");
  EXPECT_THAT(Offered(*script, "torchrun train.py --nn", 2), Not(HasSubstr("--nnodes")))
      << "after the script its own options stand";
  EXPECT_EQ(
      Offered(*script, "muster ''", 1),
      "run local env hostfile coordinator host health status stacks events stop restart drain signal install "
      "token version help ");
  EXPECT_EQ(Offered(*script, "muster help co", 2), "coordinator ");
  EXPECT_EQ(Offered(*script, "muster coordinator --l", 2),
            "--listen --last-call-timeout --lease --log-format --log-streams ");
  EXPECT_EQ(Offered(*script, "muster local --nodes 3 --lease 5 --node", 6),
            "--nodes --node-rank --node-unit --node-setup ");
  EXPECT_EQ(Offered(*script, "muster env --ch", 2), "--check ");
  EXPECT_EQ(Offered(*script, "muster run --scale-up o", 3), "on-restart ");
  EXPECT_EQ(Offered(*script, "muster hostfile --sl", 2), "--slots ");
  EXPECT_EQ(Offered(*script, "muster run --sl", 2), " ") << "it is no option of this command";
  EXPECT_EQ(Offered(*script, "muster version ''", 2), " ");
  EXPECT_TRUE(CompletionScript("zsh").ok());
  EXPECT_FALSE(CompletionScript("tcsh").ok());
}

TEST(Completion, NamesCommandsOptionsAndTheirWordsForFish) {
  const auto script = CompletionScript("fish");
  ASSERT_TRUE(script.ok());
  EXPECT_THAT(*script, HasSubstr("complete -c muster -n __fish_use_subcommand -a local -d 'Run N nodes on this "));
  EXPECT_THAT(*script, HasSubstr("complete -c torchrun -l nproc-per-node -a 'auto gpu "));
  EXPECT_THAT(*script, HasSubstr("complete -c torchrun -l standalone -d ")) << "a switch takes no value";
  EXPECT_THAT(*script, HasSubstr("job\\'s shared secret")) << "a quote within the text";
  EXPECT_THAT(*script, Not(HasSubstr("-a local-node"))) << "it is for muster itself";
}

}  // namespace
}  // namespace muster::cli
