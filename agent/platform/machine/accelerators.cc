#include "agent/platform/machine/accelerators.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/platform/machine/visible_devices.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"

namespace muster::machine {
namespace {

struct Devices {
  std::vector<PhysicalDevice> devices;
  std::string how;  // "nvidia-smi -L lists them"
};

std::optional<std::string> ValueOf(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

bool IsNumbered(absl::string_view name, absl::string_view prefix) {
  return absl::StartsWith(name, prefix) && IsNumber(name.substr(prefix.size()));
}

// ---- NVIDIA ----

// The text between "(UUID: " and ")".
std::string UuidOf(absl::string_view line) {
  constexpr absl::string_view kMark = "(UUID: ";
  const size_t mark = line.find(kMark);
  if (mark == absl::string_view::npos) return "";
  const absl::string_view rest = line.substr(mark + kMark.size());
  return std::string(rest.substr(0, rest.find(')')));
}

// "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-...)", each followed by its "  MIG 1g.5gb  Device  0: (UUID: MIG-...)".
std::vector<PhysicalDevice> ParseNvidiaSmiList(const std::string& output) {
  std::vector<PhysicalDevice> devices;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(text, "GPU ") && IsNumber(text.substr(4, text.find(':') - 4))) {
      devices.push_back({UuidOf(text), {}});
    } else if (absl::StartsWith(text, "MIG ") && !devices.empty()) {
      devices.back().mig_uuids.push_back(UuidOf(text));
    }
  }
  return devices;
}

std::string NvidiaUuid(const std::string& bus_id, const MachineProbe& probe) {
  const std::string information =
      probe.read(absl::StrCat("/proc/driver/nvidia/gpus/", bus_id, "/information")).value_or("");
  constexpr absl::string_view kField = "GPU UUID:";
  for (const absl::string_view line : absl::StrSplit(information, '\n')) {
    if (!absl::StartsWith(line, kField)) continue;
    const absl::string_view uuid = absl::StripAsciiWhitespace(line.substr(kField.size()));
    return absl::StrContains(uuid, '?') ? "" : std::string(uuid);  // "GPU-????..." before the first use
  }
  return "";
}

// Finds GPUs by the driver's files, without its tools. The kernel's list may contain more GPUs than a container
// has device files for; outside of containers, device files may be missing until their first use.
Devices NvidiaByFiles(const MachineProbe& probe) {
  std::vector<std::string> bus_ids = probe.list("/proc/driver/nvidia/gpus");
  std::sort(bus_ids.begin(), bus_ids.end());  // CUDA's order
  Devices found;
  for (const std::string& bus_id : bus_ids) found.devices.push_back({NvidiaUuid(bus_id, probe), {}});
  size_t files = 0;
  for (const std::string& name : probe.list("/dev")) files += IsNumbered(name, "nvidia") ? 1 : 0;
  found.how = "/proc/driver/nvidia/gpus lists them";
  if (files > 0 && (found.devices.empty() || files < found.devices.size())) {
    found.devices.assign(files, {});  // which of the listed GPUs they are is not known
    found.how = "counted by /dev/nvidiaN";
  }
  return found;
}

Devices FindNvidia(const MachineProbe& probe, std::vector<std::string>* warnings) {
  const absl::StatusOr<ProgramResult> list = probe.run({"nvidia-smi", "-L"}, kNvidiaSmiTimeout);
  if (list.ok() && list->exit_code == 0) {
    return {ParseNvidiaSmiList(list->output), "nvidia-smi -L lists them"};
  }
  Devices found = NvidiaByFiles(probe);
  // No warning for a missing tool, or for one that fails on a machine without GPUs.
  if (!found.devices.empty() && !absl::IsNotFound(list.status())) {
    const std::string why =
        list.ok() ? absl::StrCat("exited with ", list->exit_code) : std::string(AsStd(list.status().message()));
    warnings->push_back(absl::StrCat("nvidia-smi -L ", why, ": GPUs are ", found.how));
  }
  return found;
}

// ---- AMD ----

// The topology's nodes include CPUs; those with compute units are GPUs.
Devices FindAmd(const MachineProbe& probe) {
  constexpr char kNodes[] = "/sys/class/kfd/kfd/topology/nodes";
  Devices found;
  found.how = absl::StrCat(kNodes, " lists them");
  for (const std::string& node : probe.list(kNodes)) {
    const std::optional<std::string> properties = probe.read(absl::StrCat(kNodes, "/", node, "/properties"));
    for (const absl::string_view line : absl::StrSplit(properties.value_or(""), '\n')) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      int units = 0;
      const bool counts = words.size() == 2 && words[0] == "simd_count" && absl::SimpleAtoi(words[1], &units);
      if (counts && units > 0) found.devices.emplace_back();
    }
  }
  return found;
}

// ---- Others ----

bool HasDriver(const std::string& accel, const MachineProbe& probe, absl::string_view driver) {
  const std::string uevent = probe.read(absl::StrCat("/sys/class/accel/", accel, "/device/uevent")).value_or("");
  return absl::StrContains(uevent, absl::StrCat("DRIVER=", driver));
}

// Small inference units of laptops, on which torch does not train.
bool IsLaptopNpu(const std::string& accel, const MachineProbe& probe) {
  return HasDriver(accel, probe, "intel_vpu") || HasDriver(accel, probe, "amdxdna");
}

// Intel's data-centre GPUs have no display function, unlike those of desktops and laptops.
bool IsIntelDataCenterGpu(const std::string& render_node, const MachineProbe& probe) {
  const std::string device = absl::StrCat("/sys/class/drm/", render_node, "/device/");
  return absl::StartsWith(probe.read(device + "vendor").value_or(""), "0x8086") &&
         absl::StartsWith(probe.read(device + "class").value_or(""), "0x0380");
}

std::vector<std::string> NumberedFiles(const MachineProbe& probe, absl::string_view prefix) {
  std::vector<std::string> files;
  for (const std::string& name : probe.list("/dev")) {
    if (IsNumbered(name, prefix)) files.push_back("/dev/" + name);
  }
  return files;
}

std::vector<std::string> FindIntel(const MachineProbe& probe) {
  std::vector<std::string> found;
  for (const std::string& name : probe.list("/dev/dri")) {
    if (IsNumbered(name, "renderD") && IsIntelDataCenterGpu(name, probe)) found.push_back("/dev/dri/" + name);
  }
  return found;
}

std::vector<std::string> FindHuawei(const MachineProbe& probe) { return NumberedFiles(probe, "davinci"); }

std::vector<std::string> FindHabana(const MachineProbe& probe) {
  std::vector<std::string> found = NumberedFiles(probe, "hl");  // the old driver
  if (!found.empty()) return found;
  for (const std::string& name : probe.list("/dev/accel")) {
    if (IsNumbered(name, "accel") && HasDriver(name, probe, "habanalabs")) found.push_back("/dev/accel/" + name);
  }
  return found;
}

// Makers whose devices are counted by their device files.
struct Maker {
  const char* kind;
  const char* name;
  const char* variable;
  std::vector<std::string> (*find)(const MachineProbe& probe);
};
constexpr Maker kMakers[] = {
    {"xpu", "Intel data-centre GPU", "ZE_AFFINITY_MASK", &FindIntel},
    {"npu", "Ascend NPU", "ASCEND_RT_VISIBLE_DEVICES", &FindHuawei},
    {"hpu", "Gaudi", "HABANA_VISIBLE_MODULES", &FindHabana},
};

std::vector<std::string> FindUnknown(const MachineProbe& probe) {
  // AWS Trainium and Inferentia, Google TPU.
  std::vector<std::string> unknown = NumberedFiles(probe, "neuron");
  const std::vector<std::string> old_tpu = NumberedFiles(probe, "accel");
  unknown.insert(unknown.end(), old_tpu.begin(), old_tpu.end());
  for (const std::string& name : probe.list("/dev/accel")) {
    const bool known = IsLaptopNpu(name, probe) || HasDriver(name, probe, "habanalabs");
    if (IsNumbered(name, "accel") && !known) unknown.push_back("/dev/accel/" + name);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

// ---- Together ----

void Append(std::vector<std::string> more, std::vector<std::string>* all) {
  all->insert(all->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void Take(const Devices& found, const char* kind, const std::string& name, const std::string& variable,
          const std::optional<std::string>& list, Accelerators* accelerators) {
  VisibleDevices visible = ReadVisibleDevices(variable, list, found.devices);
  accelerators->count = visible.usable;
  accelerators->kind = kind;
  accelerators->apart = visible.apart;
  accelerators->visible_variable = variable;
  accelerators->visible = std::move(visible.entries);
  Append(std::move(visible.warnings), &accelerators->warnings);
  const size_t present = found.devices.size();
  accelerators->reason = absl::StrFormat("%d %s%s: %s", present, name, present == 1 ? "" : "s", found.how);
  if (visible.apart) absl::StrAppend(&accelerators->reason, ", with ", accelerators->count, " MIG instances");
  if (list.has_value()) {
    absl::StrAppend(&accelerators->reason, ", ", variable, "=", Shown(*list), " leaves ", accelerators->count);
  }
}

// ROCR_VISIBLE_DEVICES hides devices from the runtime. HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES if that is not
// set, selects among the rest, numbered from 0.
void TakeAmd(Devices found, const Environment& environment, Accelerators* accelerators) {
  if (const std::optional<std::string> list = ValueOf(environment, "ROCR_VISIBLE_DEVICES")) {
    VisibleDevices visible = ReadVisibleDevices("ROCR_VISIBLE_DEVICES", list, found.devices);
    found.devices.resize(visible.entries.size());
    absl::StrAppend(&found.how, ", as far as ROCR_VISIBLE_DEVICES shows them");
    Append(std::move(visible.warnings), &accelerators->warnings);
  }
  const std::optional<std::string> hip = ValueOf(environment, "HIP_VISIBLE_DEVICES");
  const bool cuda_instead = !hip.has_value() && environment.contains("CUDA_VISIBLE_DEVICES");
  const std::string variable = cuda_instead ? "CUDA_VISIBLE_DEVICES" : "HIP_VISIBLE_DEVICES";
  Take(found, "gpu", "GPU", variable, ValueOf(environment, variable), accelerators);
}

absl::Status RefuseUnknown(const Accelerators& accelerators) {
  return absl::FailedPreconditionError(absl::StrCat("there are accelerators here that muster cannot count (",
                                                    absl::StrJoin(accelerators.unknown, ", "),
                                                    "): give --nproc-per-node a number"));
}

absl::StatusOr<WorkerCount> Fixed(int workers, std::string reason) {
  if (workers < 1 || workers > kMaxWorkersPerNode) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--nproc-per-node comes to %d: expected 1 to %d", workers, kMaxWorkersPerNode));
  }
  WorkerCount count;
  count.workers = workers;
  count.reason = std::move(reason);
  return count;
}

}  // namespace

Accelerators CountAccelerators(const Environment& environment, const MachineProbe& probe, std::string_view kind) {
  Accelerators accelerators;
  if (kind.empty() || kind == "gpu") {
    const Devices nvidia = FindNvidia(probe, &accelerators.warnings);
    const Devices amd = nvidia.devices.empty() ? FindAmd(probe) : Devices{};
    if (!nvidia.devices.empty()) {
      accelerators.nvidia = true;
      Take(nvidia, "gpu", "GPU", "CUDA_VISIBLE_DEVICES", ValueOf(environment, "CUDA_VISIBLE_DEVICES"),
           &accelerators);
    } else if (!amd.devices.empty()) {
      TakeAmd(amd, environment, &accelerators);
    }
    if (!accelerators.kind.empty()) return accelerators;
  }
  for (const Maker& maker : kMakers) {
    if (!kind.empty() && kind != maker.kind) continue;
    const std::vector<std::string> files = maker.find(probe);
    if (files.empty()) continue;
    const Devices found{std::vector<PhysicalDevice>(files.size()),
                        absl::StrCat("counted by ", files.front(), "...")};
    Take(found, maker.kind, maker.name, maker.variable, ValueOf(environment, maker.variable), &accelerators);
    return accelerators;
  }
  accelerators.reason =
      kind.empty() ? "no accelerator was found" : absl::StrCat("no ", AsAbsl(kind), " was found");
  accelerators.unknown = FindUnknown(probe);
  return accelerators;
}

namespace {

bool IsKind(std::string_view wish) {
  return wish == "gpu" || std::any_of(std::begin(kMakers), std::end(kMakers),
                                      [&](const Maker& maker) { return wish == maker.kind; });
}

absl::StatusOr<WorkerCount> OnePerAccelerator(const Accelerators& found) {
  absl::StatusOr<WorkerCount> count = Fixed(found.count, found.reason);
  if (!count.ok()) return count;
  count->warnings = found.warnings;
  count->nvidia = found.nvidia;
  if (found.apart) {
    count->visible_variable = found.visible_variable;
    count->own_devices = found.visible;
  }
  return count;
}

}  // namespace

absl::StatusOr<WorkerCount> CountWorkers(std::string_view wish, const Environment& environment,
                                         const MachineProbe& probe) {
  int number = 0;
  if (absl::SimpleAtoi(AsAbsl(wish), &number)) return Fixed(number, absl::StrCat(number, " as given"));
  const int cpus = probe.usable_cpus();
  if (wish == "cpu") return Fixed(cpus, absl::StrCat(cpus, " CPUs may be used here"));
  if (!wish.empty() && wish != "auto" && !IsKind(wish)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nproc-per-node is ", Shown(wish), ": expected a number, auto, gpu, cpu, xpu, npu or hpu"));
  }
  const Accelerators found = CountAccelerators(environment, probe, IsKind(wish) ? wish : "");
  if (found.count > 0) return OnePerAccelerator(found);
  if (!found.unknown.empty()) return RefuseUnknown(found);
  if (IsKind(wish)) {
    return absl::FailedPreconditionError(absl::StrCat(found.reason, " (auto takes the CPUs where there is none)"));
  }
  absl::StatusOr<WorkerCount> count =
      wish == "auto" ? Fixed(cpus, absl::StrCat(found.reason, "; ", cpus, " CPUs may be used here"))
                     : Fixed(1, found.reason);
  if (count.ok()) count->warnings = found.warnings;
  return count;
}

}  // namespace muster::machine
