#include "cli/commands/help.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "agent/discovery/discover.h"
#include "base/status_macros.h"
#include "cli/options/deepspeed.h"
#include "cli/options/option_table.h"

namespace muster::cli {
namespace {

constexpr size_t kTextColumn = 30;
constexpr char kTimesTitle[] = "Timeouts (in seconds, or with a unit: 500ms, 20s, 5m, 1h)";
constexpr char kSourcesMark[] = "SOURCES";  // stands in an option's text for the names of all sources

// Appends `text`, broken into lines that begin at `column`. The current line of `*out` is `at` columns long; the
// text continues on it if `at` is not beyond `column`.
void Wrap(std::string_view text, size_t column, size_t at, std::string* out) {
  const auto indent = [&] {
    out->append(column - at, ' ');
    at = column;
  };
  if (at > column) {
    out->push_back('\n');
    at = 0;
  }
  indent();
  bool first = true;
  for (const absl::string_view word : absl::StrSplit(AsAbsl(text), ' ', absl::SkipEmpty())) {
    if (!first && at + 1 + word.size() > kHelpColumns) {
      out->push_back('\n');
      at = 0;
      indent();
      first = true;
    }
    if (!first) {
      out->push_back(' ');
      ++at;
    }
    out->append(AsStd(word));
    at += word.size();
    first = false;
  }
  out->push_back('\n');
}

void AppendGroup(const std::vector<OptionSpec>& table, Group group, const char* title, std::string* out) {
  absl::StrAppend(out, "\n", title, ":\n");
  for (const OptionSpec& spec : table) {
    if (spec.group != group) continue;
    std::string head = "  ";
    if (spec.shorthand != 0) absl::StrAppend(&head, "-", std::string(1, spec.shorthand), ", ");
    absl::StrAppend(&head, "--", AsAbsl(spec.name));
    if (!spec.is_switch()) absl::StrAppend(&head, " ", AsAbsl(spec.value));
    out->append(head);
    if (spec.help.empty()) {
      out->push_back('\n');
      continue;
    }
    // If the head leaves no blank before the text column, the text begins on the next line.
    const std::string text = absl::StrReplaceAll(AsAbsl(spec.help), {{kSourcesMark, discovery::SourceNames()}});
    Wrap(text, kTextColumn, head.size() + 1 > kTextColumn ? kTextColumn + 1 : head.size(), out);
  }
}

void AppendOptions(std::string* out) {
  const auto& table = RunOptions();
  AppendGroup(table, Group::kMembership, "Membership (read from the platform where there is one)", out);
  AppendGroup(table, Group::kWorkers, "Workers of this node", out);
  AppendGroup(table, Group::kRestarts, "Restart policy", out);
  AppendGroup(table, Group::kTimes, kTimesTitle, out);
  AppendGroup(table, Group::kProgram, "Program", out);
  AppendGroup(table, Group::kOutput, "Output and report", out);
  AppendGroup(table, Group::kTorchrun, "Options of torchrun, accepted for compatibility", out);
}

}  // namespace

std::string MainHelp() {
  return R"text(muster starts, watches and restarts a distributed training job.

Usage: muster COMMAND ...

  muster run [options] [--] SCRIPT [ARGS]
      Run one node of a job; the same command on every node. The nodes find each
      other at the address of the primary, which comes from the platform
      (CLUSTER_SPEC) or from options, agree on ranks, start their workers, and
      restart all of them when a worker or a node fails.
  muster local --nodes N [options] SCRIPT [ARGS]
      Run N nodes on this machine, to try out a multi-node job.
  muster coordinator --nnodes N|MIN:MAX [options]
      Run the coordinator alone, for jobs in which every node may be lost.
  muster env [--json] [--check] [options]
      Show what was found, where, and the settings that follow from it; with
      --check, look for problems. Starts nothing.
  muster hostfile [--slots N] [options]
      Print the nodes of the job as a DeepSpeed hostfile: lines of HOST slots=N.
  muster version
      Print the version.

"muster COMMAND --help" shows the options. A link to muster named torchrun or
deepspeed takes the options of that program. To complete options in the shell:
eval "$(muster run --print-completion bash)", or zsh.

Exit codes:
  0          every worker exited 0
  worker's   the code of the worker that failed first, or 128 + its signal
  64, 65     wrong command line; wrong environment
  69         primary not reached, too few nodes in time, or too many nodes lost
  70         internal error of muster
  75         asked to leave; worth a retry
  77         refused by the primary: token, run id or protocol version
  93         no progress; not worth a retry
  126, 127   the program is not executable; not found
  130        cancelled at the terminal
)text";
}

std::string RunHelp(std::string_view command) {
  std::string out = absl::StrCat("Usage: ", AsAbsl(command), " [options] [--] SCRIPT [ARGS]\n");
  if (command != "muster run")
    out += "\nmuster, called by this name, takes the options of torchrun and its own.\n";
  out += absl::StrReplaceAll(R"(
Runs this node's workers of a job. All arguments after SCRIPT are passed to it.

  COMMAND train.py                              in a container on every node
  COMMAND --nproc-per-node gpu train.py         on one machine, all its GPUs
  COMMAND --nnodes 2 --node-rank 1 --master-addr A train.py
  COMMAND --nnodes 2:4 --rdzv-endpoint A:29400 --rdzv-id job1 train.py
)",
                             {{"COMMAND", AsAbsl(command)}});
  out += R"(
Each option can also be set by a variable: --node-rank by MUSTER_NODE_RANK, and
options of torchrun by PET_NODE_RANK, too. The command line takes precedence,
then MUSTER_, then PET_, then the platform. Names of options may be written with
dashes or underscores.
)";
  AppendOptions(&out);
  out += R"(
Variables without an option:
  MUSTER_TOKEN                Shared secret; the primary refuses nodes without
                              it. It is sent unencrypted: there is no TLS.
  MUSTER_LOG_LEVEL            Log level: debug, info, warning or error. Default:
                              info.
  MUSTER_SUBDOMAIN            Kubernetes: the headless Service that gives the
                              pods their names, if /etc/hosts does not have it.
  MUSTER_PODS_PER_JOB         JobSet of several jobs: number of pods of each.
  MUSTER_JOB_INDEX            JobSet of several jobs: index of this job
                              (job-global-index), if the host name lacks it.
  MUSTER_SAGEMAKER_CONFIG     SageMaker: path of resourceconfig.json. Default:
                              the one in /opt/ml/input/config.
  MUSTER_SAGEMAKER_FAILURE    SageMaker: path of the failure file. Default:
                              /opt/ml/output/failure.
)";
  return out;
}

std::string DeepspeedHelp() {
  std::string out = R"(Usage: deepspeed [options] SCRIPT [ARGS]

muster, called by this name, takes the options of DeepSpeed. There is no SSH:
for several hosts run the same command on each of them; each host finds its rank
in the hostfile (or set --node_rank). For muster's own options: muster run -h.
)";
  const auto& table = DeepspeedOptions();
  AppendGroup(table, Group::kMembership, "Hosts", &out);
  AppendGroup(table, Group::kWorkers, "Workers", &out);
  AppendGroup(table, Group::kProgram, "Program", &out);
  AppendGroup(table, Group::kOutput, "Output", &out);
  AppendGroup(table, Group::kTorchrun, "Accepted without effect", &out);
  return out;
}

std::string LocalHelp() {
  std::string out = R"(Usage: muster local --nodes N [options] SCRIPT [ARGS]

Runs N nodes on this machine, each with a loopback address of its own and a
CLUSTER_SPEC, as on a platform. Each line of output begins with the node and the
rank of the worker that wrote it. The accelerators are divided among the nodes.
Ctrl-C stops all nodes; a second one stops them at once. The exit code is that
of the first node whose exit code is not 0.

  muster local --nodes 3 --nproc-per-node 2 train.py --epochs 2

--nodes N is required. All options of muster run (see muster run --help) are
accepted, except those that set the membership. --nnodes MIN:MAX is accepted;
nodes above MAX are spares. As on a platform, --max-restarts defaults to 3.
)";
  return out;
}

std::string CoordinatorHelp() {
  std::string out = R"(Usage: muster coordinator --nnodes N|MIN:MAX [options]

Runs the coordinator of a job alone, so that every node can be lost. The nodes
run: muster run --coordinator HOST:PORT --nnodes ... SCRIPT

The coordinator stores nothing on disk. When it is killed and restarted with the
same options, it learns the state of the job from the nodes. If that takes less
than two thirds of the lease, the workers keep running; else the group restarts
once the coordinator is back. A --lease of 2m gives a cluster the time to
reschedule it. Its exit code is the job's. Set the restart policy here, not on
the nodes; only --progress-file is set on the nodes, since they see that file.

If nodes have no --node-rank, the first round waits for one lease and a second:
nodes that cannot be reached may still be running an earlier round.

  muster coordinator --nnodes 2:4 --rdzv-id job1 --listen 29400 --lease 2m
  muster run --coordinator c.example:29400 --nnodes 2:4 --rdzv-id job1 train.py
)";
  const auto& table = CoordinatorCommandOptions();
  AppendGroup(table, Group::kOther, "Address", &out);
  AppendGroup(table, Group::kMembership, "Membership", &out);
  AppendGroup(table, Group::kRestarts, "Restart policy", &out);
  AppendGroup(table, Group::kTimes, kTimesTitle, &out);
  AppendGroup(table, Group::kOutput, "Output", &out);
  out += R"(
MUSTER_TOKEN and MUSTER_LOG_LEVEL apply as for muster run.
)";
  return out;
}

std::string HostfileHelp() {
  std::string out = R"(Usage: muster hostfile [--slots N] [options of muster run]

Prints the nodes of the job that `muster run` would join as a DeepSpeed
hostfile, in the order of their ranks. Starts nothing.
)";
  AppendGroup(HostfileCommandOptions(), Group::kOther, "In addition to the options of muster run", &out);
  return out;
}

std::string EnvHelp() {
  return R"(Usage: muster env [--json] [--check] [options of muster run]

Prints what was found and where, and the settings that follow from it: platform,
primary, rank of this node, interpreter, accelerators, and each setting with its
origin. Starts nothing and connects to nothing. Values of variables whose names
look like secrets are masked. --json prints one JSON object.

--check looks for problems: it resolves the primary's name, connects to its port
and compares its clock, compares the numbers of workers and accelerators, and
checks /dev/shm and what the kernel kills when memory runs out. Exit codes: 0 no
problem found; 69 the primary cannot be reached or refuses this node; 64 wrong
command line; 65 what the platform provides cannot be read; 1 other problems.
)";
}

}  // namespace muster::cli
