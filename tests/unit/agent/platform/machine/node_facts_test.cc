// The facts that a node reports about itself: bounded, readable, without secrets.
#include "agent/platform/machine/node_facts.h"

#include <gtest/gtest.h>

namespace muster::machine {
namespace {

// A machine whose files are these.
MachineProbe Machine(const std::map<std::string, std::string>& files, const std::vector<std::string>& gpus = {}) {
  MachineProbe probe;
  probe.list = [gpus](const std::string& path) {
    return path == "/proc/driver/nvidia/gpus" ? gpus : std::vector<std::string>();
  };
  probe.read = [files](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::make_optional(found->second);
  };
  return probe;
}

TEST(NodeFacts, OnlyCommunicationVariablesAreReported) {
  const Facts facts = MachineFacts({{"NCCL_DEBUG", "INFO"},
                                    {"TORCH_NCCL_BLOCKING_WAIT", "1"},
                                    {"GLOO_SOCKET_IFNAME", "eth0"},
                                    {"NCCL_HOSTID", "its own"},
                                    {"HF_TOKEN", "secret"},
                                    {"PATH", "/bin"}},
                                   Machine({}));
  EXPECT_EQ(facts,
            (Facts{{"GLOO_SOCKET_IFNAME", "eth0"}, {"NCCL_DEBUG", "INFO"}, {"TORCH_NCCL_BLOCKING_WAIT", "1"}}));
}

TEST(NodeFacts, SecretsAreMasked) {
  EXPECT_EQ(MachineFacts({{"NCCL_PLUGIN_TOKEN", "s3cret"}}, Machine({})).at("NCCL_PLUGIN_TOKEN"), "********");
  EXPECT_EQ(MachineFacts({{"NCCL_PLUGIN", "x?token=s3cret"}}, Machine({})).at("NCCL_PLUGIN"), "x?token=********");
  EXPECT_EQ(ArgumentsFact("t.py", {"--api-key=s3cret", "--lr", "1", "--wandb-token", "s3cret", "hub.token=s3cret",
                                   "--url", "https://me:s3cret@host/x", "--header", "Cookie: s3cret"}),
            "t.py --api-key=******** --lr 1 --wandb-token ******** hub.token=******** --url "
            "https://********@host/x --header Cookie: ********");
}

TEST(NodeFacts, DriverVersionAndGpuTypesAreRead) {
  const std::string gpus = "/proc/driver/nvidia/gpus/";
  const Facts facts = MachineFacts(
      {}, Machine({{"/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
                    "GCC version:  gcc version 12.3.0\n"},
                   {gpus + "0000:01:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\n"},
                   {gpus + "0000:02:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\n"}},
                  {"0000:01:00.0", "0000:02:00.0"}));
  EXPECT_EQ(facts, (Facts{{"GPU type", "NVIDIA H100 80GB HBM3"}, {"NVIDIA driver", "535.104.05"}}));
  const Facts open = MachineFacts(
      {}, Machine({{"/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n"}}));
  EXPECT_EQ(open.at("NVIDIA driver"), "560.35.03");
}

TEST(NodeFacts, APythonIsComparedByItsVersion) {
  EXPECT_EQ(PythonFact("/venv/bin/python", "/usr/bin/python3.11"), "3.11\x1f/venv/bin/python");
  EXPECT_EQ(PythonFact("/shims/python", "/shims/python"), "") << "a wrapper's version is not known";
  EXPECT_EQ(PythonFact("/bin/python3", ""), "");
}

TEST(NodeFacts, CutFactsStillDiffer) {
  Environment environment;
  for (int i = 0; i < 200; ++i) environment["NCCL_X" + std::to_string(i)] = "1";
  EXPECT_EQ(MachineFacts(environment, Machine({})).size(), kMaxFacts);
  const std::string one = FactValue(std::string(5000, 'x') + "1");
  EXPECT_LE(one.size(), kMaxFactValueBytes);
  EXPECT_NE(one, FactValue(std::string(5000, 'x') + "2"));
  EXPECT_EQ(FactValue("short"), "short");
  EXPECT_EQ(FactValue("\xff"), "?") << "what travels is UTF-8";
}

}  // namespace
}  // namespace muster::machine
