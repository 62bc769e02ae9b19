// resourceconfig.json: every sample of the family "sagemaker" is read as tests/fixtures/expected.tsv says, and
// then the details that the table does not hold.
#include "agent/platform/discovery/sagemaker.h"

#include <random>
#include <regex>

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/sagemaker_variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kTwo[] = R"({"current_host":"algo-2","hosts":["algo-1","algo-2"],"network_interface_name":"eth0"})";

Reading Read(const std::string& text, const std::string& groups = "", const Environment& environment = {}) {
  const FileReader reader = ReaderOf({{kSageMakerConfig, text}});
  return ReadSageMaker({environment, reader}, {.instance_groups = groups});
}

ClusterView ReadOk(const std::string& text, const std::string& groups = "", const Environment& environment = {}) {
  const Reading reading = Read(text, groups, environment);
  EXPECT_TRUE(reading.ok()) << reading.status();
  return reading.ok() && reading->has_value() ? **reading : ClusterView();
}

std::string ErrorOf(const std::string& text, const std::string& groups = "", const Environment& environment = {}) {
  const Reading reading = Read(text, groups, environment);
  if (reading.ok()) return "no error";
  std::string message(reading.status().message().data(), reading.status().message().size());
  ExpectOneLine(message);
  return message;
}

// ---- Driven from expected.tsv ----

class SageMakerFixture : public ::testing::TestWithParam<Fixture> {
 protected:
  static absl::StatusOr<ClusterView> View(const std::string& groups = "") {
    const std::string& file = GetParam().file;
    DiscoverOptions options;
    options.sagemaker.instance_groups = groups;
    if (file.ends_with(".env")) return DiscoverWith(EnvironmentOf(file), options);
    return DiscoverWith({}, options, {{kSageMakerConfig, ReadFixture(file)}});
  }
};

// Required text of the error, by file; the table's row describes it.
const std::map<std::string, std::string>& ErrorFragments() {
  static const std::map<std::string, std::string> fragments = {
      {"broken_sagemaker_self_not_listed.json",
       "current_host is algo-4: expected one of hosts, which are algo-1, algo-2, algo-3"},
      {"broken_sagemaker_hosts_empty.json", "hosts is []: expected a list"},
      {"broken_sagemaker_current_missing.json", "current_host is missing"},
      {"broken_sagemaker_hosts_string.json", "hosts is algo-1,algo-2: expected a list of host names"},
      {"broken_sagemaker_empty_file.json", "resourceconfig.json is empty"},
      {"broken_sagemaker_toolkit_outside.json", "hosts is missing"},
  };
  return fragments;
}

void ExpectPlace(const Fixture& fixture, const ClusterView& view) {
  EXPECT_EQ(view.source, "sagemaker");
  EXPECT_EQ(view.role, NodeRole::kTrainer);
  const std::optional<Fixture::Place> stated = fixture.StatedPlace();
  ASSERT_TRUE(stated.has_value()) << "expected.tsv states no place: " << fixture.reading;
  EXPECT_EQ(view.node_rank, stated->rank);
  EXPECT_EQ(view.nnodes, stated->count);
  EXPECT_THAT(view.nodes, SizeIs(stated->count));
  std::smatch match;
  if (std::regex_search(fixture.reading, match, std::regex("primary (algo-\\d+)(?::(\\d+))?"))) {
    EXPECT_EQ(view.primary_host, match[1]);
    EXPECT_EQ(view.primary_port, match[2].matched ? std::stoi(match[2]) : kDefaultRendezvousPort);
  }
  if (std::regex_search(fixture.reading, match, std::regex("ifname (\\w+)"))) {
    EXPECT_THAT(view.for_workers, Contains(Pair("NCCL_SOCKET_IFNAME", match[1].str())));
  }
}

TEST_P(SageMakerFixture, IsReadAsTheTableSays) {
  const Fixture& fixture = GetParam();
  const absl::StatusOr<ClusterView> view = View();
  if (fixture.outcome == "error") {
    ASSERT_FALSE(view.ok()) << "read as rank " << view->node_rank << " of " << view->nnodes;
    const std::string message(view.status().message().data(), view.status().message().size());
    ExpectOneLine(message);
    const auto fragment = ErrorFragments().find(fixture.file);
    ASSERT_NE(fragment, ErrorFragments().end()) << "this row needs an entry in ErrorFragments(): " << message;
    EXPECT_THAT(message, HasSubstr(fragment->second));
    return;
  }
  ASSERT_TRUE(view.ok()) << view.status();
  if (fixture.outcome == "aux") {  // the group that the reading names: "with group filter train1"
    EXPECT_EQ(view->role, NodeRole::kTrainer);
    const ClusterView other = View("train1").value();
    EXPECT_EQ(other.role, NodeRole::kAux);
    EXPECT_TRUE(other.may_have_aux);
    EXPECT_FALSE(view->may_have_aux);
    EXPECT_EQ(other.node_rank, -1);
    EXPECT_EQ(other.nnodes, 2);
    const ClusterView own = View("train2").value();
    EXPECT_EQ(own.node_rank, 0);
    EXPECT_THAT(own.nodes, ElementsAre("algo-3:29400"));
    EXPECT_EQ(View("train2, train1").value().node_rank, 2);
    return;
  }
  ExpectPlace(fixture, *view);
  EXPECT_EQ(!view->warnings.empty(), fixture.outcome == "warn");
  for (const std::string& warning : view->warnings) ExpectOneLine(warning);
}

INSTANTIATE_TEST_SUITE_P(All, SageMakerFixture, ::testing::ValuesIn(FixturesOf("sagemaker")),
                         [](const auto& info) {
                           return std::regex_replace(info.param.file, std::regex("[^A-Za-z0-9]"), "_");
                         });

// ---- Details ----

TEST(SageMaker, WithoutFileOrVariablesItDoesNotApply) {
  const FileReader no_files = ReaderOf({});
  const Environment environment = {{"TRAINING_JOB_NAME", "job"}, {"SM_CURRENT_HOST", "algo-1"}};
  EXPECT_EQ(ReadSageMaker({environment, no_files}, {}).value(), std::nullopt);
}

TEST(SageMaker, TheFileBeatsTheVariablesMadeFromIt) {
  const Environment environment = {{"SM_HOSTS", R"(["algo-9"])"}, {"SM_CURRENT_HOST", "algo-9"}};
  EXPECT_EQ(ReadOk(kTwo, "", environment).self, "algo-2");
}

TEST(SageMaker, ANamedFileMustExist) {
  const FileReader reader = ReaderOf({{"/tmp/config", kTwo}});
  const Environment there = {{kSageMakerConfigVariable, "/tmp/config"}};
  EXPECT_EQ(ReadSageMaker({there, reader}, {}).value()->node_rank, 1);
  const Environment absent = {{kSageMakerConfigVariable, "/no\nwhere"}};
  const Reading reading = ReadSageMaker({absent, reader}, {});
  EXPECT_THAT(std::string(reading.status().message()),
              HasSubstr(R"(MUSTER_SAGEMAKER_CONFIG is /no\nwhere: expected the path)"));
}

TEST(SageMaker, AnIncompleteFileIsWorthARetry) {
  for (const char* text : {"", " \n", "{", R"({"current_host":"algo-1","hosts":["algo-1",)"}) {
    EXPECT_TRUE(absl::IsUnavailable(Read(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Read("{}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Read("{oops}").status()));
}

TEST(SageMaker, TheRunIdIsTheJobsName) {
  EXPECT_EQ(ReadOk(kTwo, "", {{"TRAINING_JOB_NAME", "job-7"}}).run_id, "job-7");
  EXPECT_EQ(ReadOk(kTwo).run_id, "sagemaker-algo-1");
  EXPECT_THAT(ErrorOf(kTwo, "", {{"TRAINING_JOB_NAME", "a\nb"}}), HasSubstr(R"(TRAINING_JOB_NAME is a\nb)"));
}

TEST(SageMaker, WithoutAnInterfaceWorkersGetNone) {
  for (const char* interface : {"", R"(,"network_interface_name":"")", R"(,"network_interface_name":null)"}) {
    const ClusterView view = ReadOk(absl::StrCat(R"({"current_host":"a","hosts":["a"])", interface, "}"));
    EXPECT_EQ(view.for_workers.count("NCCL_SOCKET_IFNAME"), 0u);
    EXPECT_EQ(view.for_workers.count("SM_NETWORK_INTERFACE_NAME"), 0u);
  }
}

TEST(SageMaker, AnInvalidInterfaceIsRefused) {
  for (const char* interface : {R"("a b")", R"("eth0,eth1")", R"("sixteen-chars-long")", "7", R"("a\nB=1")"}) {
    const std::string text =
        absl::StrCat(R"({"current_host":"a","hosts":["a"],"network_interface_name":)", interface, "}");
    EXPECT_THAT(ErrorOf(text), HasSubstr("network_interface_name is")) << interface;
  }
}

TEST(SageMaker, HostsAreDistinctNamesWithoutPorts) {
  const auto of = [](const char* hosts) { return absl::StrCat(R"({"current_host":"a","hosts":)", hosts, "}"); };
  EXPECT_THAT(ErrorOf(of(R"(["a","a"])")), HasSubstr("hosts[1] is a: expected each host once"));
  EXPECT_THAT(ErrorOf(of(R"(["a","b:22"])")), HasSubstr("hosts[1] is b:22: expected a host's name"));
  EXPECT_THAT(ErrorOf(of(R"(["a",""])")), HasSubstr("hosts[1] is empty"));
  EXPECT_THAT(ErrorOf(of(R"(["a",7])")), HasSubstr("hosts[1] is 7"));
  EXPECT_THAT(ErrorOf(of(R"({"a":1})")), HasSubstr("expected a list"));
  EXPECT_THAT(ErrorOf(R"({"current_host":"a","hosts":["a"],"hosts":["b"]})"), HasSubstr("the member hosts twice"));
}

TEST(SageMaker, AnUnknownGroupIsRefusedNamingTheKnown) {
  const std::string hetero = ReadFixture("sagemaker_resourceconfig_hetero_other_group.json");
  EXPECT_THAT(ErrorOf(hetero, "train3"),
              HasSubstr("--instance-groups is train3: expected one of the instance groups train1, train2"));
  EXPECT_THAT(ErrorOf(hetero, "train1,"), HasSubstr("--instance-groups is empty"));
  EXPECT_THAT(ErrorOf(kTwo, "train1"), HasSubstr("names none"));
  const std::string strange = ReadFixture("broken_sagemaker_group_unknown_host.json");
  EXPECT_THAT(ErrorOf(strange, "g"), HasSubstr("instance_groups: g is algo-9: expected hosts that hosts has too"));
}

TEST(SageMaker, GroupsOfAWrongShapeAreRefused) {
  const auto with = [](const char* groups) {
    return absl::StrCat(R"({"current_host":"a","hosts":["a"],"instance_groups":)", groups, "}");
  };
  EXPECT_THAT(ErrorOf(with("7")), HasSubstr("instance_groups is 7"));
  EXPECT_THAT(ErrorOf(with("[7]")), HasSubstr("instance_groups[0] is 7"));
  EXPECT_THAT(ErrorOf(with("[{}]")), HasSubstr("instance_groups[0].instance_group_name is missing"));
  EXPECT_THAT(ErrorOf(with(R"([{"instance_group_name":"g"}])")), HasSubstr("instance_groups[0].hosts is missing"));
  EXPECT_THAT(ErrorOf(with(R"([{"instance_group_name":"g","hosts":[]},{"instance_group_name":"g","hosts":[]}])")),
              HasSubstr("instance_groups[1].instance_group_name is g"));
  EXPECT_THAT(ErrorOf(with(R"([{"instance_group_name":"g","hosts":[]}])"), "g"),
              HasSubstr("groups that have hosts"));
}

TEST(SageMaker, WithoutTheFileToolkitVariablesAreRead) {
  const FileReader no_files = ReaderOf({});
  const Environment hosts = {{"SM_HOSTS", R"(["algo-2","algo-1"])"}, {"SM_CURRENT_HOST", "algo-2"}};
  const Reading reading = ReadSageMaker({hosts, no_files}, {});
  EXPECT_EQ(reading.value()->node_rank, 1);
  EXPECT_EQ(reading.value()->primary_port, kDefaultRendezvousPort);
  const Environment broken = {{"SM_HOSTS", R"(algo-1,algo-2)"}, {"SM_CURRENT_HOST", "algo-2"}};
  const absl::Status status = ReadSageMaker({broken, no_files}, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("SM_HOSTS is algo-1,algo-2: expected a JSON list"));
}

TEST(SageMaker, ToolkitVariablesAreReadStrictly) {
  const FileReader no_files = ReaderOf({});
  const auto error = [&](const Environment& environment) {
    return std::string(ReadSageMaker({environment, no_files}, {}).status().message());
  };
  EXPECT_THAT(error({{"SM_HOSTS", R"(["a","b"])"}}), HasSubstr("SM_CURRENT_HOST is missing"));
  EXPECT_THAT(error({{"SM_HOSTS", R"(["a"],"x":["b"])"}, {"SM_CURRENT_HOST", "a"}}),
              HasSubstr("SM_HOSTS is [\"a\"]"));
  EXPECT_THAT(error({{"SM_HOSTS", R"("a")"}, {"SM_CURRENT_HOST", "a"}}), HasSubstr("expected a JSON list"));
  EXPECT_THAT(error({{"SM_HOSTS", R"(["a"])"}, {"SM_CURRENT_HOST", "a"}, {"SM_MASTER_PORT", "x"}}),
              HasSubstr("SM_MASTER_PORT is x"));
  EXPECT_THAT(error({{"SM_HOSTS", R"(["a"])"}, {"SM_CURRENT_HOST", "a"}, {"SM_NETWORK_INTERFACE_NAME", "a,b"}}),
              ::testing::StartsWith("SM_NETWORK_INTERFACE_NAME is a,b: expected the name of a network interface"));
}

TEST(SageMaker, ManyStrangeGroupsAreOneWarning) {
  std::string groups;
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&groups, i > 0 ? "," : "", R"({"instance_group_name":"g)", i, R"(","hosts":["z"]})");
  }
  const ClusterView view =
      ReadOk(absl::StrCat(R"({"current_host":"a","hosts":["a"],"instance_groups":[)", groups, "]}"));
  EXPECT_THAT(view.warnings, ElementsAre(HasSubstr("instance_groups: g0 has z: expected only hosts")));
}

// ---- Variables that scripts of the toolkit read ----

absl::StatusOr<TrainingInputs> Inputs(const std::string& parameters, const std::string& channels = "") {
  return ReadTrainingInputs(
      ReaderOf({{"/c/hyperparameters.json", parameters}, {"/c/inputdataconfig.json", channels}}), "/c/");
}

TEST(TrainingInputs, WithoutFilesOnlyFoldersAreSet) {
  const TrainingInputs inputs = ReadTrainingInputs(ReaderOf({}), "/c/").value();
  EXPECT_THAT(inputs.arguments, IsEmpty());
  EXPECT_THAT(inputs.variables, Contains(Pair("SM_HPS", "{}")));
  EXPECT_THAT(inputs.variables, Contains(Pair("SM_CHANNELS", "[]")));
  EXPECT_THAT(inputs.variables, Contains(Pair("SM_MODEL_DIR", "/opt/ml/model")));
}

TEST(TrainingInputs, AStringOfJsonIsThatValue) {
  const TrainingInputs inputs =
      Inputs(
          R"({"a":"\"quoted\"","b":"false","c":"null","d":"{\"k\": [1, 2]}","e":"plain text","f":0.50,"g":"1.50"})")
          .value();
  EXPECT_THAT(inputs.arguments, ElementsAre("-a", "quoted", "-b", "False", "-c", "", "-d", R"({"k":[1,2]})", "-e",
                                            "plain text", "-f", "0.5", "-g", "1.50"));
  EXPECT_THAT(inputs.variables, Contains(Pair("SM_HP_B", "false")));
  EXPECT_THAT(inputs.variables, Contains(Pair("SM_HP_G", "1.50")));
}

TEST(TrainingInputs, UnsuitableValuesAreLeftOutWithAWarning) {
  const std::string parameters =
      absl::StrCat(R"({"a=b":"1","long":")", std::string(kMaxVariableBytes, 'x'), R"("})");
  const TrainingInputs inputs = Inputs(parameters).value();
  EXPECT_THAT(inputs.warnings, ElementsAre("SM_HP_A=B is not set for the workers: it is no variable's name",
                                           "SM_HP_LONG is not set for the workers: its value is too long",
                                           "SM_HPS is not set for the workers: its value is too long"));
  EXPECT_THAT(inputs.arguments, SizeIs(4));
}

TEST(TrainingInputs, OnlyAFewLeftOutValuesAreNamed) {
  std::string parameters;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&parameters, i > 0 ? "," : "", "\"a=", i, "\":\"1\"");
  const TrainingInputs inputs = Inputs(absl::StrCat("{", parameters, "}")).value();
  ASSERT_THAT(inputs.warnings, SizeIs(9));
  EXPECT_EQ(inputs.warnings.back(), "992 more variables like these are not set");
}

TEST(TrainingInputs, AFileThatCannotBeReadIsRefused) {
  for (const char* parameters : {"[]", "{", R"({"a":"x\u0000y"})", "7"}) {
    const absl::Status status = Inputs(parameters).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << parameters;
    EXPECT_THAT(std::string(status.message()), StartsWith("hyperparameters.json"));
    ExpectOneLine(std::string(status.message()));
  }
  EXPECT_THAT(std::string(Inputs("{}", "[]").status().message()), StartsWith("inputdataconfig.json is []"));
  EXPECT_THAT(std::string(Inputs(std::string(kMaxHyperparametersBytes + 1, ' ')).status().message()),
              HasSubstr("expected a file of at most 524288 bytes"));
}

TEST(SageMakerRobustness, DamagedSamplesAreErrorsOrSound) {
  for (const Fixture& fixture : FixturesOf("sagemaker")) {
    if (!fixture.file.ends_with(".json")) continue;
    for (const std::string& mutant : MutantsOf(ReadFixture(fixture.file))) {
      for (const char* groups : {"", "train1"}) {
        const Reading reading = Read(mutant, groups);
        if (!reading.ok()) {
          ExpectOneLine(std::string(reading.status().message().data(), reading.status().message().size()));
          continue;
        }
        const ClusterView& view = **reading;
        EXPECT_EQ(view.nnodes, static_cast<int>(view.nodes.size()));
        EXPECT_LT(view.node_rank, view.nnodes);
        EXPECT_EQ(view.node_rank >= 0, view.role == NodeRole::kTrainer);
        EXPECT_FALSE(view.primary_host.empty());
      }
    }
  }
}

}  // namespace
}  // namespace muster::discovery
