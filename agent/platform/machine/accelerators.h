// Determines a node's default number of workers: one for each accelerator that a process here may use. Pure, over
// a probe of the machine; a static binary cannot load a driver's library.
//
// The makers, how their devices are found, and the variables that restrict them:
// - NVIDIA (gpu): `nvidia-smi -L` if it works, else /proc/driver/nvidia/gpus and /dev/nvidiaN;
//   CUDA_VISIBLE_DEVICES, read as CUDA reads it. With MIG, each instance gets a worker that sees only that one.
// - AMD (gpu): the nodes of /sys/class/kfd with compute units; ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and
//   CUDA_VISIBLE_DEVICES.
// - Intel (xpu): render nodes of data-centre GPUs; ZE_AFFINITY_MASK.
// - Huawei (npu): /dev/davinciN; ASCEND_RT_VISIBLE_DEVICES.
// - Habana (hpu): /dev/hlN, or /dev/accel/accelN of its driver; HABANA_VISIBLE_MODULES.
// Devices of other makers are detected but not counted. `auto` is refused there, since counting CPUs in their
// place would start a wrong job.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/proc/run_program.h"

namespace muster::machine {

using Environment = std::map<std::string, std::string>;

inline constexpr int kMaxWorkersPerNode = 1024;

// Without persistence mode, the driver of a machine with 8 GPUs needs ten seconds or more to initialize.
inline constexpr absl::Duration kNvidiaSmiTimeout = absl::Seconds(60);

// The machine as this process sees it; SystemProbe() is the real one.
struct MachineProbe {
  // Runs a program from PATH, without a shell. NotFound: no such program; DeadlineExceeded: killed at `limit`.
  std::function<absl::StatusOr<ProgramResult>(const std::vector<std::string>& argv, absl::Duration limit)> run;
  // Names in a directory, unsorted; empty if it does not exist.
  std::function<std::vector<std::string>(const std::string& path)> list;
  // A small file's text; nullopt if it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read;
  std::function<int()> usable_cpus;  // the number of CPUs on which this process may run
};

struct Accelerators {
  int count = 0;                      // accelerators for one worker each
  std::string kind;                   // "gpu", "xpu", "npu", "hpu"; empty: none was found
  bool nvidia = false;                // the maker is NVIDIA
  bool apart = false;                 // each worker must see only its own entry of `visible`
  std::string reason;                 // "8 GPUs: nvidia-smi -L lists them"
  std::string visible_variable;       // CUDA_VISIBLE_DEVICES or a similar one; empty: no accelerators
  std::vector<std::string> visible;   // possible entries of that variable: indices or UUIDs, in order
  std::vector<std::string> unknown;   // device files of accelerators that cannot be counted
  std::vector<std::string> warnings;  // one line each
};

// kind: count only this kind; empty: the first kind of the table that this machine has.
Accelerators CountAccelerators(const Environment& environment, const MachineProbe& probe,
                               std::string_view kind = "");

struct WorkerCount {
  int workers = 1;
  std::string reason;                    // one sentence
  bool nvidia = false;                   // each worker has an NVIDIA GPU
  std::string visible_variable;          // set for each worker to its own device; empty: every worker sees all
  std::vector<std::string> own_devices;  // values of visible_variable, by local rank
  std::vector<std::string> warnings;
};

// wish: the value of --nproc-per-node: a number, "auto" (accelerators, else CPUs), "gpu", "xpu", "npu", "hpu"
// (that kind, else an error), or "cpu". "" is the default on a platform: one worker per accelerator, or one worker
// without accelerators. InvalidArgument: another word, or a number outside of 1..kMaxWorkersPerNode.
// FailedPrecondition: the machine lacks the requested kind, or has accelerators that cannot be counted.
absl::StatusOr<WorkerCount> CountWorkers(std::string_view wish, const Environment& environment,
                                         const MachineProbe& probe);

}  // namespace muster::machine
