// One table of variables; everything else here selects rows of it. A variable without a row is passed through.
#include "agent/host/core/worker_environment.h"

#include <string_view>
#include <utility>
#include <vector>

namespace muster::host {
namespace {

// Whose variable it is.
enum class Scope {
  kCommand,  // commands that run once for the node
  kNode,     // these commands, and the node's workers in every round
  kWorkers,  // the node's workers in every round
  kRound,    // the node's workers in one round
  kWorker,   // one worker in one round
};

// What becomes of an inherited value.
enum class Inherited {
  kDropped,   // it is an outer launcher's or the platform's, and would be wrong even where this row has no value
  kReplaced,  // by the row's value; kept if the row has no value
  kKept,      // it is the user's choice, even if it is empty; the row's value is a default
};

struct Row {
  std::string name;
  Scope scope;
  Inherited inherited;
  std::optional<std::string> value = {};  // nullopt: not set
};

// Muster's own settings: the token is secret, and a muster that runs inside a worker is another job.
constexpr std::string_view kOwnPrefix = "MUSTER_";

// Like torchrun, muster passes PET_* settings through, except those with which a torchrun inside a worker (an
// evaluation on one node, say) would take this node's place in this job: it would connect to the coordinator's
// port and wait there for nodes that never come. The rest of the set is dropped, too, because with PET_NNODES
// alone it would wait at its own port. The same facts are in GROUP_RANK, GROUP_WORLD_SIZE and MASTER_*.
constexpr const char* kPlaceInJob[] = {"PET_MASTER_ADDR",  "PET_MASTER_PORT", "PET_NNODES",        "PET_NODE_RANK",
                                       "PET_RDZV_BACKEND", "PET_RDZV_CONF",   "PET_RDZV_ENDPOINT", "PET_RDZV_ID"};

// The user's own pipe belongs to the user's own settings: then the recorder gets none of muster's.
constexpr char kRecorderPipe[] = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";

std::optional<std::string> UnlessEmpty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// "host:port", with brackets around an IPv6 address.
std::string AddressOf(const v1::Endpoint& endpoint) {
  const bool ipv6 = endpoint.host().find(':') != std::string::npos;
  return (ipv6 ? "[" + endpoint.host() + "]" : endpoint.host()) + ":" + std::to_string(endpoint.port());
}

std::optional<std::string> If(bool condition, std::string text) {
  return condition ? std::optional(std::move(text)) : std::nullopt;
}

// The variables of torch.distributed's env:// and those that torch elastic documents.
void AddTorch(const v1::Round& round, int local_rank, const WorkerEnvironmentOptions& options,
              std::vector<Row>* rows) {
  using enum Scope;
  using enum Inherited;
  const auto n = [](auto number) { return std::to_string(number); };
  const auto error_file = If(options.files_are_forbidden || !options.error_file.empty(), options.error_file);
  rows->insert(rows->end(),
               {{"LOCAL_RANK", kWorker, kDropped, n(options.virtual_local_rank ? 0 : local_rank)},
                {"RANK", kWorker, kDropped, n(round.first_rank() + local_rank)},
                {"GROUP_RANK", kRound, kDropped, n(round.node_rank())},
                {"ROLE_RANK", kWorker, kDropped, n(round.role_first_rank() + local_rank)},
                {"ROLE_NAME", kWorkers, kReplaced, options.role_name},
                {"LOCAL_WORLD_SIZE", kNode, kReplaced, n(options.slots)},
                {"WORLD_SIZE", kRound, kDropped, n(round.world_size())},
                {"GROUP_WORLD_SIZE", kRound, kDropped, n(round.node_count())},
                {"ROLE_WORLD_SIZE", kRound, kDropped, n(round.role_world_size())},
                {"MASTER_ADDR", kRound, kDropped, round.master().host()},
                {"MASTER_PORT", kRound, kDropped, n(round.master().port())},
                {"TORCHELASTIC_RESTART_COUNT", kRound, kDropped, n(round.restart_count())},
                {"TORCHELASTIC_MAX_RESTARTS", kRound, kReplaced, n(round.max_restarts())},
                // Torch, Lightning and others take its presence as a sign that a launcher started them, before
                // they look for Slurm or Kubeflow.
                {"TORCHELASTIC_RUN_ID", kNode, kReplaced, options.run_id},
                // The agent runs no store; worker 0 serves it at MASTER_PORT.
                {"TORCHELASTIC_USE_AGENT_STORE", kWorkers, kReplaced, "False"},
                {"TORCHELASTIC_SIGNALS_TO_HANDLE", kWorkers, kReplaced, UnlessEmpty(options.signals_to_handle)},
                // An outer worker's own file would get this one's errors. Where files are forbidden it is empty,
                // as in torchrun.
                {"TORCHELASTIC_ERROR_FILE", kWorker, kDropped, error_file},
                // An outer agent's watchdog kills processes by pid: it would act on timers of this worker.
                {"TORCHELASTIC_TIMER_FILE", kWorker, kDropped, UnlessEmpty(options.timer_file)}});
}

// Defaults.
void AddDefaults(const WorkerEnvironmentOptions& options, std::vector<Row>* rows) {
  using enum Scope;
  using enum Inherited;
  const bool waits = options.waits_for_debugger;
  rows->insert(rows->end(),
               {// NCCL's watchdog ends a worker whose collective takes too long, which it does while a debugger
                // stops a peer.
                {"TORCH_NCCL_ENABLE_MONITORING", kNode, kKept, If(waits, "0")},
                {"TORCH_NCCL_ASYNC_ERROR_HANDLING", kNode, kKept, waits ? "0" : "1"},
                // A worker that crashes prints a traceback even without torch's @record.
                {"PYTHONFAULTHANDLER", kNode, kKept, "1"},
                {"PYTHONUNBUFFERED", kNode, kKept, If(options.unbuffered, "1")},
                // Workers of one node share its cores; if each used all of them, all would be slow.
                {"OMP_NUM_THREADS", kNode, kKept, If(options.slots > 1, "1")},
                // breakpoint() passes where there is no keyboard, instead of ending the worker.
                {"PYTHONBREAKPOINT", kWorker, kKept, If(options.keyboard_is_anothers, "0")}});
}

// place: of a command of the node.
std::vector<Row> Rows(const v1::Round& round, int local_rank, std::optional<int> place,
                      const WorkerEnvironmentOptions& options, const EnvironmentMap& inherited) {
  using enum Scope;
  using enum Inherited;
  std::vector<Row> rows;
  for (const char* const name : kPlaceInJob) rows.push_back({name, kNode, kDropped});
  for (const auto& [name, value] : options.platform) rows.push_back({name, kNode, kKept, value});
  AddTorch(round, local_rank, options, &rows);
  const std::string slots = std::to_string(options.slots), node_rank = std::to_string(round.node_rank());
  rows.insert(rows.end(),
              {// The names of DeepSpeed and Horovod, and NODE_RANK for Lightning and hand-written scripts.
               {"NODE_RANK", kRound, kDropped, node_rank},
               {"NODE_RANK", kCommand, kDropped, If(place.has_value(), std::to_string(place.value_or(0)))},
               {"CROSS_RANK", kRound, kDropped, node_rank},
               {"CROSS_SIZE", kRound, kDropped, std::to_string(round.node_count())},
               {"LOCAL_SIZE", kNode, kReplaced, slots},
               // The names of jax.distributed: process 0 serves JAX's coordinator, as rank 0 does torch's store.
               {"JAX_COORDINATOR_ADDRESS", kRound, kDropped, AddressOf(round.master())},
               {"JAX_NUM_PROCESSES", kRound, kDropped, std::to_string(round.world_size())},
               {"JAX_PROCESS_ID", kWorker, kDropped, std::to_string(round.first_rank() + local_rank)},
               {"NPROC", kCommand, kReplaced, slots},
               {kMarkerVariable, kNode, kReplaced, options.marker},
               {"MUSTER_DONE_FILE", kWorker, kReplaced, UnlessEmpty(options.done_file)},
               {"MUSTER_HEARTBEAT_FILE", kWorker, kReplaced, UnlessEmpty(options.heartbeat_file)}});
  AddDefaults(options, &rows);
  if (!inherited.contains(kRecorderPipe)) {
    for (const auto& [name, value] : options.recorder) rows.push_back({name, kRound, kKept, value});
  }
  if (!options.visible_devices.empty()) {
    const auto own = options.visible_devices.find(local_rank);
    rows.push_back({options.visible_devices_variable, kWorker, kReplaced,
                    own == options.visible_devices.end() ? std::nullopt : std::optional(own->second)});
  }
  return rows;
}

bool IsOfCommands(Scope scope) { return scope == Scope::kCommand || scope == Scope::kNode; }
bool IsOfWorkers(Scope scope) { return scope != Scope::kCommand; }
bool IsOfARound(Scope scope) { return scope == Scope::kRound || scope == Scope::kWorker; }

// What is left of the inherited environment, and the values of the rows that apply.
EnvironmentMap Apply(const std::vector<Row>& rows, bool (*applies)(Scope), const EnvironmentMap& inherited) {
  EnvironmentMap environment = inherited;
  std::erase_if(environment, [](const auto& variable) { return variable.first.starts_with(kOwnPrefix); });
  for (const Row& row : rows) {
    if (row.inherited == Inherited::kDropped) environment.erase(row.name);
  }
  for (const Row& row : rows) {
    if (!row.value || !applies(row.scope)) continue;
    const auto [variable, is_new] = environment.emplace(row.name, *row.value);
    if (!is_new && row.inherited != Inherited::kKept) variable->second = *row.value;
  }
  return environment;
}

}  // namespace

EnvironmentMap WorkerEnvironment(const v1::Round& round, int local_rank, const WorkerEnvironmentOptions& options,
                                 const EnvironmentMap& inherited) {
  return Apply(Rows(round, local_rank, std::nullopt, options, inherited), IsOfWorkers, inherited);
}

EnvironmentMap NodeEnvironment(const WorkerEnvironmentOptions& options, std::optional<int> place,
                               const EnvironmentMap& inherited) {
  return Apply(Rows(v1::Round(), 0, place, options, inherited), IsOfCommands, inherited);
}

std::set<std::string> VariablesOfAWorker(const WorkerEnvironmentOptions& options) {
  std::set<std::string> names;
  for (const Row& row : Rows(v1::Round(), 0, std::nullopt, options, {})) {
    if (IsOfARound(row.scope)) names.insert(row.name);
  }
  return names;
}

EnvironmentMap CommonEnvironment(const WorkerEnvironmentOptions& options, const EnvironmentMap& inherited) {
  EnvironmentMap environment = WorkerEnvironment(v1::Round(), 0, options, inherited);
  for (const std::string& name : VariablesOfAWorker(options)) environment.erase(name);
  return environment;
}

}  // namespace muster::host
