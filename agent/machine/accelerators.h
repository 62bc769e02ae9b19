// How many workers a node gets by itself: one for each accelerator that a process here may use. Pure, over a probe
// of the machine; the binary is static, so no driver's library can be asked.
//
// A table of makers, each with its evidence and its variable:
// NVIDIA (gpu): `nvidia-smi -L` decides where it works, else /proc/driver/nvidia/gpus and /dev/nvidiaN; then
// CUDA_VISIBLE_DEVICES, read as CUDA reads it. MIG: a worker for each
// instance, which alone it sees. AMD (gpu): the nodes of /sys/class/kfd with compute units; then
// ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES. Intel (xpu): render nodes of data-centre
// GPUs, ZE_AFFINITY_MASK. Huawei (npu): /dev/davinciN, ASCEND_RT_VISIBLE_DEVICES. Habana (hpu): /dev/hlN or
// /dev/accel/accelN of its driver, HABANA_VISIBLE_MODULES. Devices of other makers are seen but not counted:
// `auto` is refused there, since counting CPUs in their place would start a wrong job.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster::machine {

using Environment = std::map<std::string, std::string>;

inline constexpr int kMaxWorkersPerNode = 1024;

// Without persistence mode the driver of an 8-GPU machine takes ten seconds and more to wake up.
inline constexpr absl::Duration kNvidiaSmiTimeout = absl::Seconds(60);

struct CommandResult {
  int exit_code = 0;   // 128 + signal if it was killed
  std::string output;  // standard output
};

// The machine as this process sees it; SystemProbe() is the real one.
struct MachineProbe {
  // Runs a program found on PATH, without a shell. NotFound: there is none; DeadlineExceeded: killed at `limit`.
  std::function<absl::StatusOr<CommandResult>(const std::vector<std::string>& argv, absl::Duration limit)> run;
  // Names in a directory, unsorted; empty if it is not there.
  std::function<std::vector<std::string>(const std::string& path)> list;
  // A small file's text; nullopt if it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read;
  std::function<int()> usable_cpus;  // those this process may run on
};

struct Accelerators {
  int count = 0;                      // workers that can have one each
  std::string kind;                   // "gpu", "xpu", "npu", "hpu"; empty: none was found
  bool nvidia = false;                // they are NVIDIA's
  bool apart = false;                 // each worker is to see its own one of `visible` only
  std::string reason;                 // "8 GPUs: nvidia-smi -L lists them"
  std::string visible_variable;       // CUDA_VISIBLE_DEVICES or its like; empty: no accelerators
  std::vector<std::string> visible;   // what that variable may name: indices or UUIDs, in order, to be divided
  std::vector<std::string> unknown;   // device files of accelerators that no rule explains
  std::vector<std::string> warnings;  // one line each
};

// kind: look for this one alone; empty: for the first of the table that is here.
Accelerators CountAccelerators(const Environment& environment, const MachineProbe& probe,
                               std::string_view kind = "");

struct WorkerCount {
  int workers = 1;
  std::string reason;                    // one sentence
  bool nvidia = false;                   // each has a GPU of NVIDIA's
  std::string visible_variable;          // where each worker is to see a device of its own; empty: all see all
  std::vector<std::string> own_devices;  // by local rank, then
  std::vector<std::string> warnings;
};

// --nproc-per-node: a number, "auto" (accelerators, else CPUs), "gpu", "xpu", "npu", "hpu" (that kind, else an
// error), "cpu"; "" is what a platform's job means when nobody said a number: one worker per accelerator, one
// where there is none. InvalidArgument: another word or a number out of 1..kMaxWorkersPerNode. FailedPrecondition:
// the machine does not have what was asked for, or has what cannot be counted.
absl::StatusOr<WorkerCount> CountWorkers(std::string_view wish, const Environment& environment,
                                         const MachineProbe& probe);

}  // namespace muster::machine
