// --numa-binding on simulated machines.
#include "agent/platform/machine/numa_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::machine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two sockets of two NUMA nodes with four cores each; CPUs n and n + 16 are threads of one core; each node has two
// groups with a common last-level cache. GPUs 0 and 1 are at node 0, GPU 2 at node 3; GPU 3 reports node -1.
class Numa : public ::testing::Test {
 protected:
  Numa() {
    for (int node = 0; node < 4; ++node) {
      const int first = 4 * node;
      files_[absl::StrCat("/sys/devices/system/node/node", node, "/cpulist")] =
          absl::StrCat(first, "-", first + 3, ",", first + 16, "-", first + 19, "\n");
      for (int i = 0; i < 4; ++i) {
        for (const int cpu : {first + i, first + i + 16}) {
          const std::string folder = absl::StrCat("/sys/devices/system/cpu/cpu", cpu);
          files_[folder + "/topology/physical_package_id"] = absl::StrCat(node / 2, "\n");
          files_[folder + "/topology/thread_siblings_list"] = absl::StrCat(first + i, ",", first + i + 16);
          files_[folder + "/cache/index0/level"] = "1";
          files_[folder + "/cache/index0/shared_cpu_list"] = absl::StrCat(first + i, ",", first + i + 16);
          const int group = i == 0 ? 0 : 1;  // one core, and three
          files_[folder + "/cache/index1/level"] = "3";
          files_[folder + "/cache/index1/shared_cpu_list"] =
              group == 0 ? absl::StrCat(first, ",", first + 16)
                         : absl::StrCat(first + 1, "-", first + 3, ",", first + 17, "-", first + 19);
        }
      }
    }
    for (int cpu = 0; cpu < 32; ++cpu) allowed_.insert(cpu);
    const int nodes[] = {0, 0, 3, -1};
    for (int gpu = 0; gpu < 4; ++gpu) {
      bus_ids_.push_back(absl::StrCat("0000:0", gpu, ":00.A"));
      files_[absl::StrCat("/sys/bus/pci/devices/0000:0", gpu, ":00.a/numa_node")] = absl::StrCat(nodes[gpu], "\n");
    }
  }

  std::vector<std::string> Bind(const char* mode, const std::vector<int>& gpus) {
    MachineProbe probe;
    probe.read = [this](const std::string& path) -> std::optional<std::string> {
      const auto found = files_.find(path);
      if (found == files_.end()) return std::nullopt;
      return found->second;
    };
    probe.list = [](const std::string&) {
      return std::vector<std::string>{"node0", "node1", "node2", "node3", "online"};
    };
    const auto cpus = BindToCpus(mode, gpus, bus_ids_, allowed_, probe);
    if (!cpus.ok()) return {std::string(cpus.status().message())};
    std::vector<std::string> lists;
    for (const CpuSet& set : *cpus) lists.push_back(FormatCpuList(set));
    return lists;
  }

  std::map<std::string, std::string> files_;
  std::vector<std::string> bus_ids_;
  CpuSet allowed_;
};

TEST_F(Numa, NodeIsAllCpusOfTheGpusNode) {
  EXPECT_THAT(Bind("node", {0, 2}), ElementsAre("0-3,16-19", "12-15,28-31"));
}

TEST_F(Numa, SocketIsAllCpusOfAllItsNodes) {
  EXPECT_THAT(Bind("socket", {0, 2}), ElementsAre("0-7,16-23", "8-15,24-31"));
}

// The first GPUs of a node get the cores that are left over.
TEST_F(Numa, ExclusiveDividesCoresAmongGpus) {
  // GPU 3 reports -1, which counts as node 0: three GPUs there.
  EXPECT_THAT(Bind("exclusive", {0, 1, 3, 2}), ElementsAre("0-1,16-17", "2,18", "3,19", "12-15,28-31"));
}

TEST_F(Numa, CoreComplexesShareACacheLargestFirst) {
  EXPECT_THAT(Bind("core-complex", {0, 1, 3}), ElementsAre("1-3,17-19", "0,16", "1-3,17-19"));
}

TEST_F(Numa, OnlyAllowedCpusCount) {
  allowed_ = {1, 2, 17};
  EXPECT_THAT(Bind("node", {0}), ElementsAre("1-2,17"));
  EXPECT_THAT(Bind("exclusive", {0}), ElementsAre(HasSubstr("NUMA node 0 has 2 cores for 3 GPUs")));
  EXPECT_THAT(Bind("node", {2}), ElementsAre(HasSubstr("may use no CPU of NUMA node 3")));
}

TEST_F(Numa, AGpuOfUnknownLocationIsAnError) {
  EXPECT_THAT(Bind("node", {7}), ElementsAre(HasSubstr("the PCI address of GPU 7 is not known")));
  files_.erase("/sys/bus/pci/devices/0000:02:00.a/numa_node");
  EXPECT_THAT(Bind("node", {2}), ElementsAre(HasSubstr("contains no NUMA node")));
}

TEST(CpuList, IsReadAndWrittenAsTheKernelWritesIt) {
  EXPECT_EQ(FormatCpuList(*ParseCpuList("8, 0-3\n")), "0-3,8");
  EXPECT_TRUE(ParseCpuList("\n")->empty());
  for (const char* bad : {"a", "3-1", "1-2-3", "-1", "0-99999999"}) EXPECT_FALSE(ParseCpuList(bad).ok()) << bad;
}

}  // namespace
}  // namespace muster::machine
