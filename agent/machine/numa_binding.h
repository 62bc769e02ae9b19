// --numa-binding: which CPUs a worker may run on, near its GPU. Pure, over a probe of /sys; the worker is bound by
// sched_setaffinity before it is executed, memory policy is left alone.
//
// The four ways are those of torch 2.13's torch.numa.binding: node (all CPUs of the GPU's NUMA node), socket (of
// all nodes of its socket), exclusive (the node's physical cores divided among its GPUs, the first ones get the
// rest), core-complex (one group of cores that share the last cache, the largest first).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/machine/accelerators.h"

namespace muster::machine {

inline constexpr int kMaxCpus = 8192;  // as the largest kernels are built

using CpuSet = std::set<int>;

absl::StatusOr<CpuSet> ParseCpuList(std::string_view text);  // "0-3,8"; blank: none
std::string FormatCpuList(const CpuSet& cpus);

// PCI addresses of this machine's NVIDIA GPUs by their index, as /proc/driver/nvidia/gpus names them.
std::vector<std::string> GpuBusIds(const MachineProbe& probe);

// For each of `gpus` (indices into `bus_ids`, by local rank) the CPUs of its worker, among those allowed.
// FailedPrecondition: a GPU whose place is not known, or fewer cores than GPUs.
absl::StatusOr<std::vector<CpuSet>> BindToCpus(std::string_view mode, const std::vector<int>& gpus,
                                               const std::vector<std::string>& bus_ids, const CpuSet& allowed,
                                               const MachineProbe& probe);

}  // namespace muster::machine
