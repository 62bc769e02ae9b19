#include "agent/platform/machine/numa_binding.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"

namespace muster::machine {
namespace {

constexpr char kNodes[] = "/sys/devices/system/node";
constexpr char kCpus[] = "/sys/devices/system/cpu";
constexpr int kMaxCaches = 16;  // per CPU

std::string Text(const MachineProbe& probe, const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(probe.read(path).value_or("")));
}

CpuSet Intersection(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
  return both;
}

class Binder {
 public:
  Binder(const std::vector<std::string>& bus_ids, const CpuSet& allowed, const MachineProbe& probe)
      : bus_ids_(bus_ids), allowed_(allowed), probe_(probe) {}

  absl::StatusOr<CpuSet> Bind(std::string_view mode, int gpu) {
    ASSIGN_OR_RETURN(const int node, NodeOf(gpu));
    if (mode == "socket") return OfSocket(node);
    ASSIGN_OR_RETURN(const CpuSet cpus, OfNode(node));
    if (mode == "node") return cpus;
    ASSIGN_OR_RETURN(const std::vector<int> neighbours, GpusOf(node));
    const auto position = std::find(neighbours.begin(), neighbours.end(), gpu) - neighbours.begin();
    if (mode == "exclusive") return Share(cpus, static_cast<size_t>(position), neighbours.size(), node);
    return CoreComplex(cpus, static_cast<size_t>(position));
  }

 private:
  // The NUMA node of a GPU. A machine with one node may report -1, which counts as 0.
  absl::StatusOr<int> NodeOf(int gpu) const {
    if (gpu < 0 || static_cast<size_t>(gpu) >= bus_ids_.size()) {
      return absl::FailedPreconditionError(absl::StrCat("the PCI address of GPU ", gpu, " is not known"));
    }
    const std::string path = absl::StrCat("/sys/bus/pci/devices/",
                                          absl::AsciiStrToLower(bus_ids_[static_cast<size_t>(gpu)]), "/numa_node");
    int node = 0;
    if (!absl::SimpleAtoi(Text(probe_, path), &node))
      return absl::FailedPreconditionError(path + " contains no NUMA node");
    return std::max(node, 0);
  }

  absl::StatusOr<CpuSet> OfNode(int node) const {
    ASSIGN_OR_RETURN(const CpuSet cpus,
                     ParseCpuList(Text(probe_, absl::StrCat(kNodes, "/node", node, "/cpulist"))));
    const CpuSet ours = Intersection(cpus, allowed_);
    if (ours.empty())
      return absl::FailedPreconditionError(absl::StrCat("this process may use no CPU of NUMA node ", node));
    return ours;
  }

  absl::StatusOr<std::vector<int>> GpusOf(int node) const {
    std::vector<int> gpus;
    for (int gpu = 0; gpu < static_cast<int>(bus_ids_.size()); ++gpu) {
      ASSIGN_OR_RETURN(const int other, NodeOf(gpu));
      if (other == node) gpus.push_back(gpu);
    }
    return gpus;
  }

  std::string SocketOf(int cpu) const {
    return Text(probe_, absl::StrCat(kCpus, "/cpu", cpu, "/topology/physical_package_id"));
  }

  absl::StatusOr<CpuSet> OfSocket(int node) const {
    ASSIGN_OR_RETURN(const CpuSet own, OfNode(node));
    const std::string socket = SocketOf(*own.begin());
    CpuSet all;
    for (const std::string& name : probe_.list(kNodes)) {
      int number = 0;
      if (!name.starts_with("node") || !absl::SimpleAtoi(name.substr(4), &number)) continue;
      const absl::StatusOr<CpuSet> cpus = OfNode(number);
      if (cpus.ok() && SocketOf(*cpus->begin()) == socket) all.insert(cpus->begin(), cpus->end());
    }
    return all;
  }

  // Groups `cpus` by what they share; the key is the lowest CPU that shares it.
  std::map<int, CpuSet> GroupBy(const CpuSet& cpus, std::string (Binder::*sharing)(int) const) const {
    std::map<int, CpuSet> groups;
    for (const int cpu : cpus) {
      const absl::StatusOr<CpuSet> shared = ParseCpuList((this->*sharing)(cpu));
      groups[shared.ok() && !shared->empty() ? *shared->begin() : cpu].insert(cpu);
    }
    return groups;
  }

  std::string ThreadSiblings(int cpu) const {
    return Text(probe_, absl::StrCat(kCpus, "/cpu", cpu, "/topology/thread_siblings_list"));
  }

  std::string LastCacheSiblings(int cpu) const {
    int deepest = -1;
    std::string siblings;
    for (int i = 0; i < kMaxCaches; ++i) {
      const std::string cache = absl::StrCat(kCpus, "/cpu", cpu, "/cache/index", i);
      int level = 0;
      if (!absl::SimpleAtoi(Text(probe_, cache + "/level"), &level)) break;
      if (level <= deepest || Text(probe_, cache + "/type") == "Instruction") continue;
      deepest = level;
      siblings = Text(probe_, cache + "/shared_cpu_list");
    }
    return siblings;
  }

  absl::StatusOr<CpuSet> Share(const CpuSet& cpus, size_t position, size_t count, int node) const {
    const std::map<int, CpuSet> cores = GroupBy(cpus, &Binder::ThreadSiblings);
    const size_t each = cores.size() / count, rest = cores.size() % count;
    if (each == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("NUMA node ", node, " has ", cores.size(), " cores for ", count, " GPUs"));
    }
    const size_t begin = position * each + std::min(position, rest);
    const size_t end = begin + each + (position < rest ? 1 : 0);
    CpuSet share;
    size_t at = 0;
    for (const auto& [first, core] : cores) {
      if (at >= begin && at < end) share.insert(core.begin(), core.end());
      ++at;
    }
    return share;
  }

  CpuSet CoreComplex(const CpuSet& cpus, size_t position) const {
    std::vector<CpuSet> complexes;
    for (auto& [first, complex] : GroupBy(cpus, &Binder::LastCacheSiblings)) complexes.push_back(complex);
    std::stable_sort(complexes.begin(), complexes.end(),
                     [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
    return complexes[position % complexes.size()];
  }

  const std::vector<std::string>& bus_ids_;
  const CpuSet& allowed_;
  const MachineProbe& probe_;
};

}  // namespace

absl::StatusOr<CpuSet> ParseCpuList(std::string_view text) {
  CpuSet cpus;
  for (const absl::string_view range : absl::StrSplit(AsAbsl(text), ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(absl::StripAsciiWhitespace(range), '-');
    int first = 0, last = 0;
    const bool good = ends.size() <= 2 && absl::SimpleAtoi(ends.front(), &first) &&
                      absl::SimpleAtoi(ends.back(), &last) && 0 <= first && first <= last && last < kMaxCpus;
    if (!good) return absl::FailedPreconditionError(absl::StrCat("'", AsAbsl(text), "' is not a list of CPUs"));
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::string FormatCpuList(const CpuSet& cpus) {
  std::string text;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = *at;
    int last = first;
    while (++at != cpus.end() && *at == last + 1) last = *at;
    absl::StrAppend(&text, text.empty() ? "" : ",", first);
    if (last > first) absl::StrAppend(&text, "-", last);
  }
  return text;
}

std::vector<std::string> GpuBusIds(const MachineProbe& probe) {
  std::vector<std::string> bus_ids = probe.list("/proc/driver/nvidia/gpus");
  std::sort(bus_ids.begin(), bus_ids.end());
  return bus_ids;
}

absl::StatusOr<std::vector<CpuSet>> BindToCpus(std::string_view mode, const std::vector<int>& gpus,
                                               const std::vector<std::string>& bus_ids, const CpuSet& allowed,
                                               const MachineProbe& probe) {
  Binder binder(bus_ids, allowed, probe);
  std::vector<CpuSet> result;
  for (const int gpu : gpus) {
    ASSIGN_OR_RETURN(CpuSet cpus, binder.Bind(mode, gpu));
    result.push_back(std::move(cpus));
  }
  return result;
}

}  // namespace muster::machine
