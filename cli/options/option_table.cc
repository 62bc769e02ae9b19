#include "cli/options/option_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "cli/options/option_readers.h"
#include "cli/options/output_values.h"
#include "cli/options/settings.h"
#include "cli/options/values.h"

namespace muster::cli {
namespace {

// Help texts that differ for `muster coordinator`, which belongs to no platform.
constexpr std::pair<std::string_view, std::string_view> kOnTheCoordinator[] = {
    {"nnodes", "Number of nodes in the job, or minimum and maximum. Required."},
    {"rdzv-id", "Run id, the name of the job; nodes with another run id are refused. Default: none."},
    {"max-restarts", "Maximum number of group restarts after worker failures, in the whole job. Default: 0."},
    {"join-timeout",
     "Time limit for the first gathering of nodes; at least the lease until a node has joined. The coordinator "
     "waits at least for the lease and its margin (1s and 1%), since a node that it cannot reach may still run an "
     "earlier round. Default: 10m."},
    {"last-call-timeout", "Time to wait for more nodes once MIN are ready, with MIN:MAX. Default: 30s."},
    {"rejoin-timeout",
     "Time limit for each gathering of nodes after the first round, such as the wait for the replacement of a "
     "lost node. Then the round starts if MIN nodes are ready, else the job ends with exit code 69. Default: "
     "30m."},
};

// "PORT: 1 to 65535."
std::string LimitsFor(std::string_view what, Bounds<int> bounds) {
  return absl::StrCat(AsAbsl(what), ": ", ShowBounds(bounds), ".");
}

void SetLossBudget(const LossBudget& budget, v1::NodeConfig* config) {
  config->set_max_node_losses(budget.number);
  config->set_node_loss_window_ms(absl::ToInt64Milliseconds(budget.window));
}

void SetHangTimeout(const HangTimeout& timeout, v1::NodeConfig* config) {
  config->set_hang_timeout_ms(timeout.is_learned ? -1 : absl::ToInt64Milliseconds(timeout.time));
}

}  // namespace

const std::vector<OptionSpec>& RunOptions() {
  using enum Group;
  static const auto* const table = new std::vector<OptionSpec>{
      {"nnodes", "N|MIN:MAX", kMembership, kPet | kJob,
       "Number of nodes in the job. With MIN:MAX any number in that range will do; nodes above MAX are spares. "
       "Default: all nodes that the platform names, else 1.",
       Into(&MembershipSettings::nnodes, Limited(ParseNodeRange, FromTo(kNodeCounts)))},
      {"node-rank", "RANK", kMembership, kPet,
       "Rank of this node, from 0; node 0 is the primary, unless another node has the address of --rdzv-endpoint. "
       "With neither --master-addr nor --rdzv-endpoint all nodes are assumed to be on this machine, as under "
       "torchrun. Default: from the platform.",
       Into(&MembershipSettings::node_rank, Integer(kNodeRanks))},
      {"master-addr", "HOST", kMembership, kPet | kMayBeEmpty,
       "Address of the primary, to which all nodes connect. Default: from the platform.",
       Into(&MembershipSettings::master_addr, ParsePrimaryHost)},
      {"master-port", "PORT", kMembership, kPet,
       "Port on which the primary listens. (The workers' MASTER_PORT is set with --worker-port.) Default: 29500, "
       "or the platform's. 0: any free one, for a job of one node.",
       Into(&MembershipSettings::master_port, Limited(ParsePortOrAny, FromTo(kPortsOrAny)))},
      {"rdzv-endpoint", "HOST[:PORT]", kMembership, kPet | kMayBeEmpty,
       "Address and port of the primary in one value, IPv6 in brackets; the node that has this address is the "
       "primary. localhost:0 means --standalone. Default port: 29400.",
       Into(&MembershipSettings::rdzv_endpoint, Limited(ParseHostPort, LimitsFor("PORT", kPortsOrAny)))},
      {"coordinator", "HOST[:PORT]", kMembership, kOwn,
       "Address of a separate coordinator (muster coordinator); no node is the primary. Default port: 29400.",
       Into(&MembershipSettings::coordinator, Limited(ParseCoordinator, LimitsFor("PORT", kPorts)))},
      {"rdzv-id", "ID", kMembership, kPet | kJob | kMayBeEmpty,
       "Run id, the name of the job; nodes with another run id are refused. "
       "Default: from the platform, else none.",
       Into(&MembershipSettings::rdzv_id, Text)},
      {"standalone", "", kMembership, kPet,
       "Run a job of one node that listens on no port. Default if nothing names other nodes.",
       Switch(&MembershipSettings::standalone)},
      {"pools", "trainers|all", kMembership, kOwn,
       "Vertex AI worker pools that train: pools 0 and 1, or all; the others wait and end with the job. "
       "Default: trainers.",
       Into(&MembershipSettings::all_pools, OneOf("all", "trainers"))},
      {"instance-groups", "NAMES", kMembership, kOwn,
       "SageMaker instance groups that train, separated by commas; the others wait and end with the job. "
       "Default: all.",
       Into(&MembershipSettings::instance_groups, Text)},
      {"hostfile", "FILE", kMembership, kOwn,
       "File that lists the hosts of the job, one line of HOST slots=N each, as for DeepSpeed; the first host is "
       "the primary. A node finds itself by its name or addresses, else by --node-rank. Default: /job/hostfile if "
       "no other source applies.",
       Into(&MembershipSettings::hostfile, Text)},
      {"include", "HOST[:SLOTS][@...]", kMembership, kOwn,
       "Hosts of the hostfile to use, each with all its slots or with those that are named: node0@node1:0,2. "
       "Default: all.",
       Into(&MembershipSettings::include, Text)},
      {"exclude", "HOST[:SLOTS][@...]", kMembership, kOwn,
       "Hosts of the hostfile to leave out, or only their slots that are named. Default: none.",
       Into(&MembershipSettings::exclude, Text)},
      {"source", "NAME", kMembership, kOwn,
       "Source of this node's rank: a name from the list of sources below. If two sources apply and "
       "contradict each other, muster refuses to start unless this option chooses one. Default: the first that "
       "applies.",
       Into(&MembershipSettings::source, ParseSource)},
      {"token-file", "FILE", kMembership, kJob,
       "File that holds the token, the job's shared secret; in place of the variable MUSTER_TOKEN. It may be "
       "replaced during the job, and may hold two, one per line: the new one and the one before it. Default: "
       "none.",
       Into(&MembershipSettings::token_file, Text)},
      {"tls-cert", "FILE", kMembership, kJob,
       "Certificate of this node in PEM form, followed by those between it and its authority; in place of a "
       "token, and with --tls-key and --tls-ca. All three files may be replaced during the job. Default: none.",
       Into(&MembershipSettings::tls_cert, Text)},
      {"tls-key", "FILE", kMembership, kJob, "Private key of the certificate in PEM form, without a passphrase.",
       Into(&MembershipSettings::tls_key, Text)},
      {"tls-ca", "FILE", kMembership, kJob,
       "Authorities in PEM form: the certificate of each other node must come from one of them.",
       Into(&MembershipSettings::tls_ca, Text)},
      {"tls-name", "NAME", kMembership, kJob,
       "DNS name that all certificates must have, or spiffe://DOMAIN[/PREFIX]: then they need the URI "
       "spiffe://DOMAIN[/PREFIX]/run/RUN/role/ROLE, with the role primary, or node for other nodes.",
       Into(&MembershipSettings::tls_name, Text, "muster")},
      {"local-addr", "ADDRESS", kMembership, kPet | kMayBeEmpty,
       "Address under which other nodes reach the workers of this one. Default: that of the connection to "
       "the primary.",
       Into(&MembershipSettings::local_addr, ParseHost)},
      {"nproc-per-node", "N|auto|gpu|cpu|xpu|npu|hpu", kWorkers, kPet,
       "Number of workers on this node. auto: one per accelerator, or one per CPU if there is none. Default: 1; "
       "on a platform one per accelerator.",
       Into(&WorkerSettings::nproc_per_node, Limited(ParseSlotCount, LimitsFor("N", kSlotCounts)))},
      {"host-socket", "PATH", kWorkers, kOwn,
       "Run no workers here: they run in another container, below `muster host --socket PATH`, and this is the "
       "sidecar that connects that host to the job. Give SCRIPT there and all other options here; paths in "
       "options are "
       "those of that container.",
       Into(&WorkerSettings::host_socket, ParseSocketPath)},
      {"worker-port", "LO:HI", kWorkers, kOwn, "Port range for the workers' MASTER_PORT. Default: any free port.",
       Into(&WorkerSettings::worker_port, Limited(ParsePortRange, FromTo(kPorts)))},
      {"stdin", "all|none|RANK", kWorkers, kOwn,
       "Workers that read muster's standard input, for example for breakpoint(): all, none, or one by its global "
       "rank. Default: the only worker of a node; of several, all if it is a terminal with muster in the "
       "foreground, else none.",
       Into(&WorkerSettings::stdin_choice, Limited(ParseStdinChoice, LimitsFor("RANK", kGlobalRanks)))},
      {"debug", "RANK[:PORT]", kWorkers, kOwn,
       "Worker to start under a debugger, by its global rank. RANK: pdb, which gets the keyboard. RANK:PORT: "
       "debugpy, which listens on 127.0.0.1:PORT of that worker's node and waits until you attach. The other "
       "workers wait for it where they need it: hang detection and file timers are off, and nothing restarts "
       "by default. Give it on all nodes. Default: none.",
       Into(&WorkerSettings::debug, Limited(ParseDebugChoice, absl::StrCat(LimitsFor("RANK", kGlobalRanks), " ",
                                                                           LimitsFor("PORT", kPorts))))},
      {"preload", "MODULES|auto|off", kWorkers, kOwn,
       "Python modules (torch,torch.distributed) to import once on this node, before the first round: the workers "
       "of each round are forked from there, so that a restart does not import them again. What a forked worker "
       "would get wrong is imported by each worker as usual. auto: those that the script has imported in an "
       "earlier "
       "job with the same command, else in the first two minutes of this one.",
       Into(&WorkerSettings::preload, ParseModuleNames, "off")},
      {"role", "NAME", kWorkers, kPet | kMayBeEmpty, "Role name of this node's workers (ROLE_NAME).",
       Into(&WorkerSettings::role, ParseRole, "default")},
      {"max-restarts", "N", kRestarts, kPet | kPolicy,
       "Maximum number of group restarts after worker failures, in the whole job. Default: 0; on a platform 3.",
       Into(&RestartSettings::max_restarts, Integer(kRestartCounts))},
      {"restart-window", "TIME", kRestarts, kPolicy,
       "Period within which failures count toward --max-restarts, which then is at most @MAX_AGES@. Default: the "
       "whole job.",
       Into(&RestartSettings::restart_window, Time(kWindows))},
      {"restart-delay", "TIME", kRestarts, kPolicy,
       "Delay before a restart after the second failure in a row within a minute of the start; each further one "
       "doubles it, up to 1m. A random part, at most half, is subtracted. The first such failure has no delay.",
       IntoConfig(&v1::NodeConfig::set_restart_delay_ms, Time(), "1s")},
      {"max-node-losses", "N[/TIME]", kRestarts, kPolicy,
       "Maximum number of group restarts after node losses within TIME, or within 1h if only N is given.",
       IntoConfig(SetLossBudget,
                  Limited(ParseLossBudget, absl::StrCat(LimitsFor("N", kRestartCounts), " TIME: at least ",
                                                        muster::FormatDuration(kWindows.least), ".")),
                  "10/1h")},
      {"progress-file", "FILE", kRestarts, kOwn,
       "File that the training touches at each checkpoint; after three restarts without a touch the job ends with "
       "exit code 93. Give it on every node, or on one that sees the file. Default: none.",
       Into(&RestartSettings::progress_file, Text)},
      {"max-membership-changes", "N", kRestarts, kPolicy,
       "Maximum number of consecutive restarts because nodes joined or left, without progress: a touch of the "
       "progress file, or else a round of 5 minutes. Beyond it the job ends with exit code 93. 0: no limit.",
       IntoConfig(&v1::NodeConfig::set_max_membership_changes, Integer(kRestartCounts), "20")},
      {"exclude-after", "N", kRestarts, kPolicy,
       "Number of consecutive failures after which a node is excluded: its workers were the first to fail N times "
       "in a row, and the other nodes or spares suffice. 0: never.",
       IntoConfig(&v1::NodeConfig::set_exclude_after, Integer(kRestartCounts), "0")},
      {"exclude-for", "TIME", kRestarts, kPolicy, "Duration of an exclusion by --exclude-after.",
       IntoConfig(&v1::NodeConfig::set_exclude_for_ms, Time(kWindows), "1h")},
      {"preflight", "CMD", kRestarts, kOwn,
       "Shell command that each node runs before it joins, and again before each further round. A node on which "
       "it fails takes part in no round and tries again after 10 s, 20 s, ... 5 min; a spare takes its place. "
       "Default: none.",
       Into(&RestartSettings::preflight, Text)},
      {"preflight-timeout", "TIME", kRestarts, kOwn,
       "Time limit for --preflight; exceeding it counts as a failure.",
       Into(&RestartSettings::preflight_timeout, Time(kCommandTimeouts), "1m")},
      {"gpu-release-timeout", "TIME", kRestarts, kOwn,
       "Time limit for ended workers to disappear from nvidia-smi's list, which a node with NVIDIA GPUs checks "
       "before a further round; exceeding it counts as a failed preflight. 0: no check. Default: 30s.",
       Into(&RestartSettings::gpu_release_timeout, Time())},
      {"join-settle", "TIME", kRestarts, kPolicy,
       "Delay from a new node's arrival to the restart that includes it, so that several nodes cost one restart.",
       IntoConfig(&v1::NodeConfig::set_join_settle_ms, Time(), "5s")},
      {"scale-up", "immediate|on-restart|never", kRestarts, kPolicy,
       "Policy for new nodes: a restart of their own, inclusion in the next restart, or only as replacements of "
       "lost nodes.",
       IntoConfig(&v1::NodeConfig::set_scale_up, ParseScaleUp, "immediate")},
      {"node-unit", "K", kRestarts, kPolicy,
       "Unit of the group's size: each round has a multiple of K nodes. MIN and MAX must be multiples of K.",
       Into(&RestartSettings::node_unit, Integer(kNodeCounts), "1")},
      {"join-timeout", "TIME", kTimes, kJob,
       "Time limit for the first gathering of nodes, and for this node's first connection to the primary, for "
       "which it is at least the lease. The primary waits at least for the lease and its margin (1s and 1%), "
       "since a node that it cannot reach may still run an earlier round. Default: @JOIN_TIMEOUTS@.",
       Into(&TimeSettings::join_timeout, Time(kJoinTimeouts))},
      {"last-call-timeout", "TIME", kTimes, kJob | kDecides,
       "Time to wait for more nodes once MIN are ready, with MIN:MAX. Default: 30s; on a platform 5s.",
       Into(&TimeSettings::last_call_timeout, Time())},
      {"rejoin-timeout", "TIME", kTimes, kJob | kDecides,
       "Time limit for each gathering of nodes after the first round, such as the wait for the replacement of a "
       "lost node. Then the round starts if MIN nodes are ready, else the job ends with exit code 69. Default: "
       "30m; on @NO_REPLACEMENT@, which replaces none, 5m.",
       Into(&TimeSettings::rejoin_timeout, Time())},
      {"hang-timeout", "TIME|auto|off", kTimes, kJob | kCompared,
       "Silence of all workers after which the job hangs: muster shows where each rank stands, and ends the one "
       "that is most likely the reason. A sign of life is output, a touch of the progress file or of the worker's "
       "MUSTER_HEARTBEAT_FILE, or a checkpoint being written. Until signs have come for about that time, "
       "--start-timeout counts. auto: ten times the longest silence so far, and at least 30m. Give it on all "
       "nodes "
       "and on a separate coordinator.",
       IntoConfig(SetHangTimeout, Limited(ParseHangTimeout, FromTo(kHangTimeouts)), "off")},
      {"start-timeout", "TIME", kTimes, kPolicy,
       "With --hang-timeout: silence of all workers that is a hang before signs of life have come for about that "
       "time, as imports, compilation and a first step may be silent for long. Default: 30m, or --hang-timeout if "
       "that is longer.",
       IntoConfig(&v1::NodeConfig::set_start_timeout_ms, Time(kHangTimeouts), {})},
      {"on-hang", "restart|stop|report", kTimes, kPolicy,
       "What follows a hang: a restart within --max-restarts, the end of the job, or nothing but the report.",
       IntoConfig(&v1::NodeConfig::set_on_hang, ParseOnHang, "restart")},
      {"coordinator-timeout", "TIME", kTimes, kOwn,
       "Time limit for reaching a primary or coordinator that was lost. Default: 15m; on @NO_REPLACEMENT@ 5m.",
       Into(&TimeSettings::coordinator_timeout, Time())},
      {"lease", "TIME", kTimes, kPolicy,
       "Time within which a node that is cut off has ended its workers. Default: 10s; longer for more than 2333 "
       "nodes (20s for 5000), so that all of them can reach a restarted coordinator in time.",
       Into(&TimeSettings::lease, Time(kLeases))},
      {"heartbeat-interval", "TIME", kTimes, kJob,
       "Time between two messages of an idle node; at most 1/@BEATS@ of the lease. Default: 500ms, longer in very "
       "large jobs.",
       Into(&TimeSettings::heartbeat_interval, Time(kBeats))},
      {"reconnect-grace", "TIME", kTimes, kJob,
       "Grace period for a node to reconnect before the others are restarted; less than the lease. Default: 2s, "
       "at most half of the lease.",
       Into(&TimeSettings::reconnect_grace, Time())},
      {"shutdown-timeout", "TIME", kTimes, kPet | kJob,
       "Grace period between SIGTERM and SIGKILL in a group restart.",
       Into(&TimeSettings::shutdown_timeout, Time(), "30s"), 0, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
      {"termination-grace", "TIME", kTimes, kOwn,
       "Grace period between SIGTERM and SIGKILL when muster is asked to stop. Default: @GRACES@, 10s with "
       "--preemption-notice gce or aws, else 30s.",
       Into(&LeavingSettings::termination_grace, Time())},
      {"retryable-exit-code", "CODE", kTimes, kOwn,
       "Exit code that replaces 69 and 75, which are no fault of the training code, so that the platform retries "
       "the job. 0: keep 69 and 75. Default: @RETRY_CODES@, else 0.",
       Into(&LeavingSettings::retryable_exit_code, Integer(kExitCodes))},
      {"preemption-notice", "off|gce|aws|auto|file:PATH", kTimes, kOwn,
       "Source of notices that this machine is about to end; the node then leaves as after SIGTERM. gce, aws: the "
       "metadata server. file: PATH appears, is touched or is no longer empty. auto: gce or aws if the firmware "
       "(DMI) identifies such a machine. Default: off.",
       Into(&LeavingSettings::preemption_notice, ParseNotice)},
      {"stop-before", "TIME", kTimes, kOwn,
       "Time before the deadline at which the node leaves as after SIGTERM; 0: never. Its workers have this time "
       "less one second to end, instead of --termination-grace. Default: 1m if --deadline is given.",
       Into(&LeavingSettings::stop_before, Time())},
      {"deadline", "WHEN", kTimes, kOwn,
       "Time at which this node must have ended: 2026-11-21T16:00:00Z, or seconds since 1970. Default: "
       "SLURM_JOB_END_TIME if --stop-before is given.",
       Into(&LeavingSettings::deadline, Limited(ParseDeadline, absl::StrCat("From ", ShowDays(kDeadlines), ".")))},
      {"module", "", kProgram, kPet, "Run SCRIPT as a Python module, like python -m.",
       Switch(&ProgramSettings::module), 'm'},
      {"no-python", "", kProgram, kPet, "Run SCRIPT as a program of its own, without Python.",
       Switch(&ProgramSettings::no_python)},
      {"run-path", "", kProgram, kPet, "Run SCRIPT by runpy.run_path in each worker's interpreter.",
       Switch(&ProgramSettings::run_path)},
      {"python", "PATH", kProgram, kOwn,
       "Python interpreter. Default: the variable PYTHON_EXEC, else that of the activated environment "
       "($VIRTUAL_ENV or $CONDA_PREFIX, if PATH leads there first), of the one from which muster was called, or "
       "the first on PATH.",
       Into(&ProgramSettings::python, Text)},
      {"hyperparameters-as-args", "", kProgram, kOwn,
       "Pass each SageMaker hyperparameter to the script as --NAME VALUE, after its own arguments.",
       Switch(&ProgramSettings::hyperparameters_as_args)},
      {"pass-local-rank", "[=NAME]", kProgram, kOwn,
       "Pass --local-rank=N, or --NAME=N, to each worker before the script's arguments, as "
       "torch.distributed.launch and deepspeed do.",
       Into(&ProgramSettings::pass_local_rank, ParseOptionName)},
      {"node-setup", "CMD", kProgram, kOwn,
       "Shell command that each node runs once, before its first round and before --preflight, for example to "
       "fetch a model. If it fails, the node takes part in no round and tries again after 10 s, 20 s, ... 5 min. "
       "Default: none.",
       Into(&HookSettings::node_setup, Text)},
      {"on-success", "CMD", kProgram, kOwn,
       "Shell command that one node runs once every worker of every node has succeeded, for example to upload a "
       "model: the node of rank 0, which is the primary unless it has left. If it fails, that node exits with its "
       "code, or with 124 after --hook-timeout. Default: none.",
       Into(&HookSettings::on_success, Text)},
      {"on-failure", "CMD", kProgram, kOwn,
       "Shell command that the same node runs once the job has failed, unless somebody asked it to end. "
       "MUSTER_EXIT_CODE, MUSTER_REASON and MUSTER_REPORT (the file of --report) say how. It changes no exit "
       "code. Default: none.",
       Into(&HookSettings::on_failure, Text)},
      {"hook-timeout", "TIME", kProgram, kOwn,
       "Time limit for --node-setup, --on-success and --on-failure, each; exceeding it counts as a failure.",
       Into(&HookSettings::hook_timeout, Time(kCommandTimeouts), "30m")},
      {"signals-to-handle", "NAMES", kProgram, kPet,
       "Signals that ask the node to leave, separated by commas. Default: SIGTERM,SIGINT,SIGHUP,SIGQUIT; these "
       "four do so even if they are left out.",
       Into(&LeavingSettings::signals_to_handle, ParseSignals)},
      {"log-dir", "DIR", kOutput, kPet | kMayBeEmpty,
       "Directory for the workers' files: DIR/RUN_random/attempt_N/LOCAL_RANK/stdout.log, stderr.log, error.json; "
       "of one of several nodes DIR/RUN_HOST_random. /dev/null: no files. Default: a temporary directory.",
       Into(&OutputSettings::log_dir, Text)},
      {"redirects", "STREAMS", kOutput, kPet,
       "Streams written to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both; or by local rank, "
       "0:1,12:3. Default: 0.",
       Into(&OutputSettings::redirects, Limited(ParseStreams, LimitsFor("Local ranks", kLocalRanks))), 'r'},
      {"tee", "STREAMS", kOutput, kPet,
       "Streams written to files and, line by line with a prefix, to the console; values as for --redirects. "
       "Default: 0.",
       Into(&OutputSettings::tee, Limited(ParseStreams, LimitsFor("Local ranks", kLocalRanks))), 't'},
      {"local-ranks-filter", "RANKS", kOutput, kPet | kMayBeEmpty,
       "Local ranks whose output is shown on the console, such as 0,1. Default: all.",
       Into(&OutputSettings::local_ranks_filter, Limited(ParseLocalRanks, FromTo(kLocalRanks)))},
      {"duplicate-stdout-filters", "TEXTS", kOutput, kPet | kMayBeEmpty | kKeepsBlanks,
       "Texts, separated by commas; lines of --tee that contain one of them are copied to filtered_stdout.log. "
       "\",,\" is a comma. Default: none.",
       Into(&OutputSettings::stdout_filters, ParseFilters)},
      {"duplicate-stderr-filters", "TEXTS", kOutput, kPet | kMayBeEmpty | kKeepsBlanks,
       "Texts that select lines for filtered_stderr.log in the same way. Default: none.",
       Into(&OutputSettings::stderr_filters, ParseFilters)},
      {"log-line-prefix-template", "TEXT", kOutput, kPet | kKeepsBlanks,
       "Prefix of the lines of --tee, with ${role_name}, ${local_rank}, ${rank}, ${node_rank}, ${hostname}. "
       "Default: [${role_name}${local_rank}]:",
       Into(&OutputSettings::line_prefix, Text), 0, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
      {"group-lines", "auto|on|off", kOutput, kOwn,
       "Whether a line that several ranks write within a second is shown once on the console, as [0-63] TEXT: "
       "equal but for pids, addresses and times of day. on: adds prefixes, as --tee does. auto: on a terminal, "
       "where lines have prefixes, and not under the name torchrun. Default: auto.",
       Into(&OutputSettings::group_lines, ParseGroupLines)},
      {"log-max-size", "SIZE", kOutput, kOwn,
       "Size limit of each worker's file: 500k, 20M, 1G; beyond it the oldest half is dropped. "
       "Default: no limit.",
       Into(&OutputSettings::log_max_size, Limited(ParseSize, absl::StrCat("From ", ShowLogSizes(), ".")))},
      {"log-format", "text|json", kOutput, kJob,
       "Format of muster's own lines. json: one object each (severity, time, message, event and so on). "
       "Default: text.",
       Into(&OutputSettings::log_json, OneOf("json", "text"))},
      {"log-streams", "stderr|split", kOutput, kJob,
       "Streams for muster's own lines. split: lines below a warning go to standard output. Default: stderr; "
       "split on @SPLIT@, which takes all of standard error for errors.",
       Into(&OutputSettings::log_split, OneOf("split", "stderr"))},
      {"report", "FILE", kOutput, kOwn,
       "File for a JSON report on the end of the job; its name may contain ${node_rank} and ${hostname}. "
       "Default: none.",
       Into(&OutputSettings::report, Text)},
      {"report-on", "concerned|all", kOutput, kOwn,
       "Nodes that print the whole report of a failed job. concerned: the primary (or the coordinator) and the "
       "node whose worker failed first; the others print two lines that name the cause and where the report is. "
       "Default: concerned.",
       Into(&OutputSettings::report_on_all, OneOf("all", "concerned"))},
      {"events", "FILE", kOutput, kJob,
       "File to which what happens to the job is appended as JSON lines, on the node whose coordinator decides. "
       "Default: none.",
       Into(&OutputSettings::events, Text)},
      {"on-event", "CMD", kOutput, kJob,
       "Shell command that is told of events, one at a time, as a JSON line on its standard input, on the same "
       "node: of warnings and errors, except refused nodes, unless --on-event-filter names others. It is killed "
       "after 30 s. Default: none.",
       Into(&OutputSettings::on_event, Text)},
      {"on-event-filter", "NAMES", kOutput, kJob,
       "Names of the events for --on-event, separated by commas (docs/events.md), or all.",
       Into(&OutputSettings::on_event_filter, ParseEventNames)},
      {"http", "PORT|IP:PORT", kOutput, kJob,
       "Serve metrics for Prometheus (/metrics), /healthz and /readyz, and a page with the state of the job "
       "(/) at this address, on the node whose coordinator decides. With an address that is not loopback it needs "
       "--http-token-file. Default IP: 127.0.0.1. Default: none.",
       Into(&OutputSettings::http, Limited(ParseHttpAddress, LimitsFor("PORT", kPortsOrAny)))},
      {"http-token-file", "FILE", kOutput, kJob,
       "File with a token that lets its holders read what --http serves, and nothing else; not that of "
       "--token-file, which never crosses plain HTTP. Default: none.",
       Into(&OutputSettings::http_token_file, Text)},
      {"print-completion", "bash|zsh|fish", kOutput, kPet | kNoVariable,
       "Print a script that lets the shell complete these options.", Checked(ParseShell)},
      {"virtual-local-rank", "", kWorkers, kPet,
       "Set LOCAL_RANK to 0 in every worker, and CUDA_VISIBLE_DEVICES to its one device.",
       Switch(&WorkerSettings::virtual_local_rank)},
      {"numa-binding", "node|socket|exclusive|core-complex", kWorkers, kPet | kNoVariable,
       "Bind each worker to the CPUs near its GPU. Default: no binding.",
       Into(&WorkerSettings::numa_binding, ParseNumaBinding)},
      {"rdzv-backend", "NAME", kTorchrun, kPet,
       "Rendezvous backend: static, c10d, etcd or etcd-v2; muster has one rendezvous of its own. Under the name "
       "torchrun any but static makes --node-rank a hint.",
       Into(&TorchrunSettings::rdzv_backend, ParseBackend)},
      {"rdzv-conf", "K=V,...", kTorchrun, kPet | kMayBeEmpty,
       "Rendezvous settings: only join_timeout (timeout), last_call_timeout and is_host take effect.",
       Into(&TorchrunSettings::rdzv_conf, Text)},
      {"monitor-interval", "SECONDS", kTorchrun, kPet, "Polling interval, without effect: nothing is polled.",
       Checked(ParseSeconds)},
      {"start-method", "NAME", kTorchrun, kPet,
       "Start method: spawn, fork or forkserver, without effect; workers are executed, or forked (--preload).",
       Checked(ParseStartMethod)},
      {"event-log-handler", "NAME", kTorchrun, kPet,
       "Event handler: null. Others are refused; they are Python code.", Checked(ParseEventLogHandler)},
      {"logs-specs", "NAME", kTorchrun, kPet | kNoVariable, "Class for logs. Refused; it is Python code.",
       Checked(RefuseLogsSpecs)},
  };
  return *table;
}

// The order is that of the help text.
const std::vector<VariableSpec>& OwnVariables() {
  static const auto* const table = new std::vector<VariableSpec>{
      {"TOKEN",
       "Shared secret: the primary refuses nodes without it, and connections are encrypted. A file (--token-file) "
       "is better: it can be replaced during the job."},
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
    auto* const chosen = new std::vector<OptionSpec>{{"listen", "PORT|HOST:PORT", Group::kOther, kOwn,
                                                      "Port on which the coordinator listens; 0: any free one. "
                                                      "With a loopback address, such as 127.0.0.1 or "
                                                      "localhost:29400, it listens on this machine only, with any "
                                                      "other on all addresses.",
                                                      ValueReader{{}, "29400", LimitsFor("PORT", kPortsOrAny)}}};
    for (const OptionSpec& spec : RunOptions()) {
      if (!spec.has(kJob)) continue;
      chosen->push_back(spec);
      for (const auto& [name, help] : kOnTheCoordinator) {
        if (spec.name == name) chosen->back().help = help;
      }
    }
    return chosen;
  }();
  return *table;
}

bool HasFlag(std::string_view option, unsigned flag) {
  const OptionSpec* const spec = FindOption(RunOptions(), option);
  return spec != nullptr && spec->has(flag);
}

}  // namespace muster::cli
