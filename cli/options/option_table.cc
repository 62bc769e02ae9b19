#include "cli/options/option_table.h"

#include <algorithm>
#include <iterator>

namespace muster::cli {
namespace {

const std::vector<OptionSpec>* With(const std::vector<OptionSpec>& extra) {
  auto* const table = new std::vector<OptionSpec>(extra);
  table->insert(table->end(), RunOptions().begin(), RunOptions().end());
  return table;
}

}  // namespace

const std::vector<OptionSpec>& RunOptions() {
  using enum Group;
  static const auto* const table = new std::vector<OptionSpec>{
      {"nnodes", "N|MIN:MAX", kMembership, true,
       "Nodes of the job. With MIN:MAX it starts with MIN and goes on while MIN are left. Default: all places "
       "that the platform names, else 1."},
      {"node-rank", "RANK", kMembership, true,
       "This node's place, from 0. Node 0 is the primary. Without --master-addr or --rdzv-endpoint all nodes are "
       "taken to be on this machine, as torchrun has it."},
      {"master-addr", "HOST", kMembership, true, "Address of the primary, to which all nodes connect."},
      {"master-port", "PORT", kMembership, true,
       "Port on which the primary listens. Default 29500, or what the platform says. (The port of the workers' "
       "own MASTER_PORT is --worker-port.)"},
      {"rdzv-endpoint", "HOST[:PORT]", kMembership, true,
       "The primary, as one value; IPv6 in brackets; default port 29400. The node whose own address it is serves. "
       "localhost:0 means --standalone."},
      {"coordinator", "HOST[:PORT]", kMembership, false,
       "A coordinator that runs by itself (muster coordinator): no node serves. Default port 29400."},
      {"rdzv-id", "ID", kMembership, true, "Name of the run: nodes with another name are refused."},
      {"standalone", "", kMembership, true, "One node, nothing listens. The default where nothing else is found."},
      {"pools", "trainers|all", kMembership, false,
       "Vertex AI: which worker pools train. Default: pools 0 and 1; the others end with the job."},
      {"instance-groups", "NAMES", kMembership, false,
       "SageMaker: only hosts of these instance groups train, with commas. Default: all; the others end with the "
       "job."},
      {"hostfile", "FILE", kMembership, false,
       "Who is in the job: lines of HOST slots=N, as DeepSpeed has it; the first is the primary. This node finds "
       "itself by its name and addresses, or by --node-rank. Default, where nothing else fits: /job/hostfile."},
      {"include", "HOST[:SLOTS][@...]", kMembership, false,
       "Of the hostfile only these hosts, or these of their slots."},
      {"exclude", "HOST[:SLOTS][@...]", kMembership, false, "Of the hostfile not these."},
      {"source", "NAME", kMembership, false,
       "Who says which node this is, where several could: SOURCES. Default: the first that fits; two that "
       "contradict each other are refused."},
      {"local-addr", "ADDRESS", kMembership, true,
       "The address under which other nodes reach this one's workers. Default: that of the connection to the "
       "primary."},
      {"nproc-per-node", "N|auto|gpu|cpu|xpu|npu|hpu", kWorkers, true,
       "Workers to start here. auto: one for each accelerator, or for each CPU where there is none. Default 1; "
       "on a platform one for each accelerator."},
      {"worker-port", "LO:HI", kWorkers, false, "Ports to take the workers' MASTER_PORT from. Default: any."},
      {"stdin", "all|none|RANK", kWorkers, false,
       "Workers that get muster's standard input, as for breakpoint(): all, none, or one by its global rank. "
       "Default: a node's only worker; of several all, where it is a terminal with muster in its foreground."},
      {"role", "NAME", kWorkers, true, "Role of this node's workers (ROLE_NAME). Default: default."},
      {"max-restarts", "N", kRestarts, true,
       "Restarts of the whole group after a worker's failure, for the whole job. Default 0; on a platform 3."},
      {"restart-window", "TIME", kRestarts, false,
       "Only failures within this time count for --max-restarts. Default: all of them."},
      {"restart-delay", "TIME", kRestarts, false,
       "Before the restart after a second failure within a minute of the start, and twice that after each further "
       "one, up to a minute; a random half of it is left out. The first has none. Default 1s."},
      {"max-node-losses", "N[/TIME]", kRestarts, false,
       "Restarts after the loss of a node, within TIME. Default 10/1h."},
      {"progress-file", "FILE", kRestarts, false,
       "A file that the training touches at each checkpoint; said to every node, or to one that sees the file. "
       "After three restarts without a touch the job ends with 93."},
      {"max-membership-changes", "N", kRestarts, false,
       "Restarts in a row because nodes came or went, without progress: a touch of the progress file, or else a "
       "round of 5 minutes. Then the job ends with 93. 0: any number. Default 20."},
      {"exclude-after", "N", kRestarts, false,
       "A node whose workers were the first to fail N times in a row is set aside, while the others, or spares, "
       "suffice. Default 0: never."},
      {"exclude-for", "TIME", kRestarts, false, "For how long. Default 1h."},
      {"preflight", "CMD", kRestarts, false,
       "A shell line that each node runs before it joins, and again before each further round. A node where it "
       "fails takes part in none, a spare takes its place, and it is tried again after 10 s, 20 s, ... 5 min."},
      {"preflight-timeout", "TIME", kRestarts, false, "For it; then it has failed. Default 1m."},
      {"gpu-release-timeout", "TIME", kRestarts, false,
       "NVIDIA GPUs: for workers that have ended to be gone from nvidia-smi's list; until then the node takes "
       "part in "
       "no further round. 0: nobody looks. Default 30s."},
      {"join-settle", "TIME", kRestarts, false,
       "From a new node's arrival to the restart that takes it in, so that many cost one. Default 5s."},
      {"scale-up", "immediate|on-restart|never", kRestarts, false,
       "New nodes are taken in by a restart of their own, or wait for the next one, or only replace lost nodes. "
       "Default immediate."},
      {"node-unit", "K", kRestarts, false,
       "The group always has a multiple of K nodes; MIN and MAX are such too. Default 1."},
      {"join-timeout", "TIME", kTimes, false,
       "For the first gathering of all nodes; never less than the lease. Default 10m."},
      {"last-call-timeout", "TIME", kTimes, false,
       "With MIN:MAX, for more nodes once MIN are there. Default 30s; on a platform 5s."},
      {"rejoin-timeout", "TIME", kTimes, false,
       "Time limit for a lost node to be replaced before the next round. Then the round starts if MIN nodes "
       "are ready, or the job ends with 69. Default: 30m; on Slurm, which starts none, 5m."},
      {"coordinator-timeout", "TIME", kTimes, false,
       "How long a node tries to reach a primary that it has lost. Default 15m; on Slurm 5m."},
      {"lease", "TIME", kTimes, false,
       "A node that is cut off has ended its workers when this has passed, at least 1s. Default 10s; longer for "
       "more than 2333 nodes (20s for 5000), so that all can reach a restarted coordinator in time."},
      {"heartbeat-interval", "TIME", kTimes, false,
       "Between two messages of a quiet node. Default 500ms, more in very large jobs; at most a quarter of the "
       "lease."},
      {"reconnect-grace", "TIME", kTimes, false,
       "Between a lost connection and the restart of the others. Default: 2s, at most half of the lease."},
      {"shutdown-timeout", "TIME", kTimes, true,
       "Between SIGTERM and SIGKILL when the group is restarted. Default 30s."},
      {"termination-grace", "TIME", kTimes, false,
       "Between SIGTERM and SIGKILL when muster is asked to stop. Default 8s on Vertex AI and as a container's "
       "first process, 25s on Kubernetes and Slurm, 110s on SageMaker, 10s with --preemption-notice gce or aws, "
       "else 30s."},
      {"retryable-exit-code", "CODE", kTimes, false,
       "The exit code where the end is no fault of the training code (69, 75): platforms run the job again that "
       "ends with it. Default 134 on Vertex AI, 143 in Kubeflow; 0: 69 and 75 stay."},
      {"preemption-notice", "off|gce|aws|auto|file:PATH", kTimes, false,
       "Leave, as after SIGTERM, when this machine's end is announced: by the metadata server of GCE or EC2, or "
       "by a file that appears, is touched or is no longer empty. auto: gce or aws where the firmware (DMI) says "
       "that this is such a machine. Default off."},
      {"stop-before", "TIME", kTimes, false,
       "Leave, as after SIGTERM, so long before the deadline; 0: never. The workers have that time, less a "
       "second, to end in, not --termination-grace. Default 1m where --deadline is given."},
      {"deadline", "WHEN", kTimes, false,
       "When this node's time is over: 2026-11-21T16:00:00Z, or seconds since 1970. Default, with --stop-before: "
       "SLURM_JOB_END_TIME."},
      {"module", "", kProgram, true, "SCRIPT is a Python module, as with python -m.", 'm'},
      {"no-python", "", kProgram, true, "SCRIPT is a program of its own, not Python."},
      {"run-path", "", kProgram, true, "SCRIPT is run by runpy.run_path in each worker's interpreter."},
      {"python", "PATH", kProgram, false, "The interpreter. The variable PYTHON_EXEC comes before it."},
      {"hyperparameters-as-args", "", kProgram, false,
       "SageMaker: each hyperparameter is passed to the script as --NAME VALUE, behind its own arguments."},
      {"pass-local-rank", "[=NAME]", kProgram, false,
       "Each worker gets --local-rank=N before its arguments, or --NAME=N: for scripts of "
       "torch.distributed.launch and of deepspeed."},
      {"signals-to-handle", "NAMES", kProgram, true,
       "Signals that mean leave, with commas. Default SIGTERM,SIGINT,SIGHUP,SIGQUIT."},
      {"log-dir", "DIR", kOutput, true,
       "Folder for the workers' files: DIR/RUN_random/attempt_N/LOCAL_RANK/stdout.log, stderr.log, error.json. "
       "/dev/null: no files at all."},
      {"redirects", "STREAMS", kOutput, true,
       "To files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both; or by local rank, 0:1,12:3.", 'r'},
      {"tee", "STREAMS", kOutput, true, "To files and to the console, line by line with a prefix; as --redirects.",
       't'},
      {"local-ranks-filter", "RANKS", kOutput, true, "Only these local ranks show on the console: 0,1."},
      {"duplicate-stdout-filters", "TEXTS", kOutput, true,
       "Lines of --tee that contain one of these texts are copied to filtered_stdout.log; ,, is a comma."},
      {"duplicate-stderr-filters", "TEXTS", kOutput, true, "The same for filtered_stderr.log."},
      {"log-line-prefix-template", "TEXT", kOutput, true,
       "Of --tee: ${role_name}, ${local_rank}, ${rank}, ${node_rank}, ${hostname}. Default "
       "[${role_name}${local_rank}]:"},
      {"log-max-size", "SIZE", kOutput, false,
       "Of each worker's file: 500k, 20M, 1G; the oldest half goes first. Default: no limit."},
      {"log-format", "text|json", kOutput, false,
       "Of muster's own lines. json: one object each (severity, time, message, event and so on). Default text."},
      {"log-streams", "stderr|split", kOutput, false,
       "Where muster's own lines go. split: what is below a warning to standard output. Default stderr; on "
       "Vertex AI, which takes standard error for errors, split."},
      {"report", "FILE", kOutput, false, "How the job ended, as JSON; ${node_rank}, ${hostname} in its name."},
      {"print-completion", "bash|zsh", kOutput, true, "Prints a script for the shell to complete these options."},
      {"virtual-local-rank", "", kWorkers, true,
       "LOCAL_RANK is 0 for every worker, and CUDA_VISIBLE_DEVICES names its one device."},
      {"numa-binding", "node|socket|exclusive|core-complex", kWorkers, true,
       "Binds each worker to the CPUs near its GPU."},
      {"rdzv-backend", "NAME", kTorchrun, true,
       "static, c10d, etcd and etcd-v2 are names for muster's one way to meet."},
      {"rdzv-conf", "K=V,...", kTorchrun, true,
       "join_timeout (timeout) and last_call_timeout are obeyed, the rest is not needed."},
      {"monitor-interval", "SECONDS", kTorchrun, true, "Nothing is polled."},
      {"start-method", "NAME", kTorchrun, true, "spawn, fork or forkserver: workers are always executed."},
      {"event-log-handler", "NAME", kTorchrun, true, "null; others are Python's and cannot be had."},
      {"logs-specs", "NAME", kTorchrun, true, "Cannot be had: it names Python code."},
  };
  return *table;
}

const std::vector<OptionSpec>& LocalOptions() {
  static const auto* const table =
      With({{"nodes", "N", Group::kOther, false, "Nodes to start on this machine. Needed."}});
  return *table;
}

const std::vector<OptionSpec>& EnvOptions() {
  static const auto* const table = With({{"json", "", Group::kOther, false, "One JSON object."},
                                         {"check", "", Group::kOther, false, "Looks for what would go wrong."}});
  return *table;
}

const std::vector<OptionSpec>& HostfileCommandOptions() {
  static const auto* const table = With({{"slots", "N", Group::kOther, false,
                                          "Of each host. Default: as a hostfile that is read says, else as many "
                                          "workers as this node would start."}});
  return *table;
}

// Of those of `muster run` what the job as a whole has: no node's own affairs.
const std::vector<OptionSpec>& CoordinatorCommandOptions() {
  static const auto* const table = [] {
    auto* const chosen = new std::vector<OptionSpec>{
        {"listen", "PORT|HOST:PORT", Group::kOther, false,
         "Where the nodes reach it. A loopback address is kept to this machine, any other means all addresses. "
         "Default 29400."}};
    for (const OptionSpec& spec : RunOptions()) {
      const bool of_the_job = spec.group == Group::kRestarts || spec.group == Group::kTimes;
      static constexpr std::string_view kOfANode[] = {
          "coordinator-timeout", "termination-grace",   "retryable-exit-code", "progress-file", "preflight",
          "preflight-timeout",   "gpu-release-timeout", "preemption-notice",   "stop-before",   "deadline"};
      const bool of_a_node = std::find(std::begin(kOfANode), std::end(kOfANode), spec.name) != std::end(kOfANode);
      const bool of_its_log = spec.name == "log-format" || spec.name == "log-streams";
      if (spec.name == "nnodes") {
        chosen->push_back(spec);
        chosen->back().help = "Nodes of the job, or the fewest and the most. Needed.";
      }
      if (of_its_log || spec.name == "rdzv-id" || (of_the_job && !of_a_node)) chosen->push_back(spec);
    }
    return chosen;
  }();
  return *table;
}

bool IsTheCoordinators(std::string_view name) {
  const OptionSpec* const spec = FindOption(CoordinatorCommandOptions(), name);
  return spec != nullptr && spec->group == Group::kRestarts;
}

const OptionSpec* FindOption(const std::vector<OptionSpec>& table, std::string_view name) {
  for (const OptionSpec& spec : table) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string VariableName(std::string_view prefix, std::string_view option) {
  std::string name(prefix);
  for (const char c : option) {
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return name;
}

}  // namespace muster::cli
