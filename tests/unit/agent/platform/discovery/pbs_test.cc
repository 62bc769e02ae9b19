// Details of PBS that tests/fixtures/expected.tsv does not hold; node_variables_test.cc reads its samples.
#include "agent/platform/discovery/pbs.h"

#include "agent/platform/discovery/discover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kHosts[] = "n1\nn2\nn1\nn3\n";

absl::StatusOr<ClusterView> Read(const Environment& environment, const std::string& hosts = kHosts) {
  return DiscoverWith(environment, {}, {{"/shared/hosts", hosts}});
}

std::string ErrorOf(const absl::StatusOr<ClusterView>& view) {
  if (view.ok()) return "no error";
  std::string message(view.status().message().data(), view.status().message().size());
  ExpectOneLine(message);
  return message;
}

Environment With(const std::string& file, const std::string& name, const std::string& value) {
  Environment environment = EnvironmentOf(file);
  environment[name] = value;
  return environment;
}

TEST(Pbs, HostsAreCountedOnce) {
  const absl::StatusOr<ClusterView> view = Read(EnvironmentOf("pbs_pbsdsh.env"));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_THAT(view->nodes, ElementsAre("n1:29400", "n2:29400", "n3:29400"));
  EXPECT_EQ(view->self, "n2");
  EXPECT_EQ(view->run_id, "pbs-1234.server");
}

TEST(Pbs, TheBatchScriptIsToldTheCommand) {
  EXPECT_THAT(ErrorOf(Read(EnvironmentOf("pbs_batch_script.env"))), HasSubstr("pbsdsh -u -- env PBS_NODEFILE="));
  Environment no_task = EnvironmentOf("pbs_pbsdsh.env");
  no_task.erase("PBS_NODENUM");
  EXPECT_THAT(ErrorOf(Read(no_task)), HasSubstr("PBS_NODENUM is missing"));
}

TEST(Pbs, UnderTorchrunTheBatchScriptIsAlone) {
  DiscoverOptions options;
  options.as_torchrun = true;
  EXPECT_EQ(DiscoverWith(EnvironmentOf("pbs_batch_script.env"), options, {})->source, "single");
}

TEST(Pbs, OneHostIsASingleNode) {
  EXPECT_EQ(Read(EnvironmentOf("pbs_batch_script.env"), "n1\nn1\n")->source, "single");
}

// PBS writes it on the batch script's host only.
TEST(Pbs, AMissingFileIsCopied) {
  EXPECT_THAT(ErrorOf(Read(With("pbs_pbsdsh.env", "PBS_NODEFILE", "/var/spool/pbs/aux/1"))),
              HasSubstr("/var/spool/pbs/aux/1: file not found; only the batch script's host has it"));
  EXPECT_THAT(ErrorOf(Read(EnvironmentOf("pbs_pbsdsh.env"), " \n")), HasSubstr("a file with a host per line"));
}

TEST(Pbs, PalsStartsOneProcessOnEachHost) {
  EXPECT_THAT(ErrorOf(Read(With("pbs_pals.env", "PALS_LOCAL_RANKID", "1"))),
              HasSubstr("PALS_LOCAL_RANKID is 1: expected 0, one process on each host; write mpiexec -ppn 1"));
  EXPECT_THAT(ErrorOf(Read(With("pbs_pals.env", "PALS_LOCAL_SIZE", "4"))), HasSubstr("mpiexec -ppn 1"));
  EXPECT_THAT(ErrorOf(Read(With("pbs_pals.env", "PMI_SIZE", "4"))), HasSubstr("PMI_SIZE is 4"));
  const absl::StatusOr<ClusterView> part = Read(EnvironmentOf("pbs_pals.env"));
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->nnodes, 2);
  EXPECT_THAT(part->nodes, IsEmpty()) << "the second of them may be n2 or n3";
}

// Their own variables describe the job; PBS' are those of the process that started mpirun's daemons.
TEST(Pbs, AnotherMpirunTakesPrecedence) {
  Environment environment = EnvironmentOf("pbs_batch_script.env");
  environment.merge(EnvironmentOf("mpi_openmpi_1pernode.env"));
  EXPECT_EQ(Read(environment)->source, "openmpi");
}

}  // namespace
}  // namespace muster::discovery
