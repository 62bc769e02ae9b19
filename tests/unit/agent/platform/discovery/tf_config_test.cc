// TF_CONFIG: every sample of the family "tf_config" is read as tests/fixtures/expected.tsv says, and then the
// details that the table does not hold.
#include "agent/platform/discovery/tf_config.h"

#include <regex>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Reading Read(const std::string& config) { return ReadTfConfig({{"TF_CONFIG", config}}); }

ClusterView ReadOk(const std::string& config) {
  const Reading reading = Read(config);
  EXPECT_TRUE(reading.ok()) << reading.status();
  return reading.ok() && reading->has_value() ? **reading : ClusterView();
}

std::string ErrorOf(const std::string& config) {
  const Reading reading = Read(config);
  if (reading.ok()) return "no error";
  std::string message(reading.status().message().data(), reading.status().message().size());
  ExpectOneLine(message);
  return message;
}

std::string Config(const std::string& cluster, const std::string& task) {
  return absl::StrCat(R"({"cluster":)", cluster, R"(,"task":)", task, "}");
}

class TfConfigFixture : public ::testing::TestWithParam<Fixture> {};

TEST_P(TfConfigFixture, IsReadAsTheTableSays) {
  const Fixture& fixture = GetParam();
  const absl::StatusOr<ClusterView> view = DiscoverWith({{"TF_CONFIG", ReadFixture(fixture.file)}});
  if (fixture.outcome == "error") {
    ASSERT_EQ(fixture.file, "tf_config_kubeflow_sparse.json") << "this row needs its own fragment";
    EXPECT_THAT(std::string(view.status().message()), HasSubstr("sparse form"));
    ExpectOneLine(std::string(view.status().message()));
    return;
  }
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->source, "tf_config");
  EXPECT_EQ(view->role, fixture.outcome == "aux" ? NodeRole::kAux : NodeRole::kTrainer);
  if (fixture.outcome == "aux") {
    EXPECT_EQ(view->node_rank, -1);
    return;
  }
  const std::optional<Fixture::Place> stated = fixture.StatedPlace();
  ASSERT_TRUE(stated.has_value()) << "expected.tsv states no place: " << fixture.reading;
  EXPECT_EQ(view->node_rank, stated->rank);
  EXPECT_EQ(view->nnodes, stated->count);
  EXPECT_THAT(view->nodes, SizeIs(stated->count));
  if (fixture.reading.find("trial \"1\"") != std::string::npos) {
    EXPECT_THAT(view->run_id, HasSubstr("-trial-1"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TfConfigFixture, ::testing::ValuesIn(FixturesOf("tf_config")), [](const auto& info) {
  return std::regex_replace(info.param.file, std::regex("[^A-Za-z0-9]"), "_");
});

TEST(TfConfig, WithoutClusterAndTaskItDoesNotApply) {
  EXPECT_EQ(ReadTfConfig({{"PATH", "/bin"}}).value(), std::nullopt);
  for (const char* config : {"", " \n", "{}", R"({"environment":"cloud"})"}) {
    EXPECT_EQ(Read(config).value(), std::nullopt) << config;
  }
}

TEST(TfConfig, HalfOfItIsRefused) {
  EXPECT_THAT(ErrorOf(R"({"task":{"type":"worker","index":0}})"), HasSubstr("cluster is missing"));
  EXPECT_THAT(ErrorOf(R"({"cluster":{"worker":["a:1"]}})"), HasSubstr("task is missing"));
}

TEST(TfConfig, TheOtherSparseFormIsRefusedByName) {
  EXPECT_THAT(
      ErrorOf(R"({"sparseCluster":{"worker":{"1":"a:1"}},"task":{"type":"worker","index":1}})"),
      ::testing::AllOf(HasSubstr("TF_CONFIG: sparseCluster is"), HasSubstr("enableDynamicWorker to false")));
}

TEST(TfConfig, WithoutAChiefWorkerZeroIsThePrimary) {
  const ClusterView view =
      ReadOk(Config(R"({"ps":["p:1"],"worker":["a:2222","b:2222","c"]})", R"({"type":"worker","index":2})"));
  EXPECT_EQ(view.node_rank, 2);
  EXPECT_EQ(view.primary_host, "a");
  EXPECT_EQ(view.primary_port, 2222);
  EXPECT_THAT(view.nodes, ElementsAre("a:2222", "b:2222", "c:29400"));
  EXPECT_EQ(view.run_id, "tf-config-a-2222");
  EXPECT_EQ(view.self, "worker-2");
}

TEST(TfConfig, AnEvaluatorMayBeInTheListsOrNot) {
  const ClusterView listed =
      ReadOk(Config(R"({"chief":["a:1"],"evaluator":["e:1"]})", R"({"type":"evaluator","index":0})"));
  EXPECT_EQ(listed.role, NodeRole::kAux);
  EXPECT_EQ(listed.nnodes, 1);
  EXPECT_EQ(ReadOk(Config(R"({"chief":["a:1"]})", R"({"type":"evaluator"})")).role, NodeRole::kAux);
}

TEST(TfConfig, ThereIsOneChief) {
  const std::string task = R"({"type":"worker","index":0})";
  EXPECT_THAT(ErrorOf(Config(R"({"chief":["a:1","b:1"],"worker":["c:1"]})", task)),
              HasSubstr("2 chief and 0 master"));
  EXPECT_THAT(ErrorOf(Config(R"({"chief":["a:1"],"master":["b:1"],"worker":["c:1"]})", task)),
              HasSubstr("1 chief and 1 master"));
  EXPECT_THAT(ErrorOf(Config(R"({"ps":["a:1"]})", R"({"type":"ps","index":0})")), HasSubstr("a chief or workers"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":[]})", task)), HasSubstr("a chief or workers"));
}

TEST(TfConfig, UnknownContentIsRefused) {
  const std::string task = R"({"type":"worker","index":0})";
  EXPECT_THAT(ErrorOf("nonsense"), HasSubstr("TF_CONFIG is not JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(ErrorOf(Config(R"({"workers":["a:1"]})", task)), HasSubstr("cluster.workers is"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":"a:1"})", task)), HasSubstr("expected a list"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":[""]})", task)), HasSubstr("cluster.worker[0] is empty"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":["a:1","A:1"]})", task)), HasSubstr("cluster.worker[1] is A:1"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":["a:1"]})", R"({"type":"chief","index":0})")),
              HasSubstr("task.type is chief"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":["a:1"]})", R"({"type":7,"index":0})")), HasSubstr("task.type is 7"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":["a:1"]})", R"({"type":"worker"})")),
              HasSubstr("task.index is missing"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":["a:1"]})", R"({"type":"worker","index":1})")),
              HasSubstr("task.index is 1: expected 0"));
  EXPECT_THAT(ErrorOf(Config(R"({"worker":["a:1"]})", R"({"type":"worker","index":"one"})")),
              HasSubstr("task.index is \"one\": expected 0"));
  EXPECT_EQ(ReadOk(Config(R"({"worker":["a:1","b:1"]})", R"({"type":"worker","index":"1"})")).node_rank, 1);
  EXPECT_THAT(ErrorOf(Config(R"({"worker":["a:1"],"ps":[]})", R"({"type":"ps","index":0})")),
              HasSubstr("this one is empty"));
}

TEST(TfConfig, ClusterSpecTakesPrecedence) {
  const Environment environment = {
      {"CLUSTER_SPEC",
       R"({"cluster":{"workerpool0":["a:1"],"workerpool3":["e:1"]},"task":{"type":"workerpool3","index":0}})"},
      {"TF_CONFIG", "broken"}};
  EXPECT_EQ(DiscoverWith(environment).value().source, "vertex");
}

TEST(TfConfigRobustness, DamagedSamplesAreErrorsOrSound) {
  for (const Fixture& fixture : FixturesOf("tf_config")) {
    for (const std::string& mutant : MutantsOf(ReadFixture(fixture.file))) {
      const Reading reading = Read(mutant);
      if (!reading.ok()) {
        ExpectOneLine(std::string(reading.status().message().data(), reading.status().message().size()));
        continue;
      }
      if (!reading->has_value()) continue;
      const ClusterView& view = **reading;
      EXPECT_EQ(view.nnodes, static_cast<int>(view.nodes.size()));
      EXPECT_LT(view.node_rank, view.nnodes);
      EXPECT_EQ(view.node_rank >= 0, view.role == NodeRole::kTrainer);
      EXPECT_FALSE(view.primary_host.empty());
      EXPECT_NE(view.primary_port, 0);
    }
  }
}

}  // namespace
}  // namespace muster::discovery
