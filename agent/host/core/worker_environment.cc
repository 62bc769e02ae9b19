// Inherited variables are of four kinds: dropped, always overwritten, given a default if absent, and passed
// through. Every variable that is not named here is passed through.
#include "agent/host/core/worker_environment.h"

#include <iterator>
#include <string_view>

namespace muster::host {
namespace {

// Set by an outer launcher or by the platform for the node as a whole; their values would be wrong in a worker.
constexpr std::string_view kDropped[] = {
    // The pipe of an outer agent's watchdog, which kills processes by pid: it would act on timers of this worker.
    "TORCHELASTIC_TIMER_FILE",
    // An outer worker's own error file; the worker's own is set below if there is one.
    "TORCHELASTIC_ERROR_FILE",
    // Like torchrun, muster passes PET_* settings through, except those with which a torchrun inside a worker (an
    // evaluation on one node, say) would take this node's place in this job: it would connect to the coordinator's
    // port and wait there for nodes that never come. The rest of the set is dropped, too, because with PET_NNODES
    // alone it would wait at its own port. The same facts are in GROUP_RANK, GROUP_WORLD_SIZE and MASTER_*.
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_RDZV_BACKEND",
    "PET_RDZV_CONF",
    "PET_RDZV_ENDPOINT",
    "PET_RDZV_ID",
};

// Muster's own settings: the token is secret, and a muster that runs inside a worker is another job.
constexpr std::string_view kOwnPrefix = "MUSTER_";

bool IsDropped(std::string_view name) {
  if (name.starts_with(kOwnPrefix)) return true;
  for (const std::string_view dropped : kDropped) {
    if (name == dropped) return true;
  }
  return false;
}

EnvironmentMap Kept(const EnvironmentMap& inherited) {
  EnvironmentMap kept;
  for (const auto& [name, value] : inherited) {
    if (!IsDropped(name)) kept.emplace_hint(kept.end(), name, value);
  }
  return kept;
}

// The variables of torch.distributed's env:// and those that torch elastic documents.
void SetTorch(const v1::Round& round, int local_rank, const WorkerEnvironmentOptions& options,
              EnvironmentMap* environment) {
  EnvironmentMap& env = *environment;
  env["LOCAL_RANK"] = std::to_string(options.virtual_local_rank ? 0 : local_rank);
  env["RANK"] = std::to_string(round.first_rank() + local_rank);
  env["GROUP_RANK"] = std::to_string(round.node_rank());
  env["ROLE_RANK"] = std::to_string(round.role_first_rank() + local_rank);
  env["ROLE_NAME"] = options.role_name;
  env["LOCAL_WORLD_SIZE"] = std::to_string(options.slots);
  env["WORLD_SIZE"] = std::to_string(round.world_size());
  env["GROUP_WORLD_SIZE"] = std::to_string(round.node_count());
  env["ROLE_WORLD_SIZE"] = std::to_string(round.role_world_size());
  env["MASTER_ADDR"] = round.master().host();
  env["MASTER_PORT"] = std::to_string(round.master().port());
  env["TORCHELASTIC_RESTART_COUNT"] = std::to_string(round.restart_count());
  env["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(round.max_restarts());
  // Torch, Lightning and others take its presence as a sign that a launcher started them, before they look for
  // Slurm or Kubeflow.
  env["TORCHELASTIC_RUN_ID"] = options.run_id;
  // The agent runs no store; worker 0 serves it at MASTER_PORT.
  env["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  if (!options.signals_to_handle.empty()) env["TORCHELASTIC_SIGNALS_TO_HANDLE"] = options.signals_to_handle;
  if (!options.error_file.empty()) env["TORCHELASTIC_ERROR_FILE"] = options.error_file;
  if (!options.timer_file.empty()) env["TORCHELASTIC_TIMER_FILE"] = options.timer_file;
}

// The names of DeepSpeed and Horovod, and NODE_RANK for Lightning and hand-written scripts.
void SetOthers(const v1::Round& round, const WorkerEnvironmentOptions& options, EnvironmentMap* environment) {
  EnvironmentMap& env = *environment;
  env["NODE_RANK"] = std::to_string(round.node_rank());
  env["CROSS_RANK"] = std::to_string(round.node_rank());
  env["CROSS_SIZE"] = std::to_string(round.node_count());
  env["LOCAL_SIZE"] = std::to_string(options.slots);
}

// Defaults; a value of the user's, even an empty one, is kept.
void SetDefaults(const WorkerEnvironmentOptions& options, EnvironmentMap* environment) {
  // NCCL's watchdog ends a worker whose collective takes too long, which it does while a debugger stops a peer.
  if (options.waits_for_debugger) environment->emplace("TORCH_NCCL_ENABLE_MONITORING", "0");
  environment->emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", options.waits_for_debugger ? "0" : "1");
  // A worker that crashes prints a traceback even without torch's @record.
  environment->emplace("PYTHONFAULTHANDLER", "1");
  // All or none of them: the user's own pipe belongs to the user's own settings.
  const bool has_own = environment->count("TORCH_NCCL_DEBUG_INFO_PIPE_FILE") > 0;
  if (!has_own) environment->insert(options.recorder.begin(), options.recorder.end());
  if (options.unbuffered) environment->emplace("PYTHONUNBUFFERED", "1");
  // Workers of one node share its cores; if each used all of them, all would be slow.
  if (options.slots > 1) environment->emplace("OMP_NUM_THREADS", "1");
}

// Variables about a rank, from an outer launcher or the platform. In a worker its own values replace them; a
// command of the whole node has no rank.
constexpr std::string_view kOfARank[] = {
    "LOCAL_RANK",      "RANK",
    "GROUP_RANK",      "ROLE_RANK",
    "WORLD_SIZE",      "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT",     "TORCHELASTIC_RESTART_COUNT",
    "NODE_RANK",       "CROSS_RANK",
    "CROSS_SIZE",
};

// Beside those: what muster makes for one worker, or one round.
constexpr std::string_view kOfAWorker[] = {
    "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_TIMER_FILE",
    "MUSTER_DONE_FILE",          "MUSTER_HEARTBEAT_FILE",   "PYTHONBREAKPOINT",
};

}  // namespace

std::set<std::string> VariablesOfAWorker(const WorkerEnvironmentOptions& options) {
  std::set<std::string> names(std::begin(kOfARank), std::end(kOfARank));
  names.insert(std::begin(kOfAWorker), std::end(kOfAWorker));
  for (const auto& [name, value] : options.recorder) names.insert(name);
  if (!options.visible_devices.empty()) names.insert(options.visible_devices_variable);
  return names;
}

EnvironmentMap CommonEnvironment(const WorkerEnvironmentOptions& options, const EnvironmentMap& inherited) {
  EnvironmentMap environment = WorkerEnvironment(v1::Round(), 0, options, inherited);
  for (const std::string& name : VariablesOfAWorker(options)) environment.erase(name);
  return environment;
}

EnvironmentMap NodeEnvironment(const WorkerEnvironmentOptions& options, std::optional<int> place,
                               const EnvironmentMap& inherited) {
  EnvironmentMap environment = Kept(inherited);
  for (const std::string_view name : kOfARank) environment.erase(std::string(name));
  environment["LOCAL_WORLD_SIZE"] = environment["LOCAL_SIZE"] = environment["NPROC"] =
      std::to_string(options.slots);
  environment["TORCHELASTIC_RUN_ID"] = options.run_id;
  if (place) environment["NODE_RANK"] = std::to_string(*place);
  SetDefaults(options, &environment);
  environment[kMarkerVariable] = options.marker;
  return environment;
}

EnvironmentMap WorkerEnvironment(const v1::Round& round, int local_rank, const WorkerEnvironmentOptions& options,
                                 const EnvironmentMap& inherited) {
  EnvironmentMap environment = Kept(inherited);
  SetTorch(round, local_rank, options, &environment);
  SetOthers(round, options, &environment);
  SetDefaults(options, &environment);
  const auto devices = options.visible_devices.find(local_rank);
  if (!options.visible_devices_variable.empty() && devices != options.visible_devices.end()) {
    environment[options.visible_devices_variable] = devices->second;
  }
  if (!options.done_file.empty()) environment["MUSTER_DONE_FILE"] = options.done_file;
  if (!options.heartbeat_file.empty()) environment["MUSTER_HEARTBEAT_FILE"] = options.heartbeat_file;
  environment[kMarkerVariable] = options.marker;
  return environment;
}

}  // namespace muster::host
