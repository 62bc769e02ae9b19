// The environment of one worker: what torch.distributed, DeepSpeed, Accelerate and Lightning read. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/proc/marker.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

using EnvironmentMap = std::map<std::string, std::string>;

struct WorkerEnvironmentOptions {
  int slots = 1;  // local world size
  std::string role_name = "default";
  std::string run_id;
  std::string marker;                          // see marker.h
  std::string error_file;                      // empty: none
  std::string timer_file;                      // the file timer's pipe; empty: none
  std::string signals_to_handle;               // as --signals-to-handle has them
  bool virtual_local_rank = false;             // LOCAL_RANK is 0 for every worker
  std::string visible_devices_variable;        // e.g. CUDA_VISIBLE_DEVICES; empty: leave alone
  std::map<int, std::string> visible_devices;  // by local rank
};

// The inherited environment with everything per-node or left by an outer launcher (RANK, WORLD_SIZE, MASTER_*,
// TORCHELASTIC_RUN_ID, NODE_RANK, PET_NODE_RANK, ...) overwritten or dropped, and all MUSTER_* but the marker
// dropped.
EnvironmentMap WorkerEnvironment(const v1::Round& round, int local_rank, const WorkerEnvironmentOptions& options,
                                 const EnvironmentMap& inherited);

// What a program finds that looks whether this node is fit for a round (--preflight): a worker's environment
// without anything of a rank, which nobody has yet; LOCAL_WORLD_SIZE and NPROC are the workers to come. place: of
// this node (NODE_RANK); none: it has none of its own.
EnvironmentMap PreflightEnvironment(const WorkerEnvironmentOptions& options, std::optional<int> place,
                                    const EnvironmentMap& inherited);

}  // namespace muster::host
