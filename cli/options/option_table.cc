#include "cli/options/option_table.h"

#include <algorithm>
#include <iterator>

namespace muster::cli {

const std::vector<OptionSpec>& RunOptions() {
  using enum Group;
  static const auto* const table = new std::vector<OptionSpec>{
      {"nnodes", "N|MIN:MAX", kMembership, true,
       "Number of nodes in the job. With MIN:MAX any number in that range will do; nodes above MAX are spares. "
       "Default: all nodes that the platform names, else 1."},
      {"node-rank", "RANK", kMembership, true,
       "Rank of this node, from 0; node 0 is the primary. With neither --master-addr nor --rdzv-endpoint all "
       "nodes are assumed to be on this machine, as under torchrun. Default: from the platform."},
      {"master-addr", "HOST", kMembership, true,
       "Address of the primary, to which all nodes connect. Default: from the platform."},
      {"master-port", "PORT", kMembership, true,
       "Port on which the primary listens. (The workers' MASTER_PORT is set with --worker-port.) Default: 29500, "
       "or the platform's."},
      {"rdzv-endpoint", "HOST[:PORT]", kMembership, true,
       "Address and port of the primary in one value, IPv6 in brackets; the node that has this address is the "
       "primary. localhost:0 means --standalone. Default port: 29400."},
      {"coordinator", "HOST[:PORT]", kMembership, false,
       "Address of a separate coordinator (muster coordinator); no node is the primary. Default port: 29400."},
      {"rdzv-id", "ID", kMembership, true,
       "Run id, the name of the job; nodes with another run id are refused. "
       "Default: from the platform, else none."},
      {"standalone", "", kMembership, true,
       "Run a job of one node that listens on no port. Default if nothing names other nodes."},
      {"pools", "trainers|all", kMembership, false,
       "Vertex AI worker pools that train: pools 0 and 1, or all; the others wait and end with the job. "
       "Default: trainers."},
      {"instance-groups", "NAMES", kMembership, false,
       "SageMaker instance groups that train, separated by commas; the others wait and end with the job. "
       "Default: all."},
      {"hostfile", "FILE", kMembership, false,
       "File that lists the hosts of the job, one line of HOST slots=N each, as for DeepSpeed; the first host is "
       "the primary. A node finds itself by its name or addresses, else by --node-rank. Default: /job/hostfile if "
       "no other source applies."},
      {"include", "HOST[:SLOTS][@...]", kMembership, false,
       "Hosts or slots of the hostfile to use. Default: all."},
      {"exclude", "HOST[:SLOTS][@...]", kMembership, false,
       "Hosts or slots to leave out of the hostfile. Default: none."},
      {"source", "NAME", kMembership, false,
       "Source of this node's rank, if several apply: SOURCES. Two that contradict each other are refused unless "
       "this option chooses one. Default: the first that applies."},
      {"local-addr", "ADDRESS", kMembership, true,
       "Address under which other nodes reach the workers of this one. Default: that of the connection to "
       "the primary."},
      {"nproc-per-node", "N|auto|gpu|cpu|xpu|npu|hpu", kWorkers, true,
       "Number of workers on this node. auto: one per accelerator, or one per CPU if there is none. Default: 1; "
       "on a platform one per accelerator."},
      {"worker-port", "LO:HI", kWorkers, false,
       "Port range for the workers' MASTER_PORT. Default: any free port."},
      {"stdin", "all|none|RANK", kWorkers, false,
       "Workers that read muster's standard input, for example for breakpoint(): all, none, or one by its global "
       "rank. Default: the only worker of a node; of several, all if it is a terminal with muster in the "
       "foreground, else none."},
      {"role", "NAME", kWorkers, true, "Role name of this node's workers (ROLE_NAME). Default: default."},
      {"max-restarts", "N", kRestarts, true,
       "Maximum number of group restarts after worker failures, in the whole job. Default: 0; on a platform 3."},
      {"restart-window", "TIME", kRestarts, false,
       "Period within which failures count toward --max-restarts. Default: the whole job."},
      {"restart-delay", "TIME", kRestarts, false,
       "Delay before a restart after the second failure in a row within a minute of the start; each further one "
       "doubles it, up to 1m. A random part, at most half, is subtracted. The first such failure has no delay. "
       "Default: 1s."},
      {"max-node-losses", "N[/TIME]", kRestarts, false,
       "Maximum number of group restarts after node losses within TIME. Default: 10/1h."},
      {"progress-file", "FILE", kRestarts, false,
       "File that the training touches at each checkpoint; after three restarts without a touch the job ends with "
       "exit code 93. Give it on every node, or on one that sees the file. Default: none."},
      {"max-membership-changes", "N", kRestarts, false,
       "Maximum number of consecutive restarts because nodes joined or left, without progress: a touch of the "
       "progress file, or else a round of 5 minutes. Beyond it the job ends with exit code 93. 0: no limit. "
       "Default: 20."},
      {"exclude-after", "N", kRestarts, false,
       "Number of consecutive failures after which a node is excluded: its workers were the first to fail N times "
       "in a row, and the other nodes or spares suffice. 0: never. Default: 0."},
      {"exclude-for", "TIME", kRestarts, false, "Duration of an exclusion by --exclude-after. Default: 1h."},
      {"preflight", "CMD", kRestarts, false,
       "Shell command that each node runs before it joins, and again before each further round. A node on which "
       "it fails takes part in no round and tries again after 10 s, 20 s, ... 5 min; a spare takes its place. "
       "Default: none."},
      {"preflight-timeout", "TIME", kRestarts, false,
       "Time limit for --preflight; exceeding it counts as a failure. Default: 1m."},
      {"gpu-release-timeout", "TIME", kRestarts, false,
       "Time limit for ended workers to disappear from nvidia-smi's list, which a node with NVIDIA GPUs checks "
       "before a further round; exceeding it counts as a failed preflight. 0: no check. Default: 30s."},
      {"join-settle", "TIME", kRestarts, false,
       "Delay from a new node's arrival to the restart that includes it, so that several nodes cost one restart. "
       "Default: 5s."},
      {"scale-up", "immediate|on-restart|never", kRestarts, false,
       "Policy for new nodes: a restart of their own, inclusion in the next restart, or only as replacements of "
       "lost nodes. Default: immediate."},
      {"node-unit", "K", kRestarts, false,
       "Unit of the group's size: each round has a multiple of K nodes. MIN and MAX must be multiples of K. "
       "Default: 1."},
      {"join-timeout", "TIME", kTimes, false,
       "Time limit for the first gathering of nodes; never less than the lease. Default: 10m."},
      {"last-call-timeout", "TIME", kTimes, false,
       "Time to wait for more nodes once MIN are ready, with MIN:MAX. Default: 30s; on a platform 5s."},
      {"rejoin-timeout", "TIME", kTimes, false,
       "Time limit for the replacement of a lost node. Then the round starts if MIN nodes are ready, else the job "
       "ends with exit code 69. Default: 30m; on Slurm, which replaces none, 5m."},
      {"coordinator-timeout", "TIME", kTimes, false,
       "Time limit for reaching a primary or coordinator that was lost. Default: 15m; on Slurm 5m."},
      {"lease", "TIME", kTimes, false,
       "Time within which a node that is cut off has ended its workers; at least 1s. Default: 10s; longer for "
       "more than 2333 nodes (20s for 5000), so that all of them can reach a restarted coordinator in time."},
      {"heartbeat-interval", "TIME", kTimes, false,
       "Time between two messages of an idle node; at most a quarter of the lease. Default: 500ms, longer in very "
       "large jobs."},
      {"reconnect-grace", "TIME", kTimes, false,
       "Grace period for a node to reconnect before the others are restarted; less than the lease. Default: 2s, "
       "at most half of the lease."},
      {"shutdown-timeout", "TIME", kTimes, true,
       "Grace period between SIGTERM and SIGKILL in a group restart. Default: 30s."},
      {"termination-grace", "TIME", kTimes, false,
       "Grace period between SIGTERM and SIGKILL when muster is asked to stop. Default: 8s on Vertex AI and as a "
       "container's first process, 25s on Kubernetes and Slurm, 110s on SageMaker, 10s with --preemption-notice "
       "gce or aws, else 30s."},
      {"retryable-exit-code", "CODE", kTimes, false,
       "Exit code that replaces 69 and 75, which are no fault of the training code, so that the platform retries "
       "the job. 0: keep 69 and 75. Default: 134 on Vertex AI, 143 in Kubeflow, else 0."},
      {"preemption-notice", "off|gce|aws|auto|file:PATH", kTimes, false,
       "Source of notices that this machine is about to end; the node then leaves as after SIGTERM. gce, aws: the "
       "metadata server. file: PATH appears, is touched or is no longer empty. auto: gce or aws if the firmware "
       "(DMI) identifies such a machine. Default: off."},
      {"stop-before", "TIME", kTimes, false,
       "Time before the deadline at which the node leaves as after SIGTERM; 0: never. Its workers have this time "
       "less one second to end, instead of --termination-grace. Default: 1m if --deadline is given."},
      {"deadline", "WHEN", kTimes, false,
       "Time at which this node must have ended: 2026-11-21T16:00:00Z, or seconds since 1970. Default: "
       "SLURM_JOB_END_TIME if --stop-before is given."},
      {"module", "", kProgram, true, "Run SCRIPT as a Python module, like python -m.", 'm'},
      {"no-python", "", kProgram, true, "Run SCRIPT as a program of its own, without Python."},
      {"run-path", "", kProgram, true, "Run SCRIPT by runpy.run_path in each worker's interpreter."},
      {"python", "PATH", kProgram, false,
       "Python interpreter; the variable PYTHON_EXEC takes precedence. Default: beside muster, in $VIRTUAL_ENV, "
       "in $CONDA_PREFIX, or the first on PATH."},
      {"hyperparameters-as-args", "", kProgram, false,
       "Pass each SageMaker hyperparameter to the script as --NAME VALUE, after its own arguments."},
      {"pass-local-rank", "[=NAME]", kProgram, false,
       "Pass --local-rank=N, or --NAME=N, to each worker before the script's arguments, as "
       "torch.distributed.launch and deepspeed do."},
      {"signals-to-handle", "NAMES", kProgram, true,
       "Signals that ask the node to leave, separated by commas. Default: SIGTERM,SIGINT,SIGHUP,SIGQUIT."},
      {"log-dir", "DIR", kOutput, true,
       "Directory for the workers' files: DIR/RUN_random/attempt_N/LOCAL_RANK/stdout.log, stderr.log, error.json. "
       "/dev/null: no files. Default: a temporary directory."},
      {"redirects", "STREAMS", kOutput, true,
       "Streams written to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both; or by local rank, "
       "0:1,12:3. Default: 0.",
       'r'},
      {"tee", "STREAMS", kOutput, true,
       "Streams written to files and, line by line with a prefix, to the console; values as for --redirects. "
       "Default: 0.",
       't'},
      {"local-ranks-filter", "RANKS", kOutput, true,
       "Local ranks whose output is shown on the console, such as 0,1. Default: all."},
      {"duplicate-stdout-filters", "TEXTS", kOutput, true,
       "Texts, separated by commas; lines of --tee that contain one of them are copied to filtered_stdout.log. "
       "\",,\" is a comma. Default: none."},
      {"duplicate-stderr-filters", "TEXTS", kOutput, true,
       "Texts that select lines for filtered_stderr.log in the same way. Default: none."},
      {"log-line-prefix-template", "TEXT", kOutput, true,
       "Prefix of the lines of --tee, with ${role_name}, ${local_rank}, ${rank}, ${node_rank}, ${hostname}. "
       "Default: [${role_name}${local_rank}]:"},
      {"log-max-size", "SIZE", kOutput, false,
       "Size limit of each worker's file: 500k, 20M, 1G; beyond it the oldest half is dropped. "
       "Default: no limit."},
      {"log-format", "text|json", kOutput, false,
       "Format of muster's own lines. json: one object each (severity, time, message, event and so on). "
       "Default: text."},
      {"log-streams", "stderr|split", kOutput, false,
       "Streams for muster's own lines. split: lines below a warning go to standard output. Default: stderr; "
       "split on Vertex AI, which takes all of standard error for errors."},
      {"report", "FILE", kOutput, false,
       "File for a JSON report on the end of the job; its name may contain ${node_rank} and ${hostname}. "
       "Default: none."},
      {"print-completion", "bash|zsh", kOutput, true,
       "Print a script that lets the shell complete these options."},
      {"virtual-local-rank", "", kWorkers, true,
       "Set LOCAL_RANK to 0 in every worker, and CUDA_VISIBLE_DEVICES to its one device."},
      {"numa-binding", "node|socket|exclusive|core-complex", kWorkers, true,
       "Bind each worker to the CPUs near its GPU. Default: no binding."},
      {"rdzv-backend", "NAME", kTorchrun, true,
       "Rendezvous backend: static, c10d, etcd or etcd-v2, without effect; muster has one rendezvous of its own."},
      {"rdzv-conf", "K=V,...", kTorchrun, true,
       "Rendezvous settings: only join_timeout (timeout), last_call_timeout and is_host take effect."},
      {"monitor-interval", "SECONDS", kTorchrun, true, "Polling interval, without effect: nothing is polled."},
      {"start-method", "NAME", kTorchrun, true,
       "Start method: spawn, fork or forkserver, without effect; workers are always executed."},
      {"event-log-handler", "NAME", kTorchrun, true,
       "Event handler: null. Others are refused; they are Python code."},
      {"logs-specs", "NAME", kTorchrun, true, "Class for logs. Refused; it is Python code."},
  };
  return *table;
}

// The order is that of the help text.
const std::vector<VariableSpec>& OwnVariables() {
  static const auto* const table = new std::vector<VariableSpec>{
      {"TOKEN", "Shared secret; the primary refuses nodes without it. It is sent unencrypted: there is no TLS."},
      {"LOG_LEVEL", "Log level: debug, info, warning or error. Default: info."},
      {"SUBDOMAIN",
       "Kubernetes: the headless Service that gives the pods their names, if /etc/hosts does not have it."},
      {"PODS_PER_JOB", "JobSet of several jobs: number of pods of each."},
      {"JOB_INDEX", "JobSet of several jobs: index of this job (job-global-index), if the host name lacks it."},
      {"SAGEMAKER_CONFIG", "SageMaker: path of resourceconfig.json. Default: the one in /opt/ml/input/config."},
      {"SAGEMAKER_FAILURE", "SageMaker: path of the failure file. Default: /opt/ml/output/failure."},
  };
  return *table;
}

const std::vector<OptionSpec>* WithRunOptions(const std::vector<OptionSpec>& own) {
  auto* const table = new std::vector<OptionSpec>(own);
  table->insert(table->end(), RunOptions().begin(), RunOptions().end());
  return table;
}

// The options of `muster run` that concern the job as a whole, without those of a single node.
const std::vector<OptionSpec>& CoordinatorCommandOptions() {
  static const auto* const table = [] {
    auto* const chosen = new std::vector<OptionSpec>{{"listen", "PORT|HOST:PORT", Group::kOther, false,
                                                      "Port on which the coordinator listens. With a loopback "
                                                      "address it listens on this machine only, with any other on "
                                                      "all addresses. Default: 29400."}};
    for (const OptionSpec& spec : RunOptions()) {
      const bool of_the_job = spec.group == Group::kRestarts || spec.group == Group::kTimes;
      static constexpr std::string_view kOfOneNode[] = {
          "coordinator-timeout", "termination-grace",   "retryable-exit-code", "progress-file", "preflight",
          "preflight-timeout",   "gpu-release-timeout", "preemption-notice",   "stop-before",   "deadline"};
      const bool of_one_node =
          std::find(std::begin(kOfOneNode), std::end(kOfOneNode), spec.name) != std::end(kOfOneNode);
      const bool of_its_log = spec.name == "log-format" || spec.name == "log-streams";
      if (spec.name == "nnodes") {
        chosen->push_back(spec);
        chosen->back().help = "Number of nodes in the job, or minimum and maximum. Required.";
      }
      if (of_its_log || spec.name == "rdzv-id" || (of_the_job && !of_one_node)) chosen->push_back(spec);
    }
    return chosen;
  }();
  return *table;
}

bool IsRestartPolicyOption(std::string_view name) {
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
