// `deepspeed ...` command lines and the plans made from them.
#include "cli/options/deepspeed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/status_macros.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Words = std::vector<std::string>;
using Given = std::map<std::string, std::string>;

constexpr char kTwoHosts[] = "a slots=8\nb slots=4\n";

class Deepspeed : public ::testing::Test {
 protected:
  absl::StatusOr<DeepspeedLine> Try(const Words& words, const Given& in_front = {}) {
    return ReadDeepspeedLine(words,
                             {.read_file = [this](const std::string& path, size_t) -> absl::StatusOr<std::string> {
                                const auto file = files_.find(path);
                                if (file == files_.end()) return absl::NotFoundError(path + ": not there");
                                return file->second;
                              },
                              .hostname = own_name_,
                              .is_here = [this](const std::string& host) { return host == own_name_; },
                              .count_devices = [this] { return devices_; },
                              .count_all_devices = [this] { return all_devices_; },
                              .env_files = {"home/.deepspeed_env", ".deepspeed_env"}},
                             in_front);
  }

  DeepspeedLine Read(const Words& words) {
    auto line = Try(words);
    EXPECT_TRUE(line.ok()) << line.status();
    return line.ok() ? *line : DeepspeedLine();
  }

  std::string Error(const Words& words) { return std::string(AsStd(Try(words).status().message())); }

  std::map<std::string, std::string> files_;
  std::string own_name_ = "b";
  int devices_ = 4, all_devices_ = 4;
};

TEST_F(Deepspeed, OneMachineRunsOneWorkerPerAccelerator) {
  const DeepspeedLine read = Read({"train.py", "--deepspeed", "ds.json"});
  EXPECT_EQ(read.line.given,
            (Given{{"standalone", "true"}, {"nproc-per-node", "4"}, {"pass-local-rank", "local_rank"}}));
  EXPECT_EQ(read.line.script, "train.py");
  EXPECT_THAT(read.line.script_arguments, ElementsAre("--deepspeed", "ds.json"));
  EXPECT_THAT(read.notes, IsEmpty());
  devices_ = all_devices_ = 0;
  EXPECT_EQ(Read({"train.py"}).line.given.at("nproc-per-node"), "1");
}

TEST_F(Deepspeed, OptionsTakeUnderscoresAndDashes) {
  const DeepspeedLine read =
      Read({"--num_gpus", "2", "--no-local-rank", "--module", "--launcher=pdsh", "pkg.mod"});
  EXPECT_EQ(read.line.given, (Given{{"standalone", "true"}, {"nproc-per-node", "2"}, {"module", "true"}}));
  EXPECT_THAT(read.notes, ElementsAre("options without effect: --launcher"));
  EXPECT_EQ(Read({"--num_accelerators=3", "t.py"}).line.given.at("nproc-per-node"), "3");
  EXPECT_EQ(Read({"--num_gpus=-1", "t.py"}).line.given.at("nproc-per-node"), "4") << "its own default";
}

TEST_F(Deepspeed, IncludeAndExcludeChooseDevicesOfThisMachine) {
  const DeepspeedLine read = Read({"--include", "localhost:1,3", "t.py"});
  EXPECT_EQ(read.visible_devices, "1,3");
  EXPECT_EQ(read.line.given.at("nproc-per-node"), "2");
  EXPECT_EQ(Read({"-e", "localhost:0", "t.py"}).visible_devices, "1,2,3");
  EXPECT_THAT(Error({"-i", "localhost:4", "t.py"}), HasSubstr("--include"));
  EXPECT_THAT(Error({"-i", "localhost:1", "--num_gpus", "1", "t.py"}), HasSubstr("--num-gpus 1: cannot be used"));
  devices_ = all_devices_ = 0;
  EXPECT_THAT(Error({"-i", "localhost:0", "t.py"}), HasSubstr("there is no accelerator here"));
}

TEST_F(Deepspeed, EachHostOfAHostfileFindsItsPlace) {
  files_["hosts"] = kTwoHosts;
  const DeepspeedLine read = Read({"--hostfile", "hosts", "--master_port=29600", "t.py"});
  EXPECT_THAT(read.line.hosts, ElementsAre("a", "b"));
  EXPECT_EQ(read.line.given, (Given{{"nnodes", "2"},
                                    {"node-rank", "1"},
                                    {"master-addr", "a"},
                                    {"master-port", "29600"},
                                    {"nproc-per-node", "4"},
                                    {"pass-local-rank", "local_rank"}}));
  own_name_ = "c";
  EXPECT_EQ(Error({"-H", "hosts", "t.py"}),
            "hosts: none of its hosts (a, b) is this machine, c; add it to the file, or give --node_rank");
  EXPECT_EQ(Read({"-H", "hosts", "--node_rank=0", "t.py"}).line.given.at("nproc-per-node"), "8");
}

TEST_F(Deepspeed, OptionsInFrontTakeThePlaceOfItsOwn) {
  files_["hosts"] = kTwoHosts;
  files_["one"] = "b slots=2\n";
  const auto one = Try({"--hostfile", "hosts", "x.py"}, {{"hostfile", "one"}});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->line.given.at("nproc-per-node"), "2");
  EXPECT_TRUE(one->line.given.contains("standalone"));
  own_name_ = "elsewhere";
  const auto ranked = Try({"--hostfile", "hosts", "x.py"}, {{"node-rank", "1"}});
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  EXPECT_EQ(ranked->line.given.at("node-rank"), "1");
}

TEST_F(Deepspeed, TheDefaultHostfileIsReadIfItExists) {
  files_["/job/hostfile"] = kTwoHosts;
  EXPECT_EQ(Read({"t.py"}).line.given.at("node-rank"), "1");
  own_name_ = "a";
  EXPECT_EQ(Read({"--num_nodes=1", "t.py"}).line.given.count("standalone"), 1u);
  own_name_ = "b";
  EXPECT_THAT(Error({"--num_nodes=1", "t.py"}), HasSubstr("the only host left is a"));
  EXPECT_THAT(Error({"--num_nodes=3", "t.py"}), HasSubstr("--num-nodes 3: the hostfile has 2 hosts"));
}

TEST_F(Deepspeed, WithoutAHostfileSeveralNodesNeedRankAndAddress) {
  EXPECT_THAT(Error({"--num_nodes=2", "t.py"}), HasSubstr("needs --hostfile"));
  EXPECT_THAT(Error({"--num_nodes=2", "--node_rank=1", "t.py"}), HasSubstr("needs --master_addr"));
  const DeepspeedLine read = Read({"--num_nodes=2", "--node_rank=1", "--master_addr=a", "t.py"});
  EXPECT_EQ(read.line.given.at("nnodes"), "2");
  EXPECT_EQ(read.line.given.at("node-rank"), "1");
}

TEST_F(Deepspeed, ImpossibleOptionsAreNamed) {
  EXPECT_THAT(Error({"--autotuning", "run", "t.py"}), HasSubstr("--autotuning run: not supported"));
  EXPECT_THAT(Error({"--num_gpus", "zero", "t.py"}), HasSubstr("--num-gpus zero: expected a whole number"));
  EXPECT_THAT(Error({"--nproc", "2", "t.py"}), HasSubstr("--nproc: no such option"));
}

TEST_F(Deepspeed, WithoutTheHostfileTheJobIsThisMachineAlone) {
  files_["/job/hostfile"] = kTwoHosts;
  EXPECT_TRUE(Read({"--hostfile=", "t.py"}).line.given.contains("standalone"));
  const DeepspeedLine read = Read({"--hostfile", "nowhere", "t.py"});
  EXPECT_TRUE(read.line.given.contains("standalone"));
  EXPECT_THAT(read.line.warnings,
              ElementsAre("--hostfile nowhere: there is no such file, so the job is this machine alone"));
}

TEST_F(Deepspeed, IncludeNamesTheMachinesDevicesWhateverIsVisible) {
  devices_ = 2;
  all_devices_ = 8;
  EXPECT_EQ(Read({"--include", "localhost:4,5", "t.py"}).visible_devices, "4,5");
  EXPECT_EQ(Read({"--exclude", "localhost:0,1,2,3,4,5", "t.py"}).visible_devices, "6,7");
  EXPECT_EQ(Read({"t.py"}).line.given["nproc-per-node"], "2");
}

// As under `muster run --hostfile`: exit code 65.
TEST_F(Deepspeed, AnUnusableHostfileIsAFaultOfTheEnvironment) {
  const Words missing = {"--hostfile", "nowhere", "--node_rank=1", "t.py"};
  EXPECT_TRUE(absl::IsFailedPrecondition(Try(missing).status()));
  EXPECT_THAT(Error(missing), StartsWith("--hostfile nowhere"));
  files_["bad"] = "a slots=many\n";
  EXPECT_TRUE(absl::IsFailedPrecondition(Try({"--hostfile", "bad", "t.py"}).status()));
  EXPECT_THAT(Error({"--hostfile", "bad", "t.py"}), StartsWith("bad: line 1"));
}

TEST_F(Deepspeed, ItsFilesVariablesReachWorkersOfSeveralHosts) {
  files_["hosts"] = kTwoHosts;
  files_["home/.deepspeed_env"] = discovery::ReadFixture("deepspeed_env_sample.txt");
  EXPECT_EQ(Read({"-H", "hosts", "t.py"}).variables,
            (Environment{{"NCCL_IB_DISABLE", "1"}, {"NCCL_SOCKET_IFNAME", "eth0"}, {"URL", "http://a/?x=1"}}));
  files_[".deepspeed_env"] = "# here\n\n NCCL_SOCKET_IFNAME = ib0 \r\nEMPTY=\n";
  const DeepspeedLine both = Read({"-H", "hosts", "t.py"});
  EXPECT_EQ(both.variables.at("NCCL_SOCKET_IFNAME"), " ib0");
  EXPECT_EQ(both.variables.at("NCCL_IB_DISABLE"), "1");
  EXPECT_EQ(both.variables.at("EMPTY"), "");
  EXPECT_THAT(both.notes, ElementsAre(HasSubstr("home/.deepspeed_env"), HasSubstr("taken from .deepspeed_env")));
  EXPECT_THAT(Read({"t.py"}).variables, IsEmpty()) << "one machine";
}

TEST_F(Deepspeed, InvalidLinesOfItsFileAreNamed) {
  files_["hosts"] = kTwoHosts;
  for (const char* line : {"export", "A B=1", "=1", "1A=2"}) {
    files_[".deepspeed_env"] = std::string("A=1\n") + line;
    EXPECT_EQ(Error({"-H", "hosts", "t.py"}),
              std::string(".deepspeed_env: line 2 is ") + line + ": expected NAME=VALUE");
  }
}

}  // namespace
}  // namespace muster::cli
