// What a sidecar tells its host, and what the host plans from.
#include "cli/commands/sidecar_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/wire/sidecar.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::map<std::string, std::string> VariablesOf(const v1::AgentHello& hello) {
  return {hello.variables().begin(), hello.variables().end()};
}

TEST(HelloOfTest, HasTheOptionsAndWhatDescribesTheJob) {
  const v1::AgentHello hello = HelloOf({"--host-socket", "/run/s", "--nnodes", "2"},
                                       {{"MUSTER_LEASE", "5s"},
                                        {"PET_NNODES", "2"},
                                        {"JOB_COMPLETION_INDEX", "1"},
                                        {"HOSTNAME", "pod-1"},
                                        {"PATH", "/bin"},
                                        {"HF_TOKEN", "secret"}},
                                       "1.2", "5ca1");
  EXPECT_EQ(hello.protocol(), kSplitProtocol);
  EXPECT_EQ(hello.version(), "1.2");
  EXPECT_EQ(hello.sidecar_id(), "5ca1");
  EXPECT_THAT(hello.arguments(), ElementsAre("--host-socket", "/run/s", "--nnodes", "2"));
  EXPECT_THAT(VariablesOf(hello), UnorderedElementsAre(Pair("MUSTER_LEASE", "5s"), Pair("PET_NNODES", "2"),
                                                       Pair("JOB_COMPLETION_INDEX", "1")));
}

// The host has no use for them, and the variable with the socket's path may differ between the containers.
TEST(HelloOfTest, HasNeitherTheTokenNorTheSocket) {
  const v1::AgentHello hello =
      HelloOf({}, {{"MUSTER_TOKEN", "secret"}, {"MUSTER_HOST_SOCKET", "/run/s"}}, "1.2", "5ca1");
  EXPECT_TRUE(hello.variables().empty());
}

TEST(PlanningEnvironmentTest, OptionsCountInTheSidecarAlone) {
  v1::AgentHello hello;
  (*hello.mutable_variables())["MUSTER_LEASE"] = "5s";
  const Environment environment =
      PlanningEnvironment({{"MUSTER_LEASE", "9s"}, {"MUSTER_NNODES", "7"}, {"PATH", "/bin"}}, hello);
  EXPECT_THAT(environment, UnorderedElementsAre(Pair("MUSTER_LEASE", "5s"), Pair("PATH", "/bin")));
}

TEST(PlanningEnvironmentTest, AnOperatorMayDescribeTheJobToEitherContainer) {
  v1::AgentHello hello;
  (*hello.mutable_variables())["PET_NNODES"] = "2";
  const Environment environment = PlanningEnvironment({{"PET_NNODES", "1"}, {"PET_NODE_RANK", "1"}}, hello);
  EXPECT_THAT(environment, UnorderedElementsAre(Pair("PET_NNODES", "2"), Pair("PET_NODE_RANK", "1")));
}

TEST(HostSocketOfTest, TheOptionOverridesTheVariable) {
  CommandLine line;
  EXPECT_EQ(HostSocketOf(line, {}, {}), "");
  EXPECT_EQ(HostSocketOf(line, {}, {{"MUSTER_HOST_SOCKET", "/run/a"}}), "/run/a");
  line.given["host-socket"] = "/run/b";
  EXPECT_EQ(HostSocketOf(line, {}, {{"MUSTER_HOST_SOCKET", "/run/a"}}), "/run/b");
}

// So that the sidecar can tell the host what is wrong.
TEST(HostSocketOfTest, ItIsFoundAmongOptionsThatCannotBeParsed) {
  const auto wrong = absl::InvalidArgumentError("--bad");
  EXPECT_EQ(HostSocketOf(wrong, {"--bad", "--host-socket", "/run/b"}, {}), "/run/b");
  EXPECT_EQ(HostSocketOf(wrong, {"--host-socket=/run/b", "--bad"}, {}), "/run/b");
  EXPECT_EQ(HostSocketOf(wrong, {"--bad", "--host-socket"}, {{"MUSTER_HOST_SOCKET", "/run/a"}}), "/run/a");
}

TEST(HelloOfTest, HasNotTheTokensFile) {
  EXPECT_TRUE(HelloOf({}, {{"MUSTER_TOKEN_FILE", "/secret"}}, "1.2", "5ca1").variables().empty());
}

TEST(OptionsFromTest, TheTokensFileIsTheSidecarsAlone) {
  const absl::StatusOr<CommandLine> line =
      OptionsFrom(HelloOf({"--token-file", "/secret", "--nnodes", "2"}, {}, "1.2", "5ca1"));
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(line->given, UnorderedElementsAre(Pair("nnodes", "2")));
}

TEST(OptionsFromTest, WhatIsRunForEventsIsTheSidecarsAlone) {
  const v1::AgentHello hello = HelloOf(
      {"--standalone", "--on-event", "c", "--events=/f", "--on-event-filter", "all", "--nproc-per-node", "2"},
      {{"MUSTER_ON_EVENT", "c"}, {"MUSTER_EVENTS", "/f"}}, "1.2", "5ca1");
  EXPECT_TRUE(hello.variables().empty());
  EXPECT_THAT(hello.arguments(), UnorderedElementsAre("--standalone", "--nproc-per-node=2"));
}

}  // namespace
}  // namespace muster::cli
