// Refused command lines with their exact messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/status_macros.h"
#include "cli/options/exit_codes.h"
#include "cli/plan/line_prefix.h"
#include "tests/unit/cli/plan/plan_fixture.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Wrong {
  Words words;
  Environment environment;
  int exit_code;
  std::string line;
};

class WrongTable : public testing::TestWithParam<Wrong> {};

TEST_P(WrongTable, IsRefusedWithOneLine) {
  const absl::StatusOr<RunPlan> plan = TryPlan(GetParam().words, GetParam().environment);
  EXPECT_EQ(ExitCodeOf(plan.status()), GetParam().exit_code);
  EXPECT_EQ(AsStd(plan.status().message()), GetParam().line);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongTable,
    testing::Values(
        Wrong{{"--nnodes", "0"}, {}, 64, "--nnodes 0: expected N or MIN:MAX, each from 1 to 100000"},
        Wrong{{"--nnodes", "1:2:3"}, {}, 64, "--nnodes 1:2:3: expected N or MIN:MAX, each from 1 to 100000"},
        Wrong{{"--nnodes", "3:2"}, {}, 64, "--nnodes 3:2: expected MIN:MAX with MIN at most MAX"},
        Wrong{{"--nnodes", "2x"}, {}, 64, "--nnodes 2x: expected N or MIN:MAX, each from 1 to 100000"},
        Wrong{{"--nproc-per-node", "0"},
              {},
              64,
              "--nproc-per-node 0: expected a whole number from 1 to 1024, auto, gpu, cpu, xpu, npu or hpu"},
        Wrong{{"--nproc-per-node", "gpu"}, {}, 64, "--nproc-per-node gpu: there is no accelerator here"},
        Wrong{{"--max-restarts=-1"}, {}, 64, "--max-restarts -1: expected a whole number from 0 to 1000000"},
        Wrong{{"--node-rank", "2", "--nnodes", "2"},
              {},
              64,
              "--node-rank 2: must be less than the number of nodes, 2"},
        Wrong{{"--node-rank", "1"}, {}, 64, "--node-rank 1: needs --nnodes"},
        Wrong{
            {"--http", "node0:9400"},
            {},
            64,
            "--http node0:9400: expected PORT, for visitors of this machine, or IP-ADDRESS:PORT, such as 9400 or "
            "0.0.0.0:9400"},
        Wrong{{"--http", "[::]:9400"},
              {},
              64,
              "--http [::]:9400: other machines reach this address, so it needs --http-token-file FILE: muster "
              "token "
              "prints a good token"},
        Wrong{{"--http", "29500", "--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1"},
              {},
              64,
              "--http 29500: is the port on which the primary listens: choose another one"},
        Wrong{{"--http", "9400", "--worker-port", "9400:9410"},
              {},
              64,
              "--http 9400: is a port of --worker-port 9400:9410: choose another one"},
        Wrong{{"--http-token-file", "t"}, {}, 64, "--http-token-file t: has no effect without --http"},
        Wrong{{"--source", "vertex"}, {}, 65, "--source vertex: CLUSTER_SPEC was not found on this node"},
        Wrong{{"--source", "vertex", "--standalone"},
              {{"CLUSTER_SPEC", kThreeNodes}},
              64,
              "--source vertex: cannot be used with --standalone"},
        Wrong{{"--source", "vertex", "--nnodes", "2", "--master-addr", "a"},
              {{"CLUSTER_SPEC", kThreeNodes}},
              64,
              "--source vertex: already names the primary: leave out --master-addr and --rdzv-endpoint"},
        Wrong{{"--source", "vertex"},
              {{"CLUSTER_SPEC", kThreeNodes}, {"MUSTER_NNODES", "3"}, {"PET_MASTER_ADDR", "a"}},
              64,
              "--source vertex: already names the primary: unset PET_MASTER_ADDR"},
        Wrong{{"--master-port", "70000"}, {}, 64, "--master-port 70000: expected a port from 0 to 65535"},
        Wrong{{"--worker-port", "20:10"}, {}, 64, "--worker-port 20:10: expected LO:HI with LO at most HI"},
        Wrong{{"--rdzv-endpoint", "a:b", "--nnodes", "2"},
              {},
              64,
              "--rdzv-endpoint a:b: expected a port from 0 to 65535 after the colon"},
        Wrong{
            {"--rdzv-endpoint", "far:0", "--nnodes", "2"},
            {},
            64,
            "--rdzv-endpoint far:0: port 0 is any free port, which no other node knows; give a port, the same on "
            "all nodes"},
        Wrong{
            {"--rdzv-endpoint", "localhost:0", "--nnodes", "2"},
            {},
            64,
            "--nnodes 2: cannot be used with --rdzv-endpoint localhost:0: port 0 is any free port, which no other "
            "node knows; give a port, the same on all nodes"},
        Wrong{{"--rdzv-endpoint", "[::1", "--nnodes", "2"},
              {},
              64,
              "--rdzv-endpoint [::1: expected HOST or HOST:PORT, an IPv6 address in brackets"},
        Wrong{{"--rdzv-backend", "redis"},
              {},
              64,
              "--rdzv-backend redis: expected static, c10d, etcd or etcd-v2; muster needs none: leave the "
              "option out"},
        Wrong{{"--lease", "0.5"},
              {},
              64,
              "--lease 0.5: expected a time from 1s to 24h, in seconds or as 500ms, 20s, 5m, 1h"},
        Wrong{{"--lease", "soon"},
              {},
              64,
              "--lease soon: expected a time from 1s to 24h, in seconds or as 500ms, 20s, 5m, 1h"},
        Wrong{{"--join-timeout=-1"},
              {},
              64,
              "--join-timeout -1: expected a time from 100ms to 87600h, in seconds or as 500ms, 20s, 5m, 1h"},
        Wrong{{"--join-timeout", "0"},
              {},
              64,
              "--join-timeout 0: expected a time from 100ms to 87600h, in seconds or as 500ms, 20s, 5m, 1h"},
        Wrong{{"--rdzv-conf", "timeout=0"},
              {},
              64,
              "--rdzv-conf timeout=0: timeout: expected a time from 100ms to 87600h, in seconds or as 500ms, 20s, "
              "5m, "
              "1h"},
        Wrong{{"--log-max-size", "99999999999G"},
              {},
              64,
              "--log-max-size 99999999999G: expected a size from 64k to 1048576G, such as 500k, 20M or 1G"},
        Wrong{{"--max-node-losses", "3/0"},
              {},
              64,
              "--max-node-losses 3/0: expected N or N/TIME, N from 0 to 1000000, TIME from 1s to 87600h, as in 10 "
              "or "
              "3/30m"},
        Wrong{{"--heartbeat-interval", "3"},
              {},
              64,
              "--heartbeat-interval 3: must be at most 2.5s (1/4 of --lease 10s)"},
        Wrong{{"--reconnect-grace", "10"}, {}, 64, "--reconnect-grace 10: must be less than --lease 10s"},
        Wrong{{"-m", "--no-python"}, {}, 64, "--no-python: cannot be used with -m (--module)"},
        Wrong{{"--standalone", "--nnodes", "2"}, {}, 64, "--nnodes 2: cannot be used with --standalone"},
        Wrong{{"--stdin", "some"}, {}, 64, "--stdin some: expected all, none or a rank from 0 to 102399999"},
        Wrong{{"--stdin", "2", "--nproc-per-node", "2"},
              {},
              64,
              "--stdin 2: the job has 2 workers: expected all, none or a rank, 0 to 1"},
        Wrong{{},
              {{"MUSTER_STDIN", "1"}},
              65,
              "MUSTER_STDIN 1: the job has 1 worker: expected all, none or a rank, 0; correct it, or unset it"},
        Wrong{
            {"--debug", "0:0"},
            {},
            64,
            "--debug 0:0: expected RANK for pdb, or RANK:PORT for debugpy, RANK from 0 to 102399999, PORT from 1 "
            "to 65535"},
        Wrong{{"--debug", "2:5678", "--nproc-per-node", "2"},
              {},
              64,
              "--debug 2:5678: the job has 2 workers: expected a rank, 0 to 1"},
        Wrong{{},
              {{"MUSTER_DEBUG", "1"}},
              65,
              "MUSTER_DEBUG 1: pdb needs a terminal as standard input and output, with muster in its foreground; "
              "for "
              "debugpy give --debug 1:PORT; correct it, or unset it"},
        Wrong{{"--preload", "torch,,x"},
              {},
              64,
              "--preload torch,,x: expected names of Python modules with commas between them, or auto alone, or "
              "off alone"},
        Wrong{{"--preload", "3d"},
              {},
              64,
              "--preload 3d: expected names of Python modules with commas between them, or auto alone, or off "
              "alone"},
        Wrong{{"--preload", "on"},
              {},
              64,
              "--preload on: expected names of Python modules with commas between them, or auto alone, or off "
              "alone"},
        Wrong{{"--preload", "auto,torch"},
              {},
              64,
              "--preload auto,torch: expected names of Python modules with commas between them, or auto alone, or "
              "off alone"},
        Wrong{
            {"--preload", "torch", "--no-python"},
            {},
            64,
            "--preload torch: expected a Python script or module that muster starts itself, without --no-python: "
            "in a program of another kind there is nothing to import"},
        Wrong{{"--local-ranks-filter", "7,8", "--nproc-per-node", "2"},
              {},
              64,
              "--local-ranks-filter 7,8: would hide all output, since this node has 2 workers: expected local "
              "ranks, 0 to 1"},
        Wrong{{},
              {{"PET_LOCAL_RANKS_FILTER", "1"}},
              65,
              "PET_LOCAL_RANKS_FILTER 1: would hide all output, since this node has 1 worker: expected local "
              "ranks, 0; correct it, or unset it"},
        Wrong{{"--pools", "three"}, {}, 64, "--pools three: expected trainers or all"},
        Wrong{{"--nnodes", "2"},
              {},
              64,
              "--nnodes 2: needs --rdzv-endpoint or --master-addr: no platform names the primary"},
        Wrong{{"--python", ""}, {}, 64, "--python '': expected a value"},
        Wrong{{"--worker-port", "29500", "--nnodes", "2", "--node-rank", "0"},
              {},
              64,
              "--worker-port 29500: is the port of the primary; choose another, or a range"},
        Wrong{{},
              {{"MUSTER_NNODES", "x"}},
              65,
              "MUSTER_NNODES x: expected N or MIN:MAX, each from 1 to 100000; correct it, or unset it"},
        Wrong{{},
              {{"PET_MAX_RESTARTS", "x"}},
              65,
              "PET_MAX_RESTARTS x: expected a whole number from 0 to 1000000; correct it, or unset it"},
        Wrong{{},
              {{"PET_STANDALONE", "maybe"}},
              65,
              "PET_STANDALONE maybe: expected 1 or 0; correct it, or unset it"},
        Wrong{{},
              {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "2"}, {"PET_MASTER_ADDR", "a"}},
              65,
              "PET_NODE_RANK 2: must be less than the number of nodes, 2; correct it, or unset it"},
        Wrong{{},
              {{"PET_NODE_RANK", "1"}},
              65,
              "PET_NODE_RANK 1: needs PET_NNODES, the number of nodes; set it, or unset this variable"},
        Wrong{{},
              {{"MUSTER_NODE_RANK", "1"}},
              65,
              "MUSTER_NODE_RANK 1: needs MUSTER_NNODES, the number of nodes; set it, or unset this variable"},
        Wrong{{},
              {{"PET_RDZV_CONF", "a"}},
              65,
              "PET_RDZV_CONF a: expected KEY=VALUE,KEY=VALUE; correct it, or unset it"},
        Wrong{{},
              {{"PET_RDZV_CONF", "is_host=2x"}},
              65,
              "PET_RDZV_CONF is_host=2x: is_host: expected true or false; correct it, or unset it"},
        Wrong{{},
              {{"MUSTER_RDZV_ID", "a\xff"}},
              65,
              "MUSTER_RDZV_ID a\\xff: expected one line of UTF-8; correct it, or unset it"},
        Wrong{{"--standalone"},
              {{"MUSTER_NNODES", "2"}},
              65,
              "MUSTER_NNODES 2: cannot be used with --standalone; correct it, or unset it"},
        Wrong{{},
              {{"MUSTER_TOKEN", "secret\n"}},
              65,
              "MUSTER_TOKEN: expected printable ASCII without blanks; a trailing newline is a blank"},
        Wrong{{},
              {{"MUSTER_TOKEN", std::string(4097, 'x')}},
              65,
              "MUSTER_TOKEN: expected at most 4096 bytes, not 4097"},
        Wrong{{},
              {{"MUSTER_TOKEN", std::string(21, 'x')}},
              65,
              "MUSTER_TOKEN: expected at least 22 characters, not 21; muster token prints a good token"},
        Wrong{
            {}, {{"MUSTER_TOKEN", "s\xc3\xa9same"}}, 65, "MUSTER_TOKEN: expected printable ASCII without blanks"},
        Wrong{{"--rdzv-id", "a\xff"}, {}, 64, "--rdzv-id a\\xff: expected one line of UTF-8"},
        Wrong{{},
              {{"CLUSTER_SPEC", kThreeNodes}, {"CLOUD_ML_JOB_ID", "a\xff"}},
              65,
              "CLOUD_ML_JOB_ID is a\\xff: expected at most 256 bytes of UTF-8, none of them a control character; "
              "correct it, or unset it and give --nnodes, --node-rank and --master-addr"},
        Wrong{{"--nnodes", "4"},
              {{"CLUSTER_SPEC", kThreeNodes}},
              64,
              "--nnodes 4: expected at most 3, the number of nodes of the platform (vertex); correct it, or leave "
              "it out"},
        Wrong{{"--node-rank", "0"},
              {{"CLUSTER_SPEC", kThreeNodes}},
              64,
              "--node-rank 0: expected 2, this node's rank on the platform (vertex); correct it, or leave it out"},
        Wrong{{"--master-addr", "a"},
              {{"CLUSTER_SPEC", kThreeNodes}},
              64,
              "--master-addr a: needs --nnodes, since the platform (vertex) names a primary, too"}));

TEST(NamedRanksTest, RanksThatSomeNodesLackAreAWarning) {
  const auto warnings = [](const Words& words) { return Planned(words).shown.warnings; };
  EXPECT_THAT(warnings({"--nproc-per-node=2", "--local-ranks-filter=1,7", "-r", "0:1,9:3", "-t", "0:2"}),
              ElementsAre("--local-ranks-filter: no local rank 7: this node has 2 workers",
                          "--redirects: no local rank 9: this node has 2 workers"));
  EXPECT_THAT(warnings({"--nproc-per-node=2", "--local-ranks-filter=0,1", "-r", "0:1", "--stdin=1"}), IsEmpty());
}

TEST(NamedRanksTest, OneOfSeveralNodesCannotCountTheRanks) {
  EXPECT_TRUE(TryPlan({"--nnodes=2", "--node-rank=0", "--master-addr=a", "--stdin=5"}).ok());
  const Environment reducer = {{"CLUSTER_SPEC", kReducer}};
  EXPECT_TRUE(TryPlan({"--stdin=5", "--local-ranks-filter=3"}, reducer).ok());
}

constexpr char kFirstOfTwo[] =
    R"({"cluster":{"workerpool0":["a-0:2222"],"workerpool1":["b-0:2222"]},"task":{"type":"workerpool0","index":0}})";

TEST(NamedRanksTest, TheFirstNodeOfMusterLocalCountsTheRanks) {
  const Environment node = {{"CLUSTER_SPEC", kFirstOfTwo}, {kRedrawsVariable, "0"}};
  EXPECT_TRUE(TryPlan({"--nproc-per-node=2", "--stdin=3"}, node).ok());
  EXPECT_THAT(TryPlan({"--nproc-per-node=2", "--stdin=4"}, node).status().message(),
              HasSubstr("--stdin 4: the job has 4 workers"));
}

}  // namespace
}  // namespace muster::cli
