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
constexpr char kSourcesMark[] = "SOURCES";  // in an option's text: the names of all sources

// `text` in lines that begin at `column`; the first continues `*out`, which stands at `at`.
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
    // A head that reaches the column of the text has a line of its own.
    const std::string text = absl::StrReplaceAll(AsAbsl(spec.help), {{kSourcesMark, discovery::SourceNames()}});
    Wrap(text, kTextColumn, head.size() + 1 > kTextColumn ? kTextColumn + 1 : head.size(), out);
  }
}

void AppendOptions(std::string* out) {
  const auto& table = RunOptions();
  AppendGroup(table, Group::kMembership, "Who is in the job (nothing needed where the platform says it)", out);
  AppendGroup(table, Group::kWorkers, "Workers of this node", out);
  AppendGroup(table, Group::kRestarts, "How often to go on", out);
  AppendGroup(table, Group::kTimes, "Times (seconds, or 500ms, 20s, 5m, 1h)", out);
  AppendGroup(table, Group::kProgram, "What is run", out);
  AppendGroup(table, Group::kOutput, "Output and report", out);
  AppendGroup(table, Group::kTorchrun, "Of torchrun's, taken but not needed", out);
}

}  // namespace

std::string MainHelp() {
  return R"text(muster starts, watches and restarts a distributed training job.

Usage: muster COMMAND ...

  muster run [options] [--] SCRIPT [ARGS]
      One node of a job: the same command on every node. The nodes find each
      other at the primary's address, which the platform (CLUSTER_SPEC) or the
      options name, agree on ranks, start their workers and restart all of them
      when a worker or a node fails.
  muster local --nodes N [options] SCRIPT [ARGS]
      The same with N nodes on this machine, to try out a multi-node job.
  muster coordinator --nnodes N|MIN:MAX [options]
      The coordinator alone, for jobs in which no node may be irreplaceable.
  muster env [--json] [--check] [options]
      What was found, where, and what follows from it; with --check, what would
      go wrong. Starts nothing.
  muster hostfile [--slots N] [options]
      The nodes of the job as DeepSpeed's hostfile, "HOST slots=N" each.
  muster version

muster COMMAND --help says more. A link to muster that is named torchrun or
deepspeed takes that one's options. To have the shell complete options:
eval "$(muster run --print-completion bash)", or zsh.

Exit codes:
  0          every worker exited 0
  worker's   the code of the worker that failed first, or 128 + its signal
  64, 65     wrong command line; wrong environment
  69         primary not reached, too few nodes in time, or too many lost
  70         a fault of muster's
  75         asked to leave; worth a retry
  77         refused by the primary: token, run id
  93         no progress; not worth a retry
  126, 127   the program is not executable; not found
  130        cancelled at the terminal
)text";
}

std::string RunHelp(std::string_view command) {
  std::string out = absl::StrCat("Usage: ", AsAbsl(command), " [options] [--] SCRIPT [ARGS]\n");
  if (command != "muster run") out += "\nmuster, called by this name, takes torchrun's options and its own.\n";
  out += absl::StrReplaceAll(R"(
Runs this node's workers of a job. Everything after SCRIPT belongs to it.

  COMMAND train.py                              in a container of every node
  COMMAND --nproc-per-node gpu train.py         on one machine, all its GPUs
  COMMAND --nnodes 2 --node-rank 1 --master-addr A train.py
  COMMAND --nnodes 2:4 --rdzv-endpoint A:29400 --rdzv-id job1 train.py
)",
                             {{"COMMAND", AsAbsl(command)}});
  out += R"(
Each option may be given as a variable, MUSTER_NODE_RANK for --node-rank; those
of torchrun also as PET_NODE_RANK. The command line comes first, then MUSTER_,
then PET_, then the platform. Dashes and underscores are alike.
)";
  AppendOptions(&out);
  out += R"(
Variables without an option:
  MUSTER_TOKEN                A shared secret: nodes without it are refused. It
                              travels in clear: there is no TLS.
  MUSTER_LOG_LEVEL            debug, info, warning or error. Default info.
  MUSTER_SUBDOMAIN            Kubernetes: the headless Service by which pods
                              have names, where /etc/hosts does not tell it.
  MUSTER_PODS_PER_JOB         A JobSet of several jobs: the pods of each.
  MUSTER_JOB_INDEX            And which job this is (job-global-index), where
                              the host name does not tell it.
  MUSTER_SAGEMAKER_CONFIG     SageMaker: another resourceconfig.json than that
                              in /opt/ml/input/config.
  MUSTER_SAGEMAKER_FAILURE    And another file than /opt/ml/output/failure.
)";
  return out;
}

std::string DeepspeedHelp() {
  std::string out = R"(Usage: deepspeed [options] SCRIPT [ARGS]

muster, called by this name, takes DeepSpeed's options. There is no SSH: with
several hosts start the same line on each of them, and each finds its place in
the hostfile (or give --node_rank). What muster can do beside: muster run -h.
)";
  const auto& table = DeepspeedOptions();
  AppendGroup(table, Group::kMembership, "Hosts", &out);
  AppendGroup(table, Group::kWorkers, "Workers", &out);
  AppendGroup(table, Group::kProgram, "What is run", &out);
  AppendGroup(table, Group::kOutput, "Output", &out);
  AppendGroup(table, Group::kTorchrun, "Taken but not needed", &out);
  return out;
}

std::string LocalHelp() {
  std::string out = R"(Usage: muster local --nodes N [options] SCRIPT [ARGS]

Runs N nodes on this machine, each on a loopback address of its own and with a
CLUSTER_SPEC made for it, as a platform would. Before each line stands the node,
and the rank of the worker that wrote it. The accelerators are divided among the
nodes. Ctrl-C ends all, a second one at once. The exit code is that of the
first node that has another than 0.

  muster local --nodes 3 --nproc-per-node 2 train.py --epochs 2

--nodes N, and every option of muster run (see muster run --help) but those that
say who is in the job. --nnodes MIN:MAX is allowed; nodes above MAX are spares.
As on a platform, --max-restarts is 3 where it is not given.
)";
  return out;
}

std::string CoordinatorHelp() {
  std::string out = R"(Usage: muster coordinator --nnodes N|MIN:MAX [options]

The coordinator of a job alone, where no node is to be the one that must not be
lost. The nodes run: muster run --coordinator HOST:PORT --nnodes ... SCRIPT

It keeps nothing on disk. Killed and started again, with the same options, it
learns the job from the nodes: no worker notices if that takes less than two
thirds of the lease; else the group is restarted once it is back. A --lease of
two minutes gives a cluster the time to reschedule it. Its exit code is the
job's. How often to go on is said here, not to the nodes; --progress-file alone
is said to them, since they see that file.

Where nodes have no --node-rank, its first round waits for a lease and a second:
it cannot know whether nodes that are out of reach still run an earlier one.

  muster coordinator --nnodes 2:4 --rdzv-id job1 --listen 29400 --lease 2m
  muster run --coordinator c.example:29400 --nnodes 2:4 --rdzv-id job1 train.py
)";
  const auto& table = CoordinatorCommandOptions();
  AppendGroup(table, Group::kOther, "Where", &out);
  AppendGroup(table, Group::kMembership, "Who is in the job", &out);
  AppendGroup(table, Group::kRestarts, "How often to go on", &out);
  AppendGroup(table, Group::kTimes, "Times (seconds, or 500ms, 20s, 5m, 1h)", &out);
  AppendGroup(table, Group::kOutput, "Output", &out);
  out += R"(
MUSTER_TOKEN and MUSTER_LOG_LEVEL are those of muster run.
)";
  return out;
}

std::string HostfileHelp() {
  std::string out = R"(Usage: muster hostfile [--slots N] [options of muster run]

Prints the nodes of the job that `muster run` would join, in the order of their
ranks, as DeepSpeed's hostfile: for tools that want one. Nothing is started.
)";
  AppendGroup(HostfileCommandOptions(), Group::kOther, "Beside the options of muster run", &out);
  return out;
}

std::string EnvHelp() {
  return R"(Usage: muster env [--json] [--check] [options of muster run]

Prints what was found, where, and what follows: platform, primary, this node's
place, interpreter, accelerators, and every setting with where it came from.
Starts nothing and connects to nobody. Values of variables that are named like
secrets are masked. --json prints one JSON object.

--check looks for what would go wrong: it resolves the primary's name, tries its
port and compares its clock, compares workers and accelerators, and looks at
/dev/shm and at what the kernel ends when memory runs out. It exits with 0 if
nothing looks wrong, with 69 if the primary cannot be reached or refuses this
node, with 1 for anything else, and with 65 if what the platform says cannot be
read.
)";
}

}  // namespace muster::cli
