// Kubernetes, Kubeflow, Volcano, AWS Batch, Azure ML and variables set by hand: every sample of the families "k8s"
// and "other" is read as tests/fixtures/expected.tsv says, and then the details that the table does not hold.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/discover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Files = std::map<std::string, std::string>;

absl::StatusOr<ClusterView> Read(const Environment& environment, const Files& files, std::optional<int> nnodes) {
  DiscoverOptions options;
  options.nnodes = nnodes;
  return DiscoverWith(environment, options, files);
}

ClusterView ReadOk(const Environment& environment, const Files& files = {}, std::optional<int> nnodes = {}) {
  const absl::StatusOr<ClusterView> view = Read(environment, files, nnodes);
  EXPECT_TRUE(view.ok()) << view.status();
  return view.value_or(ClusterView());
}

bool Fits(const Environment& environment, const Files& files = {}, std::optional<int> nnodes = {}) {
  const absl::StatusOr<ClusterView> view = Read(environment, files, nnodes);
  return !view.ok() || view->source != "single";
}

std::string ErrorOf(const Environment& environment, const Files& files = {}) {
  const absl::StatusOr<ClusterView> view = Read(environment, files, {});
  if (view.ok()) return "no error";
  EXPECT_EQ(view.status().code(), absl::StatusCode::kInvalidArgument);
  std::string message(view.status().message().data(), view.status().message().size());
  ExpectOneLine(message);
  return message;
}

std::string Place(const ClusterView& view) {
  return absl::StrCat(view.source, " ", view.node_rank, "/", view.nnodes, " ", view.primary_host, ":",
                      view.primary_port);
}

Environment With(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

Environment Without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

// ---- Driven from expected.tsv ----

// Expectation for each file: this node's place and the primary, or required text of the error.
const std::map<std::string, std::string>& Expected() {
  static const std::map<std::string, std::string> expected = {
      {"k8s_indexed_job_2of3.env", "indexed-job 2/3 example-job-0.headless-svc:29400"},
      {"k8s_statefulset_ordinal.env", "statefulset 3/4 trainer-0.trainer-svc:29400"},
      {"k8s_pytorchjob_master.env", "pytorchjob 0/3 pytorch-simple-master-0:23456"},
      {"k8s_pytorchjob_worker_nproc8.env", "pytorchjob 1/2 j-master-0:23456"},
      {"k8s_trainer_v2.env", "trainer 3/4 tj-node-0-0.tj:29500"},
      {"k8s_volcano_pytorch.env", "volcano 1/3 job-master-0.job:23456"},
      {"broken_k8s_index_empty.env", "JOB_COMPLETION_INDEX is empty: expected the pod's completion index"},
      {"broken_k8s_index_range.env", "JOB_COMPLETION_INDEX is 3: expected a whole number from 0 to 2"},
      {"broken_k8s_no_nnodes.env", "add {name: MUSTER_NNODES, value: \"N\"}"},
      {"broken_k8s_pet_nnodes_swapped.env", "PET_NNODES is 4:2: expected N or MIN:MAX"},
      {"broken_k8s_rank_without_addr.env", "MASTER_ADDR is missing: expected the address of node 0"},
      {"azureml_mpi_multi.env", "azureml 1/2 10.0.0.4:29400"},
      {"aws_batch_main.env", "batch 0/2 localhost:29400"},
      {"aws_batch_child.env", "batch 1/2 10.0.3.17:29400"},
      {"torchrun_style_static.env", "static 1/2 10.0.0.1:29500"},
      {"torchrun_nested.env", "as a worker of another launcher"},
  };
  return expected;
}

std::vector<Fixture> OurFixtures() {
  std::vector<Fixture> fixtures = FixturesOf("k8s");
  for (const Fixture& fixture : FixturesOf("other")) {
    if (!absl::StartsWith(fixture.file, "mpi_openmpi_")) fixtures.push_back(fixture);
  }
  return fixtures;
}

class PlatformFixture : public ::testing::TestWithParam<Fixture> {};

TEST_P(PlatformFixture, IsReadAsTheTableSays) {
  const Fixture& fixture = GetParam();
  const std::string& expected = Expected().at(fixture.file);
  if (fixture.outcome == "error") {
    EXPECT_THAT(ErrorOf(EnvironmentOf(fixture.file)), HasSubstr(expected));
    return;
  }
  ASSERT_EQ(fixture.outcome, "ok");
  const ClusterView view = ReadOk(EnvironmentOf(fixture.file));
  EXPECT_EQ(Place(view), expected);
  EXPECT_THAT(view.warnings, IsEmpty());
  EXPECT_EQ(view.role, NodeRole::kTrainer);
  EXPECT_FALSE(view.loopback_only);
  if (const auto place = fixture.StatedPlace()) {
    EXPECT_EQ(view.node_rank, place->rank);
    EXPECT_EQ(view.nnodes, place->count);
  }
}

INSTANTIATE_TEST_SUITE_P(ExpectedTsv, PlatformFixture, ::testing::ValuesIn(OurFixtures()));

// ---- Kubernetes ----

const Environment& IndexedJob() {
  static const Environment environment = EnvironmentOf("k8s_indexed_job_2of3.env");
  return environment;
}

TEST(IndexedJob, AnIndexOfManyLinesIsShownOnOne) {
  const std::string error = ErrorOf(With(IndexedJob(), "JOB_COMPLETION_INDEX", "2\nmuster: all is well"));
  ExpectOneLine(error);
}

TEST(IndexedJob, NamesEveryPodByTheHeadlessService) {
  const ClusterView view = ReadOk(IndexedJob());
  EXPECT_THAT(view.nodes, ElementsAre("example-job-0.headless-svc:29400", "example-job-1.headless-svc:29400",
                                      "example-job-2.headless-svc:29400"));
  EXPECT_EQ(view.run_id, "k8s-example-job-0.headless-svc");
  EXPECT_EQ(view.self, "example-job-2");
}

TEST(IndexedJob, TheOptionForNodesBeatsTheVariable) {
  EXPECT_EQ(ReadOk(IndexedJob(), {}, 7).nnodes, 7);
  EXPECT_EQ(ReadOk(Without(IndexedJob(), "MUSTER_NNODES"), {}, 4).nnodes, 4);
  EXPECT_EQ(ReadOk(With(IndexedJob(), "MUSTER_NNODES", "2:5")).nnodes, 5);
}

TEST(IndexedJob, FindsTheServiceInTheKubeletsFile) {
  const Files files = {{"/etc/hosts",
                        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
                        "10.1.2.3\texample-job-2.svc.ns.svc.cluster.local\texample-job-2\n"}};
  EXPECT_EQ(ReadOk(Without(IndexedJob(), "MUSTER_SUBDOMAIN"), files).primary_host,
            "example-job-0.svc.ns.svc.cluster.local");
  EXPECT_THAT(ErrorOf(Without(IndexedJob(), "MUSTER_SUBDOMAIN"), {{"/etc/hosts", "10.1.2.3\texample-job-2\n"}}),
              HasSubstr("add {name: MUSTER_SUBDOMAIN"));
  EXPECT_THAT(ErrorOf(Without(IndexedJob(), "MUSTER_SUBDOMAIN"), {{"/etc/hosts", std::string(2 << 20, 'x')}}),
              HasSubstr("MUSTER_SUBDOMAIN is missing"));
}

TEST(IndexedJob, ReadsHostAndPodNamesFromFiles) {
  EXPECT_EQ(ReadOk(Without(IndexedJob(), "HOSTNAME"), {{"/etc/hostname", "example-job-2\n"}}).self,
            "example-job-2");
  EXPECT_EQ(ReadOk(With(IndexedJob(), "HOSTNAME", "gke-node-7")).primary_host, "example-job-0.headless-svc");
  EXPECT_THAT(ErrorOf(Without(With(IndexedJob(), "HOSTNAME", "gke-node-7"), "POD_NAME")),
              HasSubstr("HOSTNAME is gke-node-7: expected the pod's host name, which ends in -2"));
}

TEST(IndexedJob, TakesAHostNameWithItsDomain) {
  const Environment environment = With(Without(Without(IndexedJob(), "POD_NAME"), "MUSTER_SUBDOMAIN"), "HOSTNAME",
                                       "example-job-2.svc.ns.svc.cluster.local");
  EXPECT_EQ(Place(ReadOk(environment)), "indexed-job 2/3 example-job-0.svc.ns.svc.cluster.local:29400");
  EXPECT_EQ(ReadOk(environment).self, "example-job-2");
  EXPECT_EQ(ReadOk(With(environment, "MUSTER_SUBDOMAIN", "svc")).primary_host, "example-job-0.svc");
  EXPECT_THAT(ErrorOf(With(environment, "HOSTNAME", "ip-10-0-0-2.ec2.internal")),
              HasSubstr("HOSTNAME is ip-10-0-0-2.ec2.internal"))
      << "a machine's name is not the pod's";
}

TEST(IndexedJob, RefusesAnIndexThatIsNoPlainNumber) {
  for (const char* index : {"-1", "+1", "01", "1.0", "0x1", "two", "99999999999", "2 2", "1\n2"}) {
    EXPECT_THAT(ErrorOf(With(IndexedJob(), "JOB_COMPLETION_INDEX", index)), HasSubstr("JOB_COMPLETION_INDEX is"))
        << index;
  }
  for (const char* count : {"0", "-1", "x", "4:2", "0:2", ":", "1:", "1000000"}) {
    EXPECT_THAT(ErrorOf(With(IndexedJob(), "MUSTER_NNODES", count)), HasSubstr("MUSTER_NNODES is")) << count;
  }
}

TEST(IndexedJob, AnIndexTooLargeNamesTheNodeCountsSource) {
  DiscoverOptions options;
  options.nnodes = 2;
  EXPECT_THAT(std::string(DiscoverWith(IndexedJob(), options).status().message()),
              HasSubstr("2 nodes (--nnodes)"));
  options.nnodes_source = "PET_NNODES 2";
  EXPECT_THAT(std::string(DiscoverWith(IndexedJob(), options).status().message()),
              HasSubstr("2 nodes (PET_NNODES 2)"));
  EXPECT_THAT(ErrorOf(With(IndexedJob(), "MUSTER_NNODES", "1")),
              HasSubstr("JOB_COMPLETION_INDEX is 2: expected 0, as there is 1 node (MUSTER_NNODES 1)"));
}

TEST(IndexedJob, OnePodNeedsNoServiceAndNoName) {
  const Environment alone = {{"JOB_COMPLETION_INDEX", "0"}, {"HOSTNAME", "gke-node-7"}, {"MUSTER_NNODES", "1"}};
  EXPECT_EQ(Place(ReadOk(alone)), "indexed-job 0/1 localhost:29400");
  EXPECT_THAT(ErrorOf(With(alone, "MUSTER_NNODES", "2")), HasSubstr("HOSTNAME is gke-node-7"));
}

TEST(IndexedJob, RefusesAnInvalidName) {
  EXPECT_THAT(ErrorOf(With(IndexedJob(), "MUSTER_SUBDOMAIN", "a b")), HasSubstr("MUSTER_SUBDOMAIN is a b"));
  EXPECT_THAT(ErrorOf(With(IndexedJob(), "HOSTNAME", std::string(100, 'x') + "-2")), HasSubstr("expected a host"));
}

TEST(IndexedJob, VeryManyPodsAreNotListed) {
  const ClusterView view = ReadOk(With(IndexedJob(), "MUSTER_NNODES", "100000"));
  EXPECT_EQ(view.nnodes, 100'000);
  EXPECT_THAT(view.nodes, IsEmpty());
}

TEST(JobSet, OneJobIsReadAsAnIndexedJob) {
  const Environment environment = {{"JOB_COMPLETION_INDEX", "1"},
                                   {"HOSTNAME", "js-workers-0-1"},
                                   {"JOBSET_NAME", "js"},
                                   {"MUSTER_NNODES", "2"}};
  EXPECT_EQ(Place(ReadOk(environment)), "jobset 1/2 js-workers-0-0.js:29400");
  EXPECT_THAT(ReadOk(environment).nodes, SizeIs(2));
  const Environment plain = With(Without(environment, "JOBSET_NAME"), "MUSTER_SUBDOMAIN", "js");
  EXPECT_EQ(Place(ReadOk(plain)), "indexed-job 1/2 js-workers-0-0.js:29400");
}

TEST(JobSet, SeveralJobsAreCountedByTheirPods) {
  const Environment environment = {{"JOB_COMPLETION_INDEX", "1"},
                                   {"HOSTNAME", "js-workers-2-1"},
                                   {"JOBSET_NAME", "js"},
                                   {"MUSTER_PODS_PER_JOB", "4"},
                                   {"MUSTER_NNODES", "12"}};
  EXPECT_EQ(Place(ReadOk(environment)), "jobset 9/12 js-workers-0-0.js:29400");
  EXPECT_THAT(ErrorOf(Without(environment, "MUSTER_PODS_PER_JOB")), HasSubstr("MUSTER_PODS_PER_JOB is missing"));
  EXPECT_THAT(ErrorOf(With(environment, "MUSTER_PODS_PER_JOB", "1")), HasSubstr("JOB_COMPLETION_INDEX is 1"));
  EXPECT_THAT(ErrorOf(With(environment, "MUSTER_NNODES", "8")), HasSubstr("is 9: expected a whole number"));
  EXPECT_THAT(ErrorOf(With(environment, "MUSTER_JOB_INDEX", "-1")), HasSubstr("MUSTER_JOB_INDEX is -1"));
  EXPECT_THAT(ErrorOf(With(environment, "MUSTER_JOB_INDEX", "100000")), HasSubstr("expected a whole number"));
}

TEST(JobSet, SeveralGroupsNeedTheFirstPodsAddress) {
  const Environment worker = {{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "js-workers-0-1"},
                              {"JOBSET_NAME", "js"},         {"MUSTER_PODS_PER_JOB", "4"},
                              {"MUSTER_NNODES", "12"},       {"MUSTER_JOB_INDEX", "2"}};
  const ClusterView of_worker = ReadOk(worker);
  EXPECT_EQ(of_worker.node_rank, 9);
  EXPECT_EQ(of_worker.primary_host, "") << "job 2 is workers-0 here, so the first is of another group";
  const ClusterView of_first = ReadOk(With(With(worker, "HOSTNAME", "js-driver-0-1"), "MUSTER_JOB_INDEX", "0"));
  EXPECT_EQ(of_first.primary_host, "js-driver-0-0.js");
  EXPECT_EQ(of_first.run_id, of_worker.run_id) << "all groups are one run";
}

TEST(JobSet, AnUndeclaredJobSetIsAWarning) {
  const Environment environment = {{"JOB_COMPLETION_INDEX", "1"},
                                   {"HOSTNAME", "js-workers-1-1"},
                                   {"MUSTER_SUBDOMAIN", "js"},
                                   {"MUSTER_NNODES", "4"}};
  EXPECT_THAT(ReadOk(environment).warnings, ElementsAre(HasSubstr("job 1 of the JobSet js")));
}

TEST(StatefulSet, NeedsTheServiceOrTheNumberOfNodes) {
  const Files files = {{"/etc/hosts", "10.1.2.3 nb-0.nb.ns.svc.cluster.local nb-0\n"}};
  EXPECT_FALSE(Fits({{"HOSTNAME", "web-7d9f8b6c5-x7k2p"}, {"POD_NAME", "web-7d9f8b6c5-x7k2p"}}));
  EXPECT_FALSE(Fits({{"HOSTNAME", "host-3"}}, {}, 4));
  EXPECT_EQ(Place(ReadOk({{"HOSTNAME", "nb-0"}}, files, 2)), "statefulset 0/2 nb-0.nb.ns.svc.cluster.local:29400");
  EXPECT_EQ(ReadOk({{"HOSTNAME", "nb-0"}}, files, 2).evidence, "/etc/hosts");
}

TEST(StatefulSet, APodOfAServiceIsNotSilentlyAlone) {
  const Environment environment = {{"HOSTNAME", "nb-0"}};
  const Files files = {{"/etc/hosts", "10.1.2.3 nb-0.nb.ns.svc.cluster.local nb-0\n"}};
  EXPECT_THAT(ErrorOf(environment, files),
              AllOf(HasSubstr("MUSTER_NNODES is missing"), HasSubstr("--standalone")));
  EXPECT_FALSE(Fits(environment, files, 1)) << "--nnodes 1";
  DiscoverOptions torchrun;
  torchrun.as_torchrun = true;
  const absl::StatusOr<ClusterView> alone = DiscoverWith(environment, torchrun, files);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->source, "single") << "torchrun's command line, whose default is one node";
  EXPECT_FALSE(Fits({{"HOSTNAME", "node-3"}}, {{"/etc/hosts", "10.1.2.3 node-3.cluster.example.org node-3\n"}}))
      << "a machine with a number in its name";
}

TEST(StatefulSet, RefusesAPodWithoutAnOrdinal) {
  const Environment environment = {{"POD_NAME", "web-x7k2p"}, {"MUSTER_SUBDOMAIN", "s"}, {"MUSTER_NNODES", "2"}};
  EXPECT_THAT(ErrorOf(environment), HasSubstr("POD_NAME is web-x7k2p: expected a StatefulSet's pod name"));
  EXPECT_THAT(ErrorOf({{"MUSTER_SUBDOMAIN", "s"}}), HasSubstr("HOSTNAME is missing"));
  EXPECT_FALSE(Fits(With(environment, "MUSTER_NNODES", "1"))) << "a single pod needs no name";
  EXPECT_THAT(ErrorOf(With(environment, "POD_NAME", "web-2")), HasSubstr("the ordinal of web-2 is 2"));
  EXPECT_THAT(ErrorOf(Without(With(environment, "POD_NAME", "web-1"), "MUSTER_NNODES")),
              HasSubstr("MUSTER_NNODES is missing"));
}

// ---- Kubeflow ----

TEST(PytorchJob, UsesTheNodeRankNotTheProcessRank) {
  const Environment environment = EnvironmentOf("k8s_pytorchjob_worker_nproc8.env");
  EXPECT_EQ(ReadOk(environment).nproc, "8");
  EXPECT_EQ(ReadOk(EnvironmentOf("k8s_pytorchjob_master.env")).nproc, "");
  EXPECT_EQ(ReadOk(With(environment, "RANK", "8")).node_rank, 1) << "PET_NODE_RANK says it";
  EXPECT_THAT(ErrorOf(With(environment, "PET_NODE_RANK", "2")), HasSubstr("PET_NODE_RANK is 2"));
  EXPECT_THAT(ErrorOf(Without(environment, "PET_NODE_RANK")), HasSubstr("PET_NODE_RANK is missing"));
}

TEST(PytorchJob, WithoutPetVariablesIsReadByItsNodes) {
  const Environment old = {
      {"MASTER_ADDR", "j-master-0"}, {"MASTER_PORT", "23456"}, {"WORLD_SIZE", "3"}, {"RANK", "2"}};
  EXPECT_EQ(Place(ReadOk(old)), "static 2/3 j-master-0:23456");
}

TEST(PytorchJob, AnElasticOneMeetsAtItsFirstWorker) {
  const Environment elastic = {{"PET_NNODES", "2:4"},
                               {"PET_RDZV_ENDPOINT", "e-worker-0:23456"},
                               {"PET_RDZV_BACKEND", "c10d"},
                               {"PET_RDZV_ID", "e"}};
  EXPECT_EQ(Place(ReadOk(elastic)), "pytorchjob -1/4 e-worker-0:23456");
  EXPECT_EQ(ReadOk(elastic).run_id, "e");
  EXPECT_FALSE(Fits(With(elastic, "PET_RDZV_ENDPOINT", "localhost:0")));
  EXPECT_THAT(ErrorOf(With(elastic, "PET_RDZV_ENDPOINT", "http://a")), HasSubstr("PET_RDZV_ENDPOINT is http://a"));
}

TEST(Trainer, RefusesAnEmptyRank) {
  for (const char* file : {"k8s_trainer_v2.env", "k8s_pytorchjob_worker_nproc8.env"}) {
    EXPECT_THAT(ErrorOf(With(EnvironmentOf(file), "PET_NODE_RANK", "")), HasSubstr("PET_NODE_RANK is empty"))
        << file;
  }
}

TEST(Trainer, TakesItsPortAndProcesses) {
  const Environment environment = EnvironmentOf("k8s_trainer_v2.env");
  EXPECT_EQ(ReadOk(environment).nproc, "auto");
  EXPECT_EQ(ReadOk(Without(environment, "PET_MASTER_PORT")).primary_port, 29500);
  for (const char* port : {"0", "65536", "x", "-1"}) {
    EXPECT_THAT(ErrorOf(With(environment, "PET_MASTER_PORT", port)), HasSubstr("PET_MASTER_PORT is")) << port;
  }
  EXPECT_THAT(ErrorOf(With(environment, "PET_MASTER_ADDR", "a:1")), HasSubstr("PET_MASTER_ADDR is a:1"));
  EXPECT_EQ(ReadOk(With(environment, "PET_MASTER_ADDR", "fd00::1")).primary_host, "fd00::1");
}

// ---- Volcano ----

TEST(Volcano, WithoutThePluginTheOnlyTasksHostsAreRead) {
  const Environment environment = {{"VC_TASK_INDEX", "1"}, {"VC_WORKER_HOSTS", "j-worker-0.j,j-worker-1.j"}};
  EXPECT_EQ(Place(ReadOk(environment)), "volcano 1/2 j-worker-0.j:29400");
  EXPECT_THAT(ErrorOf(With(environment, "VC_TASK_INDEX", "2")), HasSubstr("VC_TASK_INDEX is 2"));
  EXPECT_THAT(ErrorOf(With(environment, "VC_MASTER_HOSTS", "j-master-0.j")), HasSubstr("add `pytorch: []`"));
  EXPECT_FALSE(Fits({{"VC_TASK_INDEX", "0"}}));
}

TEST(Volcano, ReadsAListOfHostsStrictly) {
  const auto of = [](const std::string& hosts) {
    return Environment{{"VC_TASK_INDEX", "1"}, {"VC_WORKER_HOSTS", hosts}};
  };
  EXPECT_EQ(ReadOk(of("a.j, b.j ,c.j")).nnodes, 3);
  EXPECT_THAT(ErrorOf(of("a.j,b.j,")), HasSubstr("VC_WORKER_HOSTS is a.j,b.j,: expected host names with single"));
  EXPECT_THAT(ErrorOf(of(" ")), HasSubstr("VC_WORKER_HOSTS is  : expected host names"));
  EXPECT_THAT(ErrorOf(of("a.j,A.j.")), HasSubstr("VC_WORKER_HOSTS is A.j.: expected each host once"));
  EXPECT_THAT(ErrorOf(With(of("a.j,b.j"), "VC_TASK_INDEX", "")), HasSubstr("VC_TASK_INDEX is empty"));
  EXPECT_TRUE(Fits(With(of("a.j,b.j"), "VC_WORKER_NUM", "2")));
  EXPECT_THAT(ErrorOf(With(of("a.j,b.j"), "VC_WORKER_NUM", "3")),
              HasSubstr("VC_WORKER_NUM is 3: expected 2, the number of hosts in VC_WORKER_HOSTS"));
}

TEST(Volcano, TheTensorflowPluginIsLeftToTfConfig) {
  const Environment environment = {
      {"VC_TASK_INDEX", "1"},
      {"VC_WORKER_HOSTS", "j-worker-0.j,j-worker-1.j"},
      {"VC_PS_HOSTS", "j-ps-0.j"},
      {"TF_CONFIG",
       R"({"cluster":{"ps":["j-ps-0.j:1"],"worker":["j-worker-0.j:1","j-worker-1.j:1"]},"task":{"type":"worker","index":1}})"}};
  EXPECT_EQ(Place(ReadOk(environment)), "tf_config 1/2 j-worker-0.j:1");
}

TEST(Volcano, NamesVariablesMissingFromThePlugin) {
  const Environment environment = EnvironmentOf("k8s_volcano_pytorch.env");
  EXPECT_THAT(ErrorOf(Without(environment, "MASTER_ADDR")), HasSubstr("MASTER_ADDR is missing"));
  EXPECT_THAT(ErrorOf(With(environment, "RANK", "3")), HasSubstr("WORLD_SIZE 3, which counts pods here"));
}

// ---- AWS Batch ----

TEST(Batch, TheMainNodeHasRankZero) {
  const auto node = [](const std::string& index) {
    return Environment{
        {"AWS_BATCH_JOB_ID", "j#" + index},  {"AWS_BATCH_JOB_ATTEMPT", "2"},
        {"AWS_BATCH_JOB_NUM_NODES", "4"},    {"AWS_BATCH_JOB_MAIN_NODE_INDEX", "2"},
        {"AWS_BATCH_JOB_NODE_INDEX", index}, {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "10.0.3.17"}};
  };
  std::vector<int> ranks;
  for (const char* index : {"0", "1", "2", "3"}) ranks.push_back(ReadOk(node(index)).node_rank);
  EXPECT_THAT(ranks, ElementsAre(1, 2, 0, 3));
  EXPECT_EQ(ReadOk(node("3")).run_id, "batch-j.2");
}

TEST(Batch, RefusesANodeWithoutTheMainNodesAddress) {
  const Environment child = EnvironmentOf("aws_batch_child.env");
  EXPECT_THAT(ErrorOf(Without(child, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")),
              HasSubstr("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is missing"));
  EXPECT_THAT(ErrorOf(With(child, "AWS_BATCH_JOB_NODE_INDEX", "2")), HasSubstr("AWS_BATCH_JOB_NODE_INDEX is 2"));
  EXPECT_THAT(ErrorOf(With(child, "AWS_BATCH_JOB_NUM_NODES", "0")), HasSubstr("AWS_BATCH_JOB_NUM_NODES is 0"));
  EXPECT_FALSE(Fits({{"AWS_BATCH_JOB_ID", "j"}, {"AWS_BATCH_JOB_ATTEMPT", "1"}})) << "a job of one container";
  EXPECT_THAT(ErrorOf(With(child, "AWS_BATCH_JOB_NUM_NODES", "")), HasSubstr("AWS_BATCH_JOB_NUM_NODES is empty"));
  EXPECT_THAT(ErrorOf(Without(child, "AWS_BATCH_JOB_NUM_NODES")), HasSubstr("AWS_BATCH_JOB_NUM_NODES is missing"));
}

TEST(Batch, NamesTheMainNodeByItsHostName) {
  const Environment main = EnvironmentOf("aws_batch_main.env");
  EXPECT_EQ(ReadOk(With(main, "HOSTNAME", "ip-10-0-3-17")).primary_host, "ip-10-0-3-17");
  EXPECT_EQ(ReadOk(With(main, "HOSTNAME", "no name")).primary_host, "localhost");
}

// ---- Azure ML ----

TEST(AzureMl, RefusesMoreThanOneProcessOnANode) {
  const Environment mpi = EnvironmentOf("azureml_mpi_multi.env");
  EXPECT_THAT(ErrorOf(With(mpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "4")), HasSubstr("process_count_per_instance: 1"));
  EXPECT_THAT(ErrorOf(With(Without(mpi, "OMPI_COMM_WORLD_LOCAL_SIZE"), "OMPI_COMM_WORLD_LOCAL_RANK", "1")),
              HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK is 1: expected 0"));
  EXPECT_THAT(ErrorOf(Without(Without(mpi, "AZ_BATCH_MASTER_NODE"), "AZ_BATCHAI_MPI_MASTER_NODE")),
              HasSubstr("AZ_BATCH_MASTER_NODE is missing"));
}

TEST(AzureMl, ReadsAPytorchJobOfOneProcessPerNode) {
  const Environment environment = {{"AZUREML_RUN_ID", "r1"}, {"MASTER_ADDR", "10.0.0.4"}, {"MASTER_PORT", "6105"},
                                   {"WORLD_SIZE", "2"},      {"NODE_RANK", "1"},          {"RANK", "1"},
                                   {"LOCAL_RANK", "0"}};
  EXPECT_EQ(Place(ReadOk(environment)), "azureml 1/2 10.0.0.4:6105");
  EXPECT_EQ(ReadOk(environment).run_id, "azureml-r1");
  EXPECT_THAT(ErrorOf(With(environment, "LOCAL_RANK", "1")), HasSubstr("LOCAL_RANK is 1"));
  EXPECT_THAT(ErrorOf(With(environment, "RANK", "4")), HasSubstr("RANK is 4"));
}

// ---- By hand ----

TEST(Static, UsesRankIfItIsTheNodes) {
  const Environment environment = {
      {"MASTER_ADDR", "a"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"NPROC_PER_NODE", "8"}};
  EXPECT_EQ(Place(ReadOk(environment)), "static 1/2 a:29500");
  EXPECT_EQ(ReadOk(environment).nproc, "8");
  EXPECT_EQ(ReadOk(With(environment, "NNODES", "3")).nnodes, 3);
  EXPECT_FALSE(Fits(With(Without(environment, "MASTER_ADDR"), "LOCAL_RANK", "1"))) << "they are a process' own";
  EXPECT_FALSE(Fits(With(With(environment, "WORLD_SIZE", "1"), "RANK", "0")));
  EXPECT_FALSE(Fits({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}));
}

// On any node but node 0 a wildcard address would make the node wait for itself as the primary.
TEST(Primary, ListensAtItsOwnAddressOnlyAsNodeZero) {
  const std::string expected = "is 0.0.0.0: expected the address by which the other nodes reach node 0";
  const Environment by_hand = {{"MASTER_ADDR", "0.0.0.0"}, {"NODE_RANK", "1"}, {"NNODES", "2"}};
  EXPECT_THAT(ErrorOf(by_hand), HasSubstr("MASTER_ADDR " + expected));
  EXPECT_THAT(ErrorOf(With(by_hand, "MASTER_ADDR", "::")), HasSubstr("MASTER_ADDR is ::: expected the address"));
  EXPECT_EQ(Place(ReadOk(With(by_hand, "NODE_RANK", "0"))), "static 0/2 0.0.0.0:29500");
  EXPECT_THAT(ErrorOf(With(EnvironmentOf("k8s_trainer_v2.env"), "PET_MASTER_ADDR", "0.0.0.0")),
              HasSubstr("PET_MASTER_ADDR " + expected));
  EXPECT_THAT(ErrorOf({{"PET_NNODES", "2:4"}, {"PET_RDZV_ENDPOINT", "0.0.0.0:1"}}),
              HasSubstr("PET_RDZV_ENDPOINT " + expected));
  EXPECT_THAT(ErrorOf(With(EnvironmentOf("aws_batch_child.env"), "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
                           "0.0.0.0")),
              HasSubstr("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS " + expected));
  EXPECT_THAT(ErrorOf(With(EnvironmentOf("azureml_mpi_multi.env"), "AZ_BATCH_MASTER_NODE", "0.0.0.0:6000")),
              HasSubstr("AZ_BATCH_MASTER_NODE " + expected));
  EXPECT_THAT(ErrorOf(With(EnvironmentOf("k8s_volcano_pytorch.env"), "MASTER_ADDR", "0.0.0.0")),
              HasSubstr("MASTER_ADDR " + expected));
  EXPECT_THAT(ErrorOf(With(EnvironmentOf("mpi_openmpi_1pernode.env"), "MASTER_ADDR", "0.0.0.0")),
              HasSubstr("MASTER_ADDR " + expected));
}

TEST(Static, NamesWhatIsMissingOrWrong) {
  EXPECT_THAT(ErrorOf({{"NODE_RANK", "1"}, {"NNODES", "2"}}), HasSubstr("MASTER_ADDR is missing"));
  EXPECT_THAT(ErrorOf({{"NODE_RANK", "1"}, {"MASTER_ADDR", "a"}}), HasSubstr("NNODES is missing"));
  EXPECT_THAT(ErrorOf({{"NODE_RANK", "2"}, {"NNODES", "2"}, {"MASTER_ADDR", "a"}}), HasSubstr("NODE_RANK is 2"));
  EXPECT_THAT(ErrorOf({{"NODE_RANK", "1"}, {"NNODES", "2"}, {"MASTER_ADDR", "a b"}}),
              HasSubstr("MASTER_ADDR is a b"));
}

TEST(Static, NumNodesCountsBesideRankAndAddress) {
  const Environment environment = {{"NODE_RANK", "1"}, {"NUM_NODES", "3"}, {"MASTER_ADDR", "a"}};
  EXPECT_EQ(Place(ReadOk(environment)), "static 1/3 a:29500");
  EXPECT_EQ(ReadOk(With(environment, "NNODES", "2")).nnodes, 2);
  EXPECT_THAT(ErrorOf(With(environment, "NUM_NODES", "1")), HasSubstr("NODE_RANK is 1"));
  EXPECT_FALSE(Fits(Without(environment, "NODE_RANK")));
  EXPECT_FALSE(Fits(Without(environment, "MASTER_ADDR")));
  EXPECT_FALSE(Fits(With(environment, "LOCAL_RANK", "0"))) << "a process of another launcher";
}

// Otherwise each node would silently run a job of its own.
TEST(Static, SeveralNodesNeedARank) {
  const Environment environment = {{"MASTER_ADDR", "a"}, {"NNODES", "2"}};
  EXPECT_THAT(ErrorOf(environment), HasSubstr("NODE_RANK is missing: expected this node's number"));
  EXPECT_THAT(ErrorOf(With(environment, "NODE_RANK", " ")), HasSubstr("NODE_RANK is empty"));
  EXPECT_THAT(ErrorOf({{"NNODES", "2"}, {"NODE_RANK", ""}}), HasSubstr("NODE_RANK is empty"));
  EXPECT_THAT(ErrorOf({{"MASTER_ADDR", "a"}, {"WORLD_SIZE", "2"}, {"RANK", ""}}), HasSubstr("RANK is empty"));
  EXPECT_FALSE(Fits(With(With(environment, "NNODES", "1"), "NODE_RANK", "")));
  EXPECT_FALSE(Fits({{"MASTER_ADDR", "a"}, {"WORLD_SIZE", "2"}})) << "it may be a number of processes";
  EXPECT_FALSE(Fits({{"NNODES", "2"}}));
}

TEST(Static, RecognizesAWorkerOfAnotherLauncher) {
  const Environment worker = {
      {"MASTER_ADDR", "a"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"CROSS_RANK", "0"}};
  EXPECT_THAT(ErrorOf(worker), HasSubstr("LOCAL_RANK is 1: expected it to be unset"));
  EXPECT_FALSE(Fits(With(worker, "WORLD_SIZE", "1")));
}

TEST(Static, RecognizesTorchrunsWorkerByItsAddress) {
  const Environment worker = EnvironmentOf("torchrun_nested.env");
  EXPECT_THAT(ErrorOf(worker), HasSubstr("give --standalone"));
  for (const auto& [name, value] : worker) {
    if (name == "MASTER_ADDR") continue;
    EXPECT_THAT(ErrorOf(Without(worker, name)), HasSubstr("give --standalone")) << name;
  }
  EXPECT_FALSE(Fits(Without(worker, "MASTER_ADDR"))) << "left behind";
  EXPECT_FALSE(Fits({{"TORCHELASTIC_RUN_ID", "x"}})) << "left behind";
}

// For example a PyTorchJob whose PET_MASTER_ADDR was removed.
TEST(Static, CountsNodesByTheNodeVariable) {
  const Environment pod = {
      {"MASTER_ADDR", "j-master-0"}, {"WORLD_SIZE", "16"}, {"RANK", "1"}, {"PET_NNODES", "2"}};
  EXPECT_EQ(ReadOk(pod).nnodes, 2);
  EXPECT_EQ(ReadOk(With(pod, "PET_NNODES", "1:4")).nnodes, 16);
}

}  // namespace
}  // namespace muster::discovery
