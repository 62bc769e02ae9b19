// A hostfile as a source: finding this machine in it, and writing a hostfile from any source.
#include "agent/platform/discovery/hostfile_view.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/discover.h"
#include "agent/platform/discovery/hostfile.h"
#include "base/core/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/agent/platform/discovery/fixtures.h"

namespace muster::discovery {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kFile[] = "/etc/hosts.train";
constexpr char kThree[] = "node-a slots=3\nnode-b slots=2\n10.0.0.3 slots=4\n";

// A machine with this host name and these addresses; `names` are the other names that resolve to it.
struct Own {
  std::string hostname = "elsewhere";
  std::set<std::string> addresses;
  std::set<std::string> names;
  std::set<std::string> unknown;  // names that do not resolve
};

absl::StatusOr<ClusterView> Find(const std::string& text, const Own& own, DiscoverOptions options = {},
                                 const Environment& environment = {}) {
  options.source = "hostfile";
  options.hostfile.path = kFile;
  options.hostfile.hostname = own.hostname;
  options.hostfile.is_own_address = [&own](const std::string& host) { return own.addresses.count(host) > 0; };
  options.hostfile.resolves_to_own = [&own](const std::string& host) {
    return own.unknown.count(host) > 0 ? std::nullopt : std::optional(own.names.count(host) > 0);
  };
  return DiscoverWith(environment, options, {{kFile, text}});
}

ClusterView FindOk(const std::string& text, const Own& own, const DiscoverOptions& options = {}) {
  const absl::StatusOr<ClusterView> view = Find(text, own, options);
  EXPECT_TRUE(view.ok()) << view.status();
  return view.value_or(ClusterView());
}

std::string ErrorOf(const absl::StatusOr<ClusterView>& view) {
  return view.ok() ? "no error" : std::string(AsStd(view.status().message()));
}

DiscoverOptions Filtered(const std::string& include, const std::string& exclude) {
  DiscoverOptions options;
  options.hostfile.include = include;
  options.hostfile.exclude = exclude;
  return options;
}

DiscoverOptions Ranked(int rank, const std::string& exclude = "") {
  DiscoverOptions options = Filtered("", exclude);
  options.node_rank = rank;
  return options;
}

TEST(HostfileView, AUserIsIgnoredWithAWarning) {
  const ClusterView view = FindOk("me@node-a slots=3 max_slots=8\nme@node-b slots=2\n", {"node-b", {}, {}, {}});
  EXPECT_EQ(view.node_rank, 1);
  EXPECT_EQ(view.primary_host, "node-a");
  EXPECT_THAT(view.warnings, ElementsAre(HasSubstr("line 1: the user of me@node-a is ignored")));
}

TEST(HostfileView, ANodeFindsItselfByNameOrAddress) {
  EXPECT_EQ(FindOk(kThree, {.hostname = "NODE-B", .addresses = {}, .names = {}, .unknown = {}}).node_rank, 1);
  EXPECT_EQ(FindOk(kThree, {.hostname = "node-b", .addresses = {}, .names = {}, .unknown = {}}).evidence, kFile);
  EXPECT_EQ(
      FindOk(kThree, {.hostname = "node-b.cluster.local", .addresses = {}, .names = {}, .unknown = {}}).node_rank,
      1);
  EXPECT_EQ(FindOk(kThree, {.hostname = "x", .addresses = {"10.0.0.3"}, .names = {}, .unknown = {}}).node_rank, 2);
  EXPECT_EQ(FindOk(kThree, {.hostname = "x", .addresses = {}, .names = {"node-a"}, .unknown = {}}).node_rank, 0);
  EXPECT_EQ(FindOk("localhost slots=2\n", {}).node_rank, 0);
}

TEST(HostfileView, NoNameIsResolvedIfOneMatches) {
  const ClusterView view =
      FindOk(kThree, {.hostname = "node-b", .addresses = {}, .names = {"node-a"}, .unknown = {}});
  EXPECT_EQ(view.node_rank, 1);
}

TEST(HostfileView, HasAllThatAJobNeeds) {
  const ClusterView view = FindOk(kThree, {.hostname = "node-b", .addresses = {}, .names = {}, .unknown = {}});
  EXPECT_EQ(view.source, "hostfile");
  EXPECT_EQ(view.nnodes, 3);
  EXPECT_EQ(view.primary_host, "node-a");
  EXPECT_EQ(view.primary_port, 29500);
  EXPECT_EQ(view.self, "node-b");
  EXPECT_EQ(view.nproc, "2");
  EXPECT_EQ(view.run_id, "hostfile-node-a");
  EXPECT_THAT(view.nodes, ElementsAre("node-a:29500", "node-b:29500", "10.0.0.3:29500"));
  EXPECT_THAT(view.slots, ElementsAre(3, 2, 4));
  EXPECT_THAT(view.for_workers, IsEmpty());
  EXPECT_FALSE(view.loopback_only);
}

TEST(HostfileView, AMissingOrDuplicateNodeGetsARemedy) {
  EXPECT_THAT(ErrorOf(Find(kThree, {})),
              AllOf(HasSubstr("/etc/hosts.train: this machine is elsewhere: expected one of its hosts"),
                    HasSubstr("give --node-rank")));
  EXPECT_THAT(
      ErrorOf(Find(kThree, {.hostname = "node-a", .addresses = {"10.0.0.3"}, .names = {}, .unknown = {}})),
      AllOf(HasSubstr("this machine is node-a, 10.0.0.3: expected one host"), HasSubstr("give --node-rank")));
}

TEST(HostfileView, UnresolvedNamesAreListedForAMissingNode) {
  EXPECT_THAT(ErrorOf(Find(kThree, {})), Not(HasSubstr("resolve")));
  const Own one = {.hostname = "x", .addresses = {}, .names = {}, .unknown = {"node-b"}};
  EXPECT_THAT(ErrorOf(Find(kThree, one)), HasSubstr(" (node-b does not resolve here); "));
  const Own two = {.hostname = "x", .addresses = {}, .names = {}, .unknown = {"node-a", "node-b"}};
  EXPECT_THAT(ErrorOf(Find(kThree, two)), HasSubstr(" (node-a, node-b do not resolve here); "));
}

TEST(HostfileView, AnUnreadableFilesPathIsShownOnce) {
  const std::string path = "/" + std::string(300, 'x');
  const FileReader refuse = [](const std::string& file, size_t) -> absl::StatusOr<std::string> {
    return absl::PermissionDeniedError(file + ": Permission denied");
  };
  HostfileOptions options;
  options.path = path;
  const Reading reading = ReadHostfile({{}, refuse}, options, 0);
  const std::string message(AsStd(reading.status().message()));
  EXPECT_THAT(message, HasSubstr("xxx...: cannot be read: Permission denied; "));
  EXPECT_LT(message.size(), 250u);
}

TEST(HostfileView, ANodeRankCountsTheRemainingHosts) {
  EXPECT_EQ(FindOk(kThree, {.hostname = "node-a", .addresses = {}, .names = {}, .unknown = {}}, Ranked(2)).self,
            "10.0.0.3");
  EXPECT_EQ(FindOk(kThree, {}, Ranked(1, "node-b")).self, "10.0.0.3");
  EXPECT_THAT(ErrorOf(Find(kThree, {}, Ranked(2, "node-b"))), HasSubstr("--node-rank is 2: expected less than 2"));
}

TEST(HostfileView, FiltersRemoveHostsAndSlots) {
  const Own b = {.hostname = "node-b", .addresses = {}, .names = {}, .unknown = {}};
  const ClusterView without_a = FindOk(kThree, b, Filtered("", "node-a"));
  EXPECT_EQ(without_a.node_rank, 0);
  EXPECT_EQ(without_a.primary_host, "node-b");
  EXPECT_THAT(without_a.for_workers, IsEmpty());
  const ClusterView one_slot = FindOk(kThree, b, Filtered("node-a@node-b:1", ""));
  EXPECT_EQ(one_slot.node_rank, 1);
  EXPECT_EQ(one_slot.nproc, "1");
  EXPECT_THAT(one_slot.slots, ElementsAre(3, 1));
  EXPECT_EQ(one_slot.for_workers, (Environment{{"CUDA_VISIBLE_DEVICES", "1"}}));
  EXPECT_THAT(ErrorOf(Find(kThree, b, Filtered("", "node-b"))),
              HasSubstr("--exclude is node-b: expected this machine, node-b, among those that are left"));
  EXPECT_THAT(ErrorOf(Find(kThree, b, Filtered("node-c", ""))), HasSubstr("--include is node-c"));
  EXPECT_THAT(ErrorOf(Find(kThree, b, Filtered("node-b", "node-a"))), HasSubstr("not both"));
  EXPECT_THAT(ErrorOf(Find(kThree, b, Filtered("node-b:0", ""), {{"CUDA_VISIBLE_DEVICES", "4,5"}})),
              HasSubstr("CUDA_VISIBLE_DEVICES is 4,5: expected it to be unset"));
}

TEST(HostfileView, AFilterDecidesBetweenTwoNamesOfThisMachine) {
  const Own both = {.hostname = "node-a", .addresses = {"10.0.0.3"}, .names = {}, .unknown = {}};
  EXPECT_EQ(FindOk(kThree, both, Filtered("", "node-a")).self, "10.0.0.3");
}

TEST(HostfileView, LoopbackAddressesNeedARank) {
  const std::string text = "127.0.0.1 slots=1\n127.0.0.2 slots=1\n";
  EXPECT_THAT(ErrorOf(Find(text, {})), HasSubstr("give --node-rank"));
  EXPECT_TRUE(FindOk(text, {}, Ranked(1)).loopback_only);
}

TEST(HostfileView, TooManyHostsOfThisMachineAreRefusedAtOnce) {
  std::string text;
  for (int i = 0; i < kMaxHosts; ++i) {
    absl::StrAppend(&text, "127.", 1 + i / 65536, ".", i / 256 % 256, ".", i % 256, " slots=1\n");
  }
  EXPECT_THAT(ErrorOf(Find(text, {})), HasSubstr("this machine is 127.1.0.0, 127.1.0.1, "));
}

TEST(HostfileView, AnIpv6AddressCanBeThePrimary) {
  const ClusterView view = FindOk("[fd00::1] slots=1\nfd00::2 slots=1\n", {}, Ranked(1));
  EXPECT_EQ(view.primary_host, "fd00::1");
  EXPECT_THAT(view.nodes, ElementsAre("[fd00::1]:29500", "[fd00::2]:29500"));
}

TEST(HostfileView, TheDefaultFileIsTheLastResort) {
  DiscoverOptions options;
  options.hostfile.hostname = "node-b";
  const std::map<std::string, std::string> files = {{kDefaultHostfile, kThree}};
  EXPECT_EQ(DiscoverWith({}, options, files)->source, "hostfile");
  EXPECT_EQ(DiscoverWith({}, options)->source, "single");
  const Environment batch = {{"AWS_BATCH_JOB_NODE_INDEX", "0"},
                             {"AWS_BATCH_JOB_NUM_NODES", "2"},
                             {"AWS_BATCH_JOB_MAIN_NODE_INDEX", "0"},
                             {"AWS_BATCH_JOB_ID", "1"}};
  EXPECT_EQ(DiscoverWith(batch, options, files)->source, "batch");
}

TEST(HostfileView, ARequestedFileMustExist) {
  DiscoverOptions options;
  options.source = "hostfile";
  options.hostfile.path = kFile;
  EXPECT_THAT(ErrorOf(DiscoverWith({}, options)), HasSubstr("--hostfile /etc/hosts.train: file not found"));
}

// Every sample that is a hostfile, as its first host and as its last.
TEST(HostfileView, EverySampleHasAPlaceForEachOfItsHosts) {
  int read = 0;
  for (const Fixture& fixture : FixturesOf("hostfile")) {
    if (fixture.outcome != "ok" || !fixture.file.starts_with("hostfile_")) continue;
    if (fixture.file == "hostfile_zero_slots.txt") continue;  // refused: hostfile_test
    const std::string text = ReadFixture(fixture.file);
    const auto hosts = ParseHostfile(fixture.file, text);
    ASSERT_TRUE(hosts.ok()) << hosts.status();
    for (size_t place = 0; place < hosts->size(); ++place) {
      const ClusterView view =
          FindOk(text, {.hostname = (*hosts)[place].host, .addresses = {}, .names = {}, .unknown = {}});
      EXPECT_EQ(view.node_rank, static_cast<int>(place)) << fixture.file;
      EXPECT_EQ(view.nproc, std::to_string((*hosts)[place].slots.size())) << fixture.file;
    }
    ++read;
  }
  EXPECT_EQ(read, 6);
}

// ---- Written ----

TEST(WriteHostfile, IsWhatWasRead) {
  const ClusterView view = FindOk(kThree, {.hostname = "node-a", .addresses = {}, .names = {}, .unknown = {}});
  EXPECT_EQ(WriteHostfile(view, 8).value(), kThree);
}

TEST(WriteHostfile, TakesTheNamesOfAnySource) {
  ClusterView view;
  view.source = "slurm";
  view.nnodes = 2;
  view.nodes = {"gpu-08:24711", "gpu-09:24711"};
  const std::string text = WriteHostfile(view, 8).value();
  EXPECT_EQ(text, "gpu-08 slots=8\ngpu-09 slots=8\n");
  EXPECT_TRUE(ParseHostfile("written", text).ok());
}

TEST(WriteHostfile, TwoNodesOnOneHostHaveNoHostfile) {
  ClusterView view;
  view.source = "vertex";
  view.nnodes = 2;
  view.nodes = {"a:1", "A.:2"};
  EXPECT_THAT(std::string(AsStd(WriteHostfile(view, 1).status().message())),
              HasSubstr("vertex: nodes[1] is A.:2: expected another host for each node"));
}

TEST(WriteHostfile, AcceptsNumbersAsSlurmNodeNames) {
  ClusterView view;
  view.nnodes = 2;
  view.nodes = {"7:20001", "8:20001"};
  EXPECT_EQ(WriteHostfile(view, 1).value(), "7 slots=1\n8 slots=1\n");
}

TEST(WriteHostfile, OneNodeIsThisMachine) { EXPECT_EQ(WriteHostfile({}, 2).value(), "localhost slots=2\n"); }

TEST(WriteHostfile, WithoutNamesThereIsNoHostfile) {
  ClusterView view;
  view.source = "openmpi";
  view.nnodes = 3;
  EXPECT_THAT(std::string(AsStd(WriteHostfile(view, 8).status().message())),
              HasSubstr("(openmpi) does not name its 3 nodes"));
  view.nodes = {"[fd00::1]:29400", "[fd00::2]:29400", "[fd00::3]:29400"};
  EXPECT_THAT(std::string(AsStd(WriteHostfile(view, 8).status().message())), HasSubstr("IPv6"));
}

}  // namespace
}  // namespace muster::discovery
