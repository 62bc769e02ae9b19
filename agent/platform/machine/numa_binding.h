// --numa-binding: chooses the CPUs near a worker's GPU on which the worker may run. Pure, over a probe of /sys.
// The worker is bound by sched_setaffinity before its exec; its memory policy stays unchanged.
//
// The four modes are those of torch 2.13's torch.numa.binding: node (all CPUs of the GPU's NUMA node), socket (all
// CPUs of all nodes of its socket), exclusive (the node's physical cores divided among its GPUs; the first GPUs
// get the remaining cores), core-complex (one group of cores that share the last cache; larger groups first).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/platform/machine/accelerators.h"

namespace muster::machine {

inline constexpr int kMaxCpus = 8192;  // the kernel's largest configuration

using CpuSet = std::set<int>;

absl::StatusOr<CpuSet> ParseCpuList(std::string_view text);  // "0-3,8"; blank: none
std::string FormatCpuList(const CpuSet& cpus);

// PCI addresses of this machine's NVIDIA GPUs, by index, from /proc/driver/nvidia/gpus.
std::vector<std::string> GpuBusIds(const MachineProbe& probe);

// Returns the CPUs of each worker, by local rank, among `allowed`. gpus: the worker's GPU, as index into
// `bus_ids`. FailedPrecondition: a GPU whose NUMA node is not known, or fewer cores than GPUs.
absl::StatusOr<std::vector<CpuSet>> BindToCpus(std::string_view mode, const std::vector<int>& gpus,
                                               const std::vector<std::string>& bus_ids, const CpuSet& allowed,
                                               const MachineProbe& probe);

}  // namespace muster::machine
