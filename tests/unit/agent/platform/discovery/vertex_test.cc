// CLUSTER_SPEC: every sample of the family "vertex" is read as tests/fixtures/expected.tsv says, and then the
// details that the table does not hold.
#include "agent/platform/discovery/vertex.h"

#include <map>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/discover.h"
#include "agent/platform/discovery/document.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

Reading Read(const std::string& spec, bool all_pools = false) {
  return ReadVertex({{"CLUSTER_SPEC", spec}}, {.all_pools = all_pools});
}

ClusterView ReadOk(const std::string& spec, bool all_pools = false) {
  const Reading reading = Read(spec, all_pools);
  EXPECT_TRUE(reading.ok()) << reading.status();
  if (!reading.ok() || !reading->has_value()) return {};
  return **reading;
}

std::string ErrorOf(const std::string& spec) {
  const Reading reading = Read(spec);
  if (reading.ok()) return "no error";
  EXPECT_EQ(reading.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(reading.status().message().data(), reading.status().message().size());
}

// A spec of 1 + `workers` replicas as the replica of `type` and `index` gets it.
std::string SpecOf(int workers, const std::string& type, int index) {
  std::string list;
  for (int i = 0; i < workers; ++i) absl::StrAppend(&list, i == 0 ? "" : ",", "\"w", i, ":2222\"");
  return absl::StrCat(R"({"cluster":{"workerpool0":["p:2222"],"workerpool1":[)", list, R"(]},"task":{"type":")",
                      type, R"(","index":)", index, "}}");
}

// ---- Driven from expected.tsv ----

class VertexFixture : public ::testing::TestWithParam<Fixture> {};

// Required text of the error, by file; the table's row describes it.
const std::map<std::string, std::string>& ErrorFragments() {
  static const std::map<std::string, std::string> fragments = {
      {"cluster_spec_legacy_worker_pools_array.json", "cluster.worker_pools is"},
      {"cluster_spec_foreign_tony.json", "cluster is missing"},
      {"cluster_spec_foreign_kfp_stub.json", "cluster is missing"},
      {"broken_cluster_spec_not_json.json", "not JSON at byte 0"},
      {"broken_cluster_spec_seed_comments.json", "# comments"},
      {"broken_cluster_spec_truncated.json", "ends too early"},
      {"broken_cluster_spec_two_values.json", "not JSON at byte 221"},
      {"broken_cluster_spec_trailing_comma.json", "not JSON at byte 37"},
      {"broken_cluster_spec_double_encoded.json", "quoted twice"},
      {"broken_cluster_spec_shell_quoted.json", "the quotes are part of the value"},
      {"broken_cluster_spec_top_array.json", "expected a JSON object"},
      {"broken_cluster_spec_top_null.json", "CLUSTER_SPEC is null: expected a JSON object"},
      {"broken_cluster_spec_bad_utf8.json", R"(near \xff)"},
      {"broken_cluster_spec_no_cluster.json", "cluster is missing"},
      {"broken_cluster_spec_cluster_array.json", "cluster is [\"a:2222\"]: expected an object"},
      {"broken_cluster_spec_no_task.json", "task is missing"},
      {"broken_cluster_spec_no_type.json", "task.type is missing"},
      {"broken_cluster_spec_no_index.json", "task.index is missing"},
      {"broken_cluster_spec_primary_pool_empty.json", "cluster.workerpool0 is a list of 0 replicas"},
      {"broken_cluster_spec_two_primaries.json", "cluster.workerpool0 is a list of 2 replicas"},
      {"broken_cluster_spec_index_out_of_range_verbatim.json",
       "task.index is 3: expected a whole number from 0 to 2"},
      {"broken_cluster_spec_index_negative.json", "task.index is -1: expected a whole number from 0 to 1"},
      {"broken_cluster_spec_index_1e0.json", "task.index is 1.0: expected a whole number"},
      {"broken_cluster_spec_index_huge.json", "task.index is 1.8446744073709552e+19: expected 0"},
      {"broken_cluster_spec_index_word.json", "task.index is \"one\": expected a whole number"},
      {"broken_cluster_spec_primary_index_1.json", "task.index is 1: expected 0, as workerpool0 has one"},
      {"broken_cluster_spec_type_absent_pool.json",
       "task.type is workerpool1: expected the name of this replica's pool, one of those in cluster: workerpool0"},
      {"broken_cluster_spec_type_case.json", "task.type is WorkerPool1: expected the name"},
      {"broken_cluster_spec_pool_string.json", "cluster.workerpool1 is b:2222: expected a list"},
      {"broken_cluster_spec_pool_null.json", "cluster.workerpool1 is null: expected a list"},
      {"broken_cluster_spec_replica_empty.json", "cluster.workerpool1[0] is empty: expected host:port"},
      {"broken_cluster_spec_primary_no_host.json",
       "cluster.workerpool0[0] is :2222: expected host:port with a host"},
      {"broken_cluster_spec_port_zero.json",
       "cluster.workerpool0[0] is a:0: expected host:port with a port from 1"},
      {"broken_cluster_spec_port_range.json", "cluster.workerpool0[0] is a:70000: expected host:port with a port"},
      {"broken_cluster_spec_ipv6_bare.json",
       "cluster.workerpool0[0] is fd00::1:2222: expected an IPv6 address in"},
      {"broken_cluster_spec_scheme.json", "cluster.workerpool0[0] is grpc://a:2222: expected host:port without"},
      {"broken_cluster_spec_newline_in_host.json", R"(cluster.workerpool0[0] is a\nMASTER_PORT=1:2222: expected)"},
      {"broken_cluster_spec_nul_in_host.json", R"(cluster.workerpool0[0] is a\x00b:2222: expected a host name)"},
      {"broken_cluster_spec_host_too_long.json", "...: expected a host of at most 253 characters"},
      {"broken_cluster_spec_duplicate_replica.json",
       "cluster.workerpool1[1] is b:2222: expected an address of its own"},
      {"broken_cluster_spec_deep.json", "nested more than 32 deep"},
      {"vertex_and_slurm.env",
       "vertex (CLUSTER_SPEC) says rank 1 of 2, slurm (SLURM_STEP_NODELIST) says rank 2 of 4"},
  };
  return fragments;
}

void ExpectError(const Fixture& fixture, const absl::StatusOr<ClusterView>& view) {
  ASSERT_FALSE(view.ok()) << "read as rank " << view->node_rank << " of " << view->nnodes;
  EXPECT_EQ(view.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(view.status().message().data(), view.status().message().size());
  ExpectOneLine(message);
  const auto fragment = ErrorFragments().find(fixture.file);
  ASSERT_NE(fragment, ErrorFragments().end()) << "this row needs an entry in ErrorFragments(): " << message;
  EXPECT_THAT(message, HasSubstr(fragment->second));
}

void ExpectAux(const Fixture& fixture, const ClusterView& view) {
  EXPECT_EQ(view.role, NodeRole::kAux);
  EXPECT_EQ(view.node_rank, -1);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(fixture.reading, match, std::regex("training nodes = (\\d+)")));
  EXPECT_EQ(view.nnodes, std::stoi(match[1]));
}

void ExpectPlace(const Fixture& fixture, const ClusterView& view) {
  EXPECT_EQ(view.role, NodeRole::kTrainer);
  const std::optional<Fixture::Place> stated = fixture.StatedPlace();
  ASSERT_TRUE(stated.has_value()) << "expected.tsv states no place: " << fixture.reading;
  EXPECT_EQ(view.node_rank, stated->rank);
  EXPECT_EQ(view.nnodes, stated->count);
  EXPECT_THAT(view.nodes, SizeIs(stated->count));
  EXPECT_EQ(view.source, "vertex");
}

TEST_P(VertexFixture, IsReadAsTheTableSays) {
  const Fixture& fixture = GetParam();
  const absl::StatusOr<ClusterView> view = DiscoverWith(EnvironmentOf(fixture.file));
  if (fixture.outcome == "error") return ExpectError(fixture, view);
  ASSERT_TRUE(view.ok()) << view.status();
  if (fixture.outcome == "unset") {
    EXPECT_EQ(view->source, "single");
  } else if (fixture.outcome == "aux") {
    ExpectAux(fixture, *view);
  } else if (fixture.outcome == "warn") {
    ExpectPlace(fixture, *view);
    EXPECT_FALSE(view->warnings.empty());
  } else {
    ASSERT_TRUE(fixture.outcome == "ok" || fixture.outcome == "limit") << fixture.outcome;
    ExpectPlace(fixture, *view);
  }
  for (const std::string& warning : view->warnings) ExpectOneLine(warning);
}

INSTANTIATE_TEST_SUITE_P(All, VertexFixture, ::testing::ValuesIn(FixturesOf("vertex")), [](const auto& info) {
  return std::regex_replace(info.param.file, std::regex("[^A-Za-z0-9]"), "_");
});

TEST(VertexFixtures, AreAllThere) {
  std::map<std::string, int> rows;
  for (const Fixture& fixture : FixturesOf("vertex")) ++rows[fixture.outcome];
  EXPECT_EQ(rows, (std::map<std::string, int>{
                      {"ok", 18}, {"aux", 2}, {"warn", 2}, {"error", 42}, {"limit", 1}, {"unset", 2}}));
}

// ---- Ranks and pools ----

TEST(Vertex, AllPoolsCountsEveryReplicaInTheOrderOfThePools) {
  const ClusterView primary = ReadOk(ReadFixture("cluster_spec_4pools_primary.json"), /*all_pools=*/true);
  EXPECT_EQ(primary.node_rank, 0);
  EXPECT_EQ(primary.nnodes, 8);
  const ClusterView evaluator = ReadOk(ReadFixture("cluster_spec_evaluator_self.json"), /*all_pools=*/true);
  EXPECT_EQ(evaluator.role, NodeRole::kTrainer);
  EXPECT_EQ(evaluator.node_rank, 7);
  EXPECT_EQ(evaluator.nnodes, 8);
}

TEST(Vertex, AuxReplicaStillKnowsPrimaryAndItsOwnName) {
  const ClusterView view = ReadOk(ReadFixture("cluster_spec_evaluator_self.json"));
  EXPECT_EQ(view.primary_host, "cmle-training-workerpool0-id-0");
  EXPECT_EQ(view.primary_port, 2222);
  EXPECT_EQ(view.self, "workerpool3-0");
}

TEST(Vertex, NodesAreNamedByPlaceInTheOrderOfTheLists) {
  const ClusterView view = ReadOk(ReadFixture("cluster_spec_12_workers.json"));
  ASSERT_THAT(view.nodes, SizeIs(13));
  EXPECT_EQ(view.nodes[0], "cmle-training-workerpool0-0f-0:2222");
  EXPECT_EQ(view.nodes[3], "cmle-training-workerpool1-0f-2:2222");
  EXPECT_EQ(view.nodes[11], "cmle-training-workerpool1-0f-10:2222");
  EXPECT_EQ(view.self, "workerpool1-10");
}

TEST(Vertex, OnlyChiefIsPoolZeroOfASingleReplicaJob) {
  const ClusterView view = ReadOk(ReadFixture("cluster_spec_1pool_chief_localhost.json"));
  EXPECT_EQ(view.self, "chief-0");
  EXPECT_EQ(view.primary_host, "localhost");
  EXPECT_EQ(view.primary_port, 1234);
}

TEST(Vertex, ChiefAndWorkerpool0TogetherAreRefused) {
  EXPECT_THAT(ErrorOf(R"({"cluster":{"chief":["a:1"],"workerpool0":["b:1"]},"task":{"type":"chief","index":0}})"),
              HasSubstr("both chief and workerpool0"));
}

TEST(Vertex, SkippedAndEmptyPoolsHoldNoPlace) {
  const ClusterView view = ReadOk(
      R"({"cluster":{"workerpool0":["a:1"],"workerpool1":[],"workerpool3":["e:1"]},"task":{"type":"workerpool3","index":0}})",
      /*all_pools=*/true);
  EXPECT_EQ(view.node_rank, 1);
  EXPECT_EQ(view.nnodes, 2);
}

TEST(Vertex, PoolsAreOrderedByNumberAndNotByName) {
  const ClusterView view = ReadOk(
      R"({"cluster":{"workerpool10":["z:1"],"workerpool2":["c:1"],"workerpool0":["a:1"]},"task":{"type":"workerpool10","index":0}})",
      /*all_pools=*/true);
  EXPECT_THAT(view.nodes, ElementsAre("a:1", "c:1", "z:1"));
  EXPECT_EQ(view.node_rank, 2);
}

TEST(Vertex, OwnPoolMustNotBeEmpty) {
  EXPECT_THAT(ErrorOf(SpecOf(0, "workerpool1", 0)), HasSubstr("task.type is workerpool1"));
}

TEST(Vertex, AbsentPrimaryPoolIsRefused) {
  EXPECT_THAT(ErrorOf(R"({"cluster":{"workerpool1":["a:1"]},"task":{"type":"workerpool1","index":0}})"),
              HasSubstr("cluster.workerpool0 is missing"));
}

TEST(Vertex, UnknownPoolsAreRefused) {
  for (const std::string pool : {"worker", "ps", "workerpool", "workerpool01", "workerpool-1", "workerpool100"}) {
    const std::string spec =
        absl::StrCat(R"({"cluster":{"chief":["a:1"],")", pool, R"(":["b:1"]},"task":{"type":"chief","index":0}})");
    EXPECT_THAT(ErrorOf(spec), HasSubstr(absl::StrCat("cluster.", pool, " is"))) << pool;
  }
}

TEST(Vertex, ReplicasAgreeOnPlacesAndReadTheirOwnRank) {
  constexpr int kWorkers = 5;
  const ClusterView primary = ReadOk(SpecOf(kWorkers, "workerpool0", 0));
  EXPECT_EQ(primary.node_rank, 0);
  for (int i = 0; i < kWorkers; ++i) {
    const ClusterView worker = ReadOk(SpecOf(kWorkers, "workerpool1", i));
    EXPECT_EQ(worker.node_rank, i + 1);
    EXPECT_EQ(worker.nodes, primary.nodes);
    EXPECT_EQ(worker.run_id, primary.run_id);
    EXPECT_EQ(worker.primary_host, primary.primary_host);
  }
}

// ---- Addresses and ports ----

TEST(Vertex, PortOfTheAddressWinsOverOpenPorts) {
  const ClusterView view = ReadOk(ReadFixture("cluster_spec_unknown_keys.json"));
  EXPECT_EQ(view.primary_port, 2222);
  EXPECT_THAT(view.warnings, IsEmpty());
}

TEST(Vertex, WithoutAPortTheFirstOpenPortIsUsed) {
  const ClusterView view =
      ReadOk(R"({"cluster":{"chief":["a"]},"task":{"type":"chief","index":0},"open_ports":[3333,3334]})");
  EXPECT_EQ(view.primary_port, 3333);
  EXPECT_THAT(view.nodes, ElementsAre("a:3333"));
  EXPECT_THAT(view.warnings, ElementsAre(HasSubstr("3333 is used (open_ports[0])")));
}

TEST(Vertex, WithoutAnyPortTheDefaultIsOneWarning) {
  const ClusterView view = ReadOk(ReadFixture("cluster_spec_no_ports.json"));
  EXPECT_EQ(view.primary_port, 29400);
  EXPECT_THAT(view.nodes, ElementsAre("replica0-0:29400", "replica1-0:29400"));
  EXPECT_THAT(view.warnings, ElementsAre(HasSubstr("29400 is used (muster's default)")));
}

TEST(Vertex, WrongOpenPortsAreSkippedWithOneWarning) {
  const ClusterView view = ReadOk(
      R"({"cluster":{"chief":["a"]},"task":{"type":"chief","index":0},"open_ports":[0,-1,99999,"x",1.5,4444]})");
  EXPECT_EQ(view.primary_port, 4444);
  EXPECT_THAT(view.warnings, ElementsAre(AllOf(HasSubstr("open_ports[0] is 0: expected a port"),
                                               HasSubstr("as are 4 more like it")),
                                         HasSubstr("4444 is used (open_ports[5])")));
}

TEST(Vertex, AnIndexInQuotesIsReadWithAWarning) {
  const ClusterView view = ReadOk(
      R"({"cluster":{"workerpool0":["a:1"],"workerpool1":["b:1","c:1"]},"task":{"type":"workerpool1","index":"1"}})");
  EXPECT_EQ(view.node_rank, 2);
  EXPECT_THAT(view.warnings, ElementsAre("CLUSTER_SPEC: task.index is the text \"1\", and is read as the number"));
}

TEST(Vertex, AValueOfTheWrongKindIsShownVerbatim) {
  const auto with = [](const char* index) {
    return absl::StrCat(R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":)", index, "}}");
  };
  EXPECT_THAT(ErrorOf(with(R"("00")")), HasSubstr("task.index is \"00\": expected 0"));
  EXPECT_THAT(ErrorOf(with(R"("1")")), HasSubstr("task.index is \"1\": expected 0"));
  EXPECT_THAT(ErrorOf(with("-0")), HasSubstr("task.index is -0: expected 0"));
  EXPECT_THAT(ErrorOf(with("1e999")), HasSubstr("a number that is too large, 1e999"));
}

TEST(Vertex, WildcardsAndOptionsAreNoAddresses) {
  for (const char* host : {"0.0.0.0", "[::]", "[0:0::0]", "-oX"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat(R"({"cluster":{"workerpool0":["a:1"],"workerpool1":[")", host,
                                     R"(:1"]},"task":{"type":"workerpool0","index":0}})")),
                HasSubstr(absl::StrCat("cluster.workerpool1[0] is ", host)));
  }
}

TEST(Vertex, OneReplicaInTwoSpellingsIsRefused) {
  for (const auto& [one, other] : {std::pair("b:1", "B.:1"), std::pair("[::1]:1", "[0:0::1]:1")}) {
    EXPECT_THAT(ErrorOf(absl::StrCat(R"({"cluster":{"workerpool0":[")", one, R"("],"workerpool1":[")", other,
                                     R"("]},"task":{"type":"workerpool0","index":0}})")),
                HasSubstr("expected an address of its own"));
  }
}

TEST(Vertex, AJobIdOfTheWrongKindIsNamed) {
  const Environment environment = {
      {"CLUSTER_SPEC", R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":0}})"},
      {"CLOUD_ML_JOB_ID", "a\xff"}};
  EXPECT_THAT(std::string(ReadVertex(environment, {}).status().message()),
              HasSubstr("CLOUD_ML_JOB_ID is a\\xff: expected at most 256 bytes of UTF-8"));
}

TEST(Vertex, Ipv6BracketsAreKeptInTheListOnly) {
  const ClusterView view = ReadOk(
      R"({"cluster":{"workerpool0":["[::1]:2222"],"workerpool1":["[fd00::2]:2222"]},"task":{"type":"workerpool0","index":0}})");
  EXPECT_EQ(view.primary_host, "::1");
  EXPECT_THAT(view.nodes, ElementsAre("[::1]:2222", "[fd00::2]:2222"));
  EXPECT_FALSE(view.loopback_only);
}

TEST(Vertex, LoopbackOnlyMeansEveryTrainer) {
  EXPECT_TRUE(ReadOk(ReadFixture("cluster_spec_ip_addresses.json")).loopback_only);
  EXPECT_TRUE(ReadOk(ReadFixture("cluster_spec_1pool_chief_localhost.json")).loopback_only);
  EXPECT_FALSE(ReadOk(ReadFixture("cluster_spec_2pools_sdk_chief.json")).loopback_only);
  const std::string mixed =
      R"({"cluster":{"workerpool0":["127.0.0.1:1"],"workerpool2":["far:1"]},"task":{"type":"workerpool0","index":0}})";
  EXPECT_TRUE(ReadOk(mixed).loopback_only);
  EXPECT_FALSE(ReadOk(mixed, /*all_pools=*/true).loopback_only);
}

TEST(Vertex, DuplicatesAreFoundInAnySpelling) {
  for (const std::string second : {"A:1", "a:1"}) {
    const std::string spec = absl::StrCat(R"({"cluster":{"workerpool0":["a:1"],"workerpool2":[")", second,
                                          R"("]},"task":{"type":"workerpool0","index":0}})");
    EXPECT_THAT(ErrorOf(spec), HasSubstr("cluster.workerpool2[0]"));
  }
  EXPECT_THAT(
      ErrorOf(
          R"({"cluster":{"workerpool0":["a"],"workerpool1":["a:29400"]},"task":{"type":"workerpool0","index":0}})"),
      HasSubstr("an address of its own"));
  ReadOk(R"({"cluster":{"workerpool0":["a:1"],"workerpool1":["a:2"]},"task":{"type":"workerpool0","index":0}})");
}

// ---- Run id ----

TEST(Vertex, RunIdIsTheJobIdAndTheTrial) {
  Environment environment = EnvironmentOf("vertex_2nodes_worker.env");
  EXPECT_EQ(ReadVertex(environment, {}).value()->run_id, "5942175266485829632");
  environment["CLUSTER_SPEC"] = ReadFixture("cluster_spec_hp_trial_worker.json");
  EXPECT_EQ(ReadVertex(environment, {}).value()->run_id, "5942175266485829632-trial-3");
}

TEST(Vertex, WithoutAJobIdThePrimaryGivesTheRunId) {
  EXPECT_EQ(ReadOk(SpecOf(2, "workerpool1", 1)).run_id, "vertex-p-2222");
  EXPECT_EQ(ReadOk(ReadFixture("cluster_spec_hp_trial_placeholder.json")).run_id,
            "vertex-cmle-training-workerpool0-ab-0-2222-trial-TRIAL_ID");
  EXPECT_EQ(ReadOk(R"({"cluster":{"chief":["[::1]:5"]},"task":{"type":"chief","index":0}})").run_id,
            "vertex----1--5");
}

TEST(Vertex, TheTrialIsOpaque) {
  const auto with_trial = [](const std::string& trial) {
    return absl::StrCat(R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":0,"trial":)", trial, "}}");
  };
  EXPECT_EQ(ReadOk(with_trial(R"("")")).run_id, "vertex-a-1");
  EXPECT_EQ(ReadOk(with_trial("null")).run_id, "vertex-a-1");
  EXPECT_EQ(ReadOk(with_trial(R"("007")")).run_id, "vertex-a-1-trial-007");
  EXPECT_EQ(ReadOk(with_trial("7")).run_id, "vertex-a-1-trial-7");
  EXPECT_THAT(ErrorOf(with_trial("{}")), HasSubstr("task.trial is {}"));
  EXPECT_THAT(ErrorOf(with_trial(R"("a\nb")")), HasSubstr(R"(task.trial is a\nb)"));
  EXPECT_THAT(ErrorOf(with_trial("\"" + std::string(kMaxIdChars + 1, 'x') + "\"")), HasSubstr("task.trial"));
}

TEST(Vertex, JobIdWithAControlCharacterIsRefused) {
  const Reading reading =
      ReadVertex({{"CLUSTER_SPEC", SpecOf(1, "workerpool0", 0)}, {"CLOUD_ML_JOB_ID", "1\n2"}}, {});
  EXPECT_THAT(std::string(reading.status().message()), StartsWith(R"(CLOUD_ML_JOB_ID is 1\n2: expected)"));
}

// ---- The text ----

TEST(Vertex, BlanksAndLineEndsAroundTheValueAreTolerated) {
  EXPECT_EQ(ReadOk("\n\t " + SpecOf(1, "workerpool1", 0) + " \r\n").node_rank, 1);
}

TEST(Vertex, JobMayBeAStringAnObjectNullOrAnythingElse) {
  for (const std::string job : {R"("{}")", "{}", "null", "[1]", "5"}) {
    EXPECT_EQ(
        ReadOk(absl::StrCat(R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":0},"job":)", job, "}"))
            .nnodes,
        1);
  }
}

TEST(Vertex, EveryQuotingErrorHasAHint) {
  EXPECT_THAT(ErrorOf(R"({\"cluster\":{}})"), HasSubstr("escaped twice"));
  EXPECT_THAT(ErrorOf("{'cluster': {}}"), HasSubstr("json.dumps()"));
  EXPECT_THAT(ErrorOf("\"" + SpecOf(1, "workerpool0", 0) + "\""), HasSubstr("quoted twice"));
}

TEST(Vertex, ADuplicateKeyIsRefused) {
  EXPECT_THAT(
      ErrorOf(
          R"({"cluster":{"workerpool0":["a:1"],"workerpool0":["b:1"]},"task":{"type":"workerpool0","index":0}})"),
      HasSubstr("the member workerpool0 twice"));
}

TEST(Vertex, AValueOverTheSizeLimitIsRefusedUnread) {
  EXPECT_THAT(ErrorOf(std::string(kMaxClusterSpecBytes + 1, '{')), HasSubstr("over the limit of 1048576"));
}

TEST(Vertex, WithoutTheVariableItDoesNotApply) {
  const Reading reading = ReadVertex({{"PATH", "/bin"}}, {});
  ASSERT_TRUE(reading.ok());
  EXPECT_FALSE(reading->has_value());
}

// ---- Any input gives an error of one line or a sound view ----

void ExpectSound(const std::string& spec) {
  for (const bool all_pools : {false, true}) {
    const Reading reading = Read(spec, all_pools);
    if (!reading.ok()) {
      ExpectOneLine(std::string(reading.status().message().data(), reading.status().message().size()));
      continue;
    }
    if (!reading->has_value()) continue;
    const ClusterView& view = **reading;
    EXPECT_EQ(view.nnodes, static_cast<int>(view.nodes.size()));
    EXPECT_GE(view.nnodes, 1);
    EXPECT_LT(view.node_rank, view.nnodes);
    EXPECT_EQ(view.node_rank >= 0, view.role == NodeRole::kTrainer);
    EXPECT_FALSE(view.primary_host.empty());
    EXPECT_NE(view.primary_port, 0);
  }
}

std::vector<std::string> SmallSpecs() {
  constexpr size_t kMaxBytes = 1200;
  std::vector<std::string> specs;
  for (const Fixture& fixture : FixturesOf("vertex")) {
    if (!fixture.file.ends_with(".json")) continue;
    std::string spec = ReadFixture(fixture.file);
    if (spec.size() <= kMaxBytes) specs.push_back(std::move(spec));
  }
  return specs;
}

TEST(VertexRobustness, DamagedSamplesAreErrorsOrSound) {
  for (const std::string& sample : SmallSpecs()) {
    for (const std::string& mutant : MutantsOf(sample)) ExpectSound(mutant);
  }
}

TEST(VertexRobustness, DeepAndLongNonsenseOfEachKindIsRefused) {
  constexpr size_t kBytes = 500000;
  for (const std::string unit : {"[", "{\"a\":", "{\"a\":[", "\"", "9", "-", "\\", "[[],", "[{},"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    const std::string error = ErrorOf(text);
    EXPECT_THAT(error, StartsWith("CLUSTER_SPEC is")) << unit;
    ExpectOneLine(error);
  }
}

TEST(Vertex, JobFoldersReachWorkersAsLocalPaths) {
  const ClusterView view = **ReadVertex(EnvironmentOf("vertex_2nodes_worker.env"), {});
  EXPECT_EQ(view.for_workers,
            (Environment{{"OUTPUT_FOLDER", "/gcs/b/aiplatform-custom-job-2026-01-01-00:00:00.000/model/"},
                         {"CHKPTS_FOLDER", "/gcs/b/aiplatform-custom-job-2026-01-01-00:00:00.000/checkpoints/"},
                         {"JOBLOGS_FOLDER", "/gcs/b/aiplatform-custom-job-2026-01-01-00:00:00.000/logs/"}}));
  Environment local = EnvironmentOf("vertex_2nodes_worker.env");
  local["AIP_MODEL_DIR"] = "/tmp/model";
  EXPECT_EQ((*ReadVertex(local, {}))->for_workers.count("OUTPUT_FOLDER"), 0u) << "no bucket: not ours to guess";
}

TEST(Vertex, ThePrimarysServiceAddressIsReadToo) {
  Environment environment = EnvironmentOf("vertex_2nodes_worker.env");
  EXPECT_EQ((*ReadVertex(environment, {}))->primary_address, "10.12.0.81");
  environment["CMLE_TRAINING_WORKERPOOL0_6D3F00AA11_0_SERVICE_HOST"] = "not.an.address";
  EXPECT_EQ((*ReadVertex(environment, {}))->primary_address, "");
  environment.erase("CMLE_TRAINING_WORKERPOOL0_6D3F00AA11_0_SERVICE_HOST");
  EXPECT_EQ((*ReadVertex(environment, {}))->primary_address, "");
}

}  // namespace
}  // namespace muster::discovery
