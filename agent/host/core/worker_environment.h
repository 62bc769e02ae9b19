// The environment of one worker: what torch.distributed, DeepSpeed, Accelerate and Lightning read. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/proc/marker.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

using EnvironmentMap = std::map<std::string, std::string>;

struct WorkerEnvironmentOptions {
  int slots = 1;  // local world size
  std::string role_name = "default";
  std::string run_id;
  std::string marker;                    // see marker.h
  std::string error_file;                // path for TORCHELASTIC_ERROR_FILE; empty: none
  std::string done_file;                 // path for MUSTER_DONE_FILE; empty: none
  std::string heartbeat_file;            // path for MUSTER_HEARTBEAT_FILE; empty: none
  std::string timer_file;                // the file timer's pipe; empty: none
  std::string signals_to_handle;         // the value of --signals-to-handle
  EnvironmentMap recorder = {};          // variables of NCCL's flight recorder; empty: not set
  EnvironmentMap platform = {};          // what the platform describes only in files, for workers to read
  bool files_are_forbidden = false;      // --log-dir /dev/null
  bool keyboard_is_anothers = false;     // the user has given it to another rank
  bool unbuffered = false;               // Python's output comes at once, as a sign of life must
  bool waits_for_debugger = false;       // --debug: torch must not end workers that wait for the debugged one
  bool virtual_local_rank = false;       // LOCAL_RANK is 0 for every worker
  std::string visible_devices_variable;  // e.g. CUDA_VISIBLE_DEVICES; empty: not set
  std::map<int, std::string> visible_devices;  // by local rank
};

// The environment of one worker: the inherited one, in which per-node variables and those of an outer launcher
// (RANK, WORLD_SIZE, MASTER_*, TORCHELASTIC_RUN_ID, NODE_RANK, PET_NODE_RANK, ...) are overwritten or dropped. All
// inherited MUSTER_* variables are dropped. With --preload the modules that were imported before may change it
// afterwards.
EnvironmentMap WorkerEnvironment(const v1::Round& round, int local_rank, const WorkerEnvironmentOptions& options,
                                 const EnvironmentMap& inherited);

// The part of WorkerEnvironment() that is the same for every worker of this node and in every round.
EnvironmentMap CommonEnvironment(const WorkerEnvironmentOptions& options, const EnvironmentMap& inherited);
// The variables that this part lacks.
std::set<std::string> VariablesOfAWorker(const WorkerEnvironmentOptions& options);

// The environment of a command that runs once for the whole node (--preflight and the like): a worker's without
// ranks. LOCAL_WORLD_SIZE and NPROC are the number of workers. place: this node's place, set as NODE_RANK;
// nullopt: it has none.
EnvironmentMap NodeEnvironment(const WorkerEnvironmentOptions& options, std::optional<int> place,
                               const EnvironmentMap& inherited);

}  // namespace muster::host
