// What is inherited falls into four kinds: dropped, always overwritten, given a default if it is absent, and
// passed through. Everything that is not named here is passed through: the user's variables are the user's.
#include "agent/host/core/worker_environment.h"

#include <string_view>

namespace muster::host {
namespace {

// Left by an outer launcher or by the platform for the node as a whole; in a worker they would be lies.
constexpr std::string_view kDropped[] = {
    // The pipe of an outer agent's watchdog: timers written there would be another program's to act upon, which
    // ends
    // processes by pid.
    "TORCHELASTIC_TIMER_FILE",
    // An outer worker's file for its own error; ours is set below if there is one.
    "TORCHELASTIC_ERROR_FILE",
    // torchrun passes its PET_* settings through, and so do we, except for those by which a torchrun inside of a
    // worker (an evaluation on one node, say) would take this node's place in this job: it would dial the
    // coordinator's port and wait there for nodes that never come. The other half of the set must go with them:
    // with PET_NNODES alone it would wait at its own port. GROUP_RANK, GROUP_WORLD_SIZE and MASTER_* say the same
    // to programs that want to know.
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_RDZV_BACKEND",
    "PET_RDZV_CONF",
    "PET_RDZV_ENDPOINT",
    "PET_RDZV_ID",
};

// Our own settings: the token is nobody else's business, and a muster inside of a worker is another job.
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

// torch.distributed's env://, and what torch elastic promises.
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
  // Its mere presence is how torch, Lightning and others see that they were launched, before they look for Slurm
  // or Kubeflow.
  env["TORCHELASTIC_RUN_ID"] = options.run_id;
  // No store runs in the agent: worker 0 serves it at MASTER_PORT.
  env["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  if (!options.signals_to_handle.empty()) env["TORCHELASTIC_SIGNALS_TO_HANDLE"] = options.signals_to_handle;
  if (!options.error_file.empty()) env["TORCHELASTIC_ERROR_FILE"] = options.error_file;
  if (!options.timer_file.empty()) env["TORCHELASTIC_TIMER_FILE"] = options.timer_file;
}

// DeepSpeed's and Horovod's names, and the one that Lightning and hand-written scripts read for the node.
void SetOthers(const v1::Round& round, const WorkerEnvironmentOptions& options, EnvironmentMap* environment) {
  EnvironmentMap& env = *environment;
  env["NODE_RANK"] = std::to_string(round.node_rank());
  env["CROSS_RANK"] = std::to_string(round.node_rank());
  env["CROSS_SIZE"] = std::to_string(round.node_count());
  env["LOCAL_SIZE"] = std::to_string(options.slots);
}

// The user's value stands, an empty one too.
void SetDefaults(const WorkerEnvironmentOptions& options, EnvironmentMap* environment) {
  environment->emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  // A worker that crashes says where, without torch's @record.
  environment->emplace("PYTHONFAULTHANDLER", "1");
  // Workers of one node share its cores; each taking them all is the slowest of all choices.
  if (options.slots > 1) environment->emplace("OMP_NUM_THREADS", "1");
}

// Whatever an outer launcher or a platform says of a rank, a worker's own values replace.
constexpr std::string_view kOfARank[] = {
    "LOCAL_RANK",      "RANK",
    "GROUP_RANK",      "ROLE_RANK",
    "WORLD_SIZE",      "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT",     "TORCHELASTIC_RESTART_COUNT",
    "NODE_RANK",       "CROSS_RANK",
    "CROSS_SIZE",
};

}  // namespace

EnvironmentMap PreflightEnvironment(const WorkerEnvironmentOptions& options, std::optional<int> place,
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
  environment[kMarkerVariable] = options.marker;
  return environment;
}

}  // namespace muster::host
