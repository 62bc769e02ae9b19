// The workers of this node: their number, and how each is started.
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "cli/plan/debugger.h"
#include "cli/plan/parts.h"
#include "cli/plan/preloading.h"

namespace muster::cli {
namespace {

constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";
constexpr char kOmpThreads[] = "OMP_NUM_THREADS";
constexpr int kMaxWorkers = INT32_MAX;  // global ranks are 32 bits

// Under the name torchrun one worker is the default everywhere, unless an own option of muster names the source.
bool PlatformCountsSlots(const PlanInput& in) {
  const MembershipSettings& s = in.settings.membership;
  return in.membership.on_platform && (!s.as_torchrun || s.source);
}

// The number of workers that an option gives, or else the platform; nullopt: neither.
absl::StatusOr<Given<SlotCount>> SlotsGiven(const PlanInput& in) {
  const discovery::ClusterView& view = in.membership.view;
  const Given<SlotCount>& given = in.settings.workers.nproc_per_node;
  if (given || !PlatformCountsSlots(in) || view.nproc.empty()) return given;
  const std::string& origin = view.nproc_source.empty() ? view.source : view.nproc_source;
  Setting<SlotCount> said = {{}, Origin::kPlatform, origin, view.nproc};
  const absl::StatusOr<SlotCount> count = ParseSlotCount(view.nproc);
  if (!count.ok()) {
    return Fault(said, absl::StrCat(count.status().message(), "; correct it, or give --nproc-per-node"));
  }
  said.value = *count;
  return Given<SlotCount>(said);
}

absl::StatusOr<machine::WorkerCount> CountSlots(const PlanInput& in, const Given<SlotCount>& given) {
  machine::WorkerCount number;
  if (given && given->value.kind == SlotCount::kNumber) number.workers = given->value.number;
  const bool is_known = given ? given->value.kind == SlotCount::kNumber : !PlatformCountsSlots(in);
  if (is_known) return number;
  absl::StatusOr<machine::WorkerCount> count = in.machine.count_workers(given ? given->text : "");
  if (count.ok()) return count;
  const std::string reason(AsStd(count.status().message()));
  return given ? Fault(*given, reason) : absl::FailedPreconditionError(reason);
}

// --virtual-local-rank: each worker sees its own entry of the list, or the device of its number.
absl::Status ChooseDevices(const PlanInput& in, host::WorkerEnvironmentOptions* workers) {
  const Given<bool>& option = in.settings.workers.virtual_local_rank;
  workers->virtual_local_rank = IsOn(option);
  if (!IsOn(option) || !workers->visible_devices.empty()) return absl::OkStatus();
  const auto list = in.environment.find(kVisibleDevices);
  const bool listed = list != in.environment.end() && !list->second.empty();
  std::vector<std::string> entries;
  if (listed) entries = absl::StrSplit(list->second, ',');
  if (listed && static_cast<int>(entries.size()) < workers->slots) {
    return Fault(*option, absl::StrCat(kVisibleDevices, " has ", entries.size(), " devices for ", workers->slots,
                                       " workers"));
  }
  workers->visible_devices_variable = kVisibleDevices;
  for (int i = 0; i < workers->slots; ++i) {
    workers->visible_devices[i] =
        listed ? std::string(absl::StripAsciiWhitespace(entries[static_cast<size_t>(i)])) : absl::StrCat(i);
  }
  return absl::OkStatus();
}

// --numa-binding: each worker runs on the CPUs near the GPU of its local rank.
absl::Status BindToCpus(const PlanInput& in, int slots, host::LaunchPlan* launch) {
  const Given<std::string>& given = in.settings.workers.numa_binding;
  if (!given || slots == 0) return absl::OkStatus();
  const machine::Accelerators found = in.machine.accelerators();
  std::vector<int> gpus;
  for (const std::string& entry : found.visible) {
    int index = 0;
    if (!absl::SimpleAtoi(entry, &index)) {
      return Fault(*given,
                   absl::StrCat(found.visible_variable, " names ", entry, ": expected indices, not UUIDs"));
    }
    gpus.push_back(index);
  }
  if (static_cast<int>(gpus.size()) < slots) {
    return Fault(*given,
                 absl::StrCat("there are ", gpus.size(), " GPUs for ", slots, " workers (", found.reason, ")"));
  }
  gpus.resize(static_cast<size_t>(slots));
  const auto cpus = in.machine.bind_to_cpus(given->value, gpus);
  if (!cpus.ok()) return Fault(*given, std::string(AsStd(cpus.status().message())));
  launch->cpus = *cpus;
  return absl::OkStatus();
}

absl::StatusOr<SettingLine> ChoosePorts(const PlanInput& in, host::LaunchPlan* launch) {
  const Given<PortRange>& port = in.settings.workers.worker_port;
  const uint16_t primary = in.membership.single_node ? uint16_t{0} : in.membership.view.primary_port;
  if (port && primary != 0 && port->value.low == primary && port->value.high == primary) {
    return Fault(*port, "is the port of the primary; choose another, or a range");
  }
  const PortRange range = ValueOr(port, PortRange());
  launch->worker_ports = {range.low, range.high, primary};
  return port ? SettingLine{"worker-port", port->text, port->source} : SettingLine{"worker-port", "any", kDefault};
}

SettingLine ChooseReader(const PlanInput& in, host::StdinRule* rule) {
  const Given<DebugChoice>& debug = in.settings.workers.debug;
  const Given<StdinChoice>& choice = in.settings.workers.stdin_choice;
  if (UsesTerminal(debug)) {
    *rule = {host::StdinRule::kRank, debug->value.rank};
    return {"stdin", absl::StrCat(debug->value.rank), debug->source};
  }
  if (!choice) return {"stdin", "the only worker, or all on a terminal", kDefault};
  switch (choice->value.kind) {
    case StdinChoice::kAll:
      *rule = {host::StdinRule::kAll, 0};
      break;
    case StdinChoice::kNone:
      *rule = {host::StdinRule::kNone, 0};
      break;
    case StdinChoice::kRank:
      *rule = {host::StdinRule::kRank, choice->value.rank};
      break;
  }
  return {"stdin", choice->text, choice->source};
}

}  // namespace

absl::StatusOr<PlanLines> PlanSlots(const PlanInput& in, machine::WorkerCount* counted, v1::NodeConfig* config,
                                    host::LaunchPlan* launch) {
  PlanLines plan;
  host::WorkerEnvironmentOptions& workers = launch->environment;
  workers.role_name = plan.Pick("role", in.settings.workers.role);
  workers.run_id = config->run_id();
  workers.slots = 0;
  config->set_role_name(workers.role_name);
  if (config->role() != v1::ROLE_TRAINER) {
    plan.Add("nproc-per-node", "0", in.PlatformOrDefault());
    return plan;
  }
  ASSIGN_OR_RETURN(const Given<SlotCount> given, SlotsGiven(in));
  ASSIGN_OR_RETURN(*counted, CountSlots(in, given));
  plan.warnings = counted->warnings;
  plan.Add("nproc-per-node", ShowValue(counted->workers), given ? given->source : in.PlatformOrDefault());
  if (given && int64_t{counted->workers} * in.membership.max_nodes > kMaxWorkers) {
    return Fault(*given, absl::StrCat("with ", in.membership.max_nodes, " nodes the job has more than ",
                                      kMaxWorkers, " workers; give fewer"));
  }
  config->set_slots(counted->workers);
  workers.slots = counted->workers;
  workers.visible_devices_variable = counted->visible_variable;
  for (const std::string& device : counted->own_devices) {
    workers.visible_devices.emplace(static_cast<int>(workers.visible_devices.size()), device);
  }
  return plan;
}

absl::StatusOr<PlanLines> PlanWorkers(const PlanInput& in, host::HostOptions* host, host::LaunchPlan* launch) {
  PlanLines plan;
  const WorkerSettings& s = in.settings.workers;
  const int slots = launch->environment.slots;
  ASSIGN_OR_RETURN(SettingLine port, ChoosePorts(in, launch));
  plan.lines = {std::move(port), ChooseReader(in, &launch->stdin_rule)};
  if (slots > 1 && !in.environment.contains(kOmpThreads)) {
    plan.notes.push_back(absl::StrCat(kOmpThreads, " is not set: workers get 1"));
  }
  RETURN_IF_ERROR(ChooseDevices(in, &launch->environment));
  RETURN_IF_ERROR(BindToCpus(in, slots, launch));
  launch->environment.waits_for_debugger = slots > 0 && s.debug.has_value();
  if (!s.debug) host->preload = PreloadOf(in.settings);
  return plan;
}

}  // namespace muster::cli
