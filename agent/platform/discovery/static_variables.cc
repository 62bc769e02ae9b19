#include "agent/platform/discovery/static_variables.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kProcesses[] = "NPROC_PER_NODE";
constexpr char kAddress[] = "MASTER_ADDR";
constexpr char kOtherCount[] = "NUM_NODES";  // of some clouds; too common a name to count without the others
constexpr char kPodVariable[] = "KUBERNETES_SERVICE_HOST";
constexpr char kElasticNodes[] = "PET_NNODES";
constexpr char kElasticRun[] = "TORCHELASTIC_RUN_ID";
constexpr char kGiveAll[] =
    "set MASTER_ADDR, NODE_RANK and NNODES on each node, or give --nnodes, --node-rank and --master-addr; "
    "--standalone for this node alone";

// The variables that hold rank and number of nodes.
struct Names {
  const char* rank = nullptr;
  const char* count = nullptr;
};

bool IsAboveOne(const std::optional<std::string>& text) {
  return text.has_value() && *text != "1" && *text != "0";
}

// nullopt: the variables do not describe several nodes.
std::optional<Names> FindNames(const Environment& environment) {
  const auto has = [&](const char* variable) { return TextOf(environment, variable).has_value(); };
  const bool of_process = IsSet(environment, "LOCAL_RANK");
  const bool placed = has("NODE_RANK") && has(kAddress) && !of_process;
  if (placed && !has("NNODES") && has(kOtherCount)) return Names{"NODE_RANK", kOtherCount};
  if (placed || (has("NODE_RANK") && has("NNODES"))) return Names{"NODE_RANK", "NNODES"};
  if (of_process) return std::nullopt;
  if (has("RANK") && has("NNODES")) return Names{"RANK", "NNODES"};
  // An empty rank was not filled in by mistake; without an error, each node would run its own job.
  const bool several = IsAboveOne(TextOf(environment, "NNODES"));
  if (several && (IsSet(environment, "NODE_RANK") || has(kAddress))) return Names{"NODE_RANK", "NNODES"};
  const bool blank = IsSet(environment, "RANK") && has(kAddress);
  if ((has("RANK") || blank) && IsAboveOne(TextOf(environment, "WORLD_SIZE"))) {
    // WORLD_SIZE of a PyTorchJob counts processes; PET_NNODES has the number of nodes.
    int nodes = 0;
    const bool counted = absl::SimpleAtoi(TextOf(environment, kElasticNodes).value_or(""), &nodes);
    return Names{"RANK", counted ? kElasticNodes : "WORLD_SIZE"};
  }
  return std::nullopt;
}

// Some of these variables alone may come from a test or be left over; a worker also has the address.
bool IsWorkerOfALauncher(const Environment& environment) {
  const auto has = [&](const char* variable) { return IsSet(environment, variable); };
  if (!has(kAddress)) return false;
  if (has(kElasticRun)) return has("LOCAL_RANK") || (has("RANK") && has("WORLD_SIZE"));
  return has("LOCAL_RANK") && has("RANK") && IsAboveOne(TextOf(environment, "WORLD_SIZE"));
}

absl::Status RefusedNesting(const Environment& environment) {
  const char* const sign = IsSet(environment, "LOCAL_RANK") ? "LOCAL_RANK" : kElasticRun;
  return ToStatus(
      {sign, "", TextOf(environment, sign).value_or(""),
       "it to be unset: with the other variables it marks this process as a worker of another launcher",
       "give --standalone for a separate job on this node, or --nnodes with --rdzv-endpoint"});
}

}  // namespace

Reading ReadStatic(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  if (IsWorkerOfALauncher(environment)) return RefusedNesting(environment);
  const std::optional<Names> names = FindNames(environment);
  if (!names) return std::nullopt;
  ClusterView view;
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, names->count, 1, kMaxNodes, kGiveAll));
  if (!IsSet(environment, names->rank)) {
    return ToStatus({names->rank, "", std::nullopt, "this node's number, from 0", kGiveAll});
  }
  ASSIGN_OR_RETURN(view.node_rank, RankIn(names->rank, TextOf(environment, names->rank).value_or(""), view.nnodes,
                                          absl::StrCat(names->count, " ", view.nnodes), kGiveAll));
  const auto address = TextOf(environment, kAddress);
  if (!address) return ToStatus({kAddress, "", std::nullopt, "the address of node 0", kGiveAll});
  ASSIGN_OR_RETURN(view.primary_host, HostIn(kAddress, *address));
  RETURN_IF_ERROR(CheckReachable(kAddress, view));
  ASSIGN_OR_RETURN(view.primary_port, PortOr(environment, "MASTER_PORT", kTorchPort));
  view.loopback_only = IsLoopback(view.primary_host);
  // In a pod an operator has set the address, mostly to a Service, by which a pod may not reach itself.
  if (!IsSet(environment, kPodVariable)) view.primary_evidence = kAddress;
  view.nproc = TextOf(environment, kProcesses).value_or("");
  view.nproc_source = kProcesses;
  view.run_id = kNoRunName;  // no value is the same on all nodes: node 0 may call itself localhost
  return view;
}

}  // namespace muster::discovery
