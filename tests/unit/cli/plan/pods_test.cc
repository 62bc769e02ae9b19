// Pods with a number from Kubernetes, and options given beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/status_macros.h"
#include "cli/env/env_report.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_table.h"
#include "cli/plan/make_plan.h"
#include "tests/unit/cli/plan/plan_fixture.h"

namespace muster::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Pod 1 of the first job of the group "workers", which follows two jobs of another group with 4 pods each.
const Environment& PodOfTheSecondGroup() {
  static const Environment environment = {{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "js-workers-0-1"},
                                          {"JOBSET_NAME", "js"},         {"MUSTER_PODS_PER_JOB", "4"},
                                          {"MUSTER_NNODES", "12"},       {"MUSTER_JOB_INDEX", "2"}};
  return environment;
}

TEST(PodTest, AJobSetsPodKeepsItsRankWithAMasterAddr) {
  const Environment& worker = PodOfTheSecondGroup();
  Environment by_variable = worker, by_option = worker;
  by_variable["MUSTER_MASTER_ADDR"] = "js-driver-0-0.js";
  by_option.erase("MUSTER_NNODES");
  for (const RunPlan& plan : {Planned({"--master-addr", "js-driver-0-0.js"}, worker), Planned({}, by_variable),
                              Planned({"--nnodes", "12", "--master-addr", "js-driver-0-0.js"}, by_option),
                              Planned({"--source", "jobset", "--master-addr", "js-driver-0-0.js"}, worker)}) {
    EXPECT_EQ(plan.view.source, "jobset");
    EXPECT_EQ(plan.host.config.place(), 9);
    EXPECT_EQ(plan.host.config.max_nodes(), 12);
    EXPECT_EQ(plan.host.config.primary().host(), "js-driver-0-0.js");
    EXPECT_EQ(plan.host.config.primary().port(), 29400u) << "that of the first group, which needs no option";
    EXPECT_EQ(plan.host.config.run_id(), "k8s-js");
    EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_NO);
  }
  EXPECT_THAT(std::string(AsStd(TryPlan({}, worker).status().message())),
              HasSubstr("give --master-addr, the same on all nodes"));
}

TEST(PodTest, TheFirstPodOfAJobSetServesWithAMasterAddr) {
  Environment first = PodOfTheSecondGroup();
  first["HOSTNAME"] = "js-driver-0-0";
  first["JOB_COMPLETION_INDEX"] = first["MUSTER_JOB_INDEX"] = "0";
  for (const Words& words : {Words{}, Words{"--master-addr", "js-driver-0-0.js"},
                             Words{"--source", "jobset", "--master-addr", "js-driver-0-0.js"}}) {
    const RunPlan plan = Planned(words, first);
    EXPECT_EQ(plan.host.config.place(), 0);
    EXPECT_EQ(plan.host.config.serves(), v1::NodeConfig::SERVES_YES);
    EXPECT_EQ(plan.host.config.primary().port(), 29400u);
    EXPECT_EQ(plan.host.config.run_id(), "k8s-js");
  }
}

TEST(PodTest, AMasterAddrReplacesTheService) {
  const Words words = {"--nnodes", "2", "--master-addr", "10.0.0.5"};
  for (const Environment& pod :
       {Environment{{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "some-node"}},
        Environment{
            {"KUBERNETES_SERVICE_HOST", "10.1.0.1"}, {"HOSTNAME", "t-1"}, {"MUSTER_SUBDOMAIN", "bad_name/"}}}) {
    const RunPlan plan = Planned(words, pod);
    EXPECT_EQ(plan.host.config.place(), 1);
    EXPECT_EQ(plan.host.config.primary().host(), "10.0.0.5");
    EXPECT_EQ(plan.host.config.run_id(), "none");
    EXPECT_THAT(EnvTable({plan, {}, {}, pod}), ContainsRegex("primary +10.0.0.5:29400 +--master-addr\n"));
  }
}

TEST(PodTest, AnUnreadablePodNumberIsNotNodeZero) {
  const Environment pod = {{"JOB_COMPLETION_INDEX", "2"}, {"HOSTNAME", "j-2"}, {"MUSTER_SUBDOMAIN", "s"}};
  const Words words = {"--nnodes", "3", "--master-addr", "j-0.s"};
  EXPECT_EQ(Planned(words, pod).host.config.place(), 2);
  for (const char* index : {"", "3", "x"}) {
    Environment broken = pod;
    broken["JOB_COMPLETION_INDEX"] = index;
    const absl::Status status = TryPlan(words, broken).status();
    EXPECT_EQ(ExitCodeOf(status), 65) << index;
    EXPECT_THAT(std::string(AsStd(status.message())), HasSubstr("JOB_COMPLETION_INDEX is ")) << index;
  }
}

TEST(PodTest, OnlyStatefulSetPodsHaveOrdinals) {
  const Words words = {"--nnodes", "3", "--master-addr", "t-0.s"};
  EXPECT_EQ(Planned(words, {{"HOSTNAME", "t-2"}, {"MUSTER_SUBDOMAIN", "s"}}).host.config.place(), 2);
  const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words);
  Machine machine = MachineWith(0);
  static const discovery::FileReader hosts = [](const std::string& path, size_t) -> absl::StatusOr<std::string> {
    if (path == "/etc/hosts") return "127.0.1.1 node-1.lan node-1\n";
    return absl::NotFoundError(path);
  };
  machine.sources_here = [](const Environment& variables, const discovery::DiscoverOptions& options) {
    return discovery::SourcesHere({variables, hosts}, options);
  };
  const absl::StatusOr<RunPlan> plan = Plan(*line, {{"HOSTNAME", "node-1"}}, machine);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->host.config.place(), 0);
}

TEST(PodTest, APodMayGetItsRankByHandOrAtTheRendezvous) {
  const Environment& pod = PodOfTheSecondGroup();
  EXPECT_EQ(Planned({"--node-rank", "3", "--master-addr", "a"}, pod).host.config.place(), 3);
  EXPECT_EQ(Planned({"--node-rank", "3", "--master-addr", "a"}, pod).view.source, "flags");
  EXPECT_FALSE(Planned({"--rdzv-endpoint", "a"}, pod).host.config.has_place());
}

TEST(PodTest, ASecondPodOfOneIsRefused) {
  const auto message = [](const Environment& environment) {
    return std::string(AsStd(TryPlan({}, environment).status().message()));
  };
  Environment job = {{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "j-1"}, {"MUSTER_NNODES", "1"}};
  EXPECT_THAT(message(job), HasSubstr("JOB_COMPLETION_INDEX is 1: expected 0, as there is 1 node"));
  EXPECT_THAT(message(job), HasSubstr("; or give --nnodes 1 for a job of this pod alone"));
  EXPECT_EQ(ExitCodeOf(TryPlan({}, job).status()), 65);
  EXPECT_TRUE(Planned({"--nnodes", "1"}, job).host.config.single_node());
  job["JOB_COMPLETION_INDEX"] = "";
  EXPECT_THAT(message(job), HasSubstr("JOB_COMPLETION_INDEX is empty"));
  job["JOB_COMPLETION_INDEX"] = "0";
  EXPECT_TRUE(Planned({}, job).host.config.single_node()) << "without a Service";
  const Environment set = {{"HOSTNAME", "t-2"}, {"MUSTER_SUBDOMAIN", "s"}, {"MUSTER_NNODES", "1"}};
  EXPECT_THAT(message(set), HasSubstr("the ordinal of t-2 is 2: expected 0"));
}

TEST(PodTest, ASourcesOwnPrimaryVariableIsNoOverride) {
  const Environment trainer = {{"PET_NNODES", "4"},          {"PET_NODE_RANK", "3"},
                               {"PET_MASTER_ADDR", "t-0.t"}, {"PET_MASTER_PORT", "23456"},
                               {"MUSTER_NNODES", "4"},       {"JOB_COMPLETION_INDEX", "3"},
                               {"HOSTNAME", "t-3"},          {"MUSTER_SUBDOMAIN", "t"}};
  for (const char* source : {"trainer", "indexed-job"}) {
    const RunPlan plan = Planned({"--source", source}, trainer);
    EXPECT_EQ(plan.view.source, source);
    EXPECT_EQ(plan.host.config.place(), 3);
    EXPECT_EQ(plan.host.config.primary().host(), "t-0.t");
    EXPECT_EQ(plan.host.config.primary().port(), 23456u);
  }
}

}  // namespace
}  // namespace muster::cli
