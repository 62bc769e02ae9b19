#include "agent/platform/discovery/node_variables.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kGiveAll[] = "give --nnodes, --node-rank and --master-addr, or --standalone for this node alone";

// The variables of a platform.
struct Names {
  const char* run_prefix;  // of run ids
  std::vector<const char*> recognized_by;
  const char* rank;
  const char* count;
  const char* address;         // of node 0; nullptr: the first one of `list`
  const char* list = nullptr;  // addresses of all nodes in the order of their ranks; nullptr: none
  const char* port = nullptr;  // of node 0; nullptr: none
  const char* job = nullptr;   // the same on all nodes, for the run's name; nullptr: none
};

const Names kSkyPilot = {.run_prefix = "skypilot",
                         .recognized_by = {"SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"},
                         .rank = "SKYPILOT_NODE_RANK",
                         .count = "SKYPILOT_NUM_NODES",
                         .address = nullptr,
                         .list = "SKYPILOT_NODE_IPS",
                         .job = "SKYPILOT_TASK_ID"};
const Names kDstack = {.run_prefix = "dstack",
                       .recognized_by = {"DSTACK_NODE_RANK", "DSTACK_NODES_NUM"},
                       .rank = "DSTACK_NODE_RANK",
                       .count = "DSTACK_NODES_NUM",
                       .address = "DSTACK_MASTER_NODE_IP",
                       .job = "DSTACK_RUN_NAME"};
const Names kLeaderWorkerSet = {.run_prefix = "lws",
                                .recognized_by = {"LWS_WORKER_INDEX", "LWS_GROUP_SIZE"},
                                .rank = "LWS_WORKER_INDEX",
                                .count = "LWS_GROUP_SIZE",
                                .address = "LWS_LEADER_ADDRESS"};
const Names kRunPod = {.run_prefix = "runpod",
                       .recognized_by = {"PRIMARY_ADDR"},
                       .rank = "NODE_RANK",
                       .count = "NUM_NODES",
                       .address = "PRIMARY_ADDR",
                       .port = "PRIMARY_PORT"};
const Names kVolcengine = {.run_prefix = "volcengine",
                           .recognized_by = {"MLP_ROLE_INDEX", "MLP_WORKER_NUM"},
                           .rank = "MLP_ROLE_INDEX",
                           .count = "MLP_WORKER_NUM",
                           .address = "MLP_WORKER_0_HOST",
                           .port = "MLP_WORKER_0_PORT",
                           .job = "MLP_TASK_ID"};

// One address per line, or with other blanks between them.
absl::StatusOr<std::vector<std::string>> HostsIn(const Environment& environment, const char* variable,
                                                 const char* count_name, int count) {
  const std::string text = TextOf(environment, variable).value_or("");
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(std::string host, HostIn(variable, std::string(AsStd(word)), kGiveAll));
    if (!seen.insert(HostKey(host)).second) return ToStatus({variable, "", host, "each address once", kGiveAll});
    hosts.push_back(std::move(host));
  }
  if (static_cast<int>(hosts.size()) == count) return hosts;
  return ToStatus({variable, "", IsSet(environment, variable) ? std::optional(text) : std::nullopt,
                   absl::StrCat("the addresses of all nodes, ", count, " as ", count_name, " says"), kGiveAll});
}

absl::Status TakePrimary(const Environment& environment, const Names& names, ClusterView* view) {
  view->primary_port = kDefaultRendezvousPort;
  if (names.port != nullptr) {
    ASSIGN_OR_RETURN(view->primary_port, PortOr(environment, names.port, kTorchPort));
  }
  if (names.list != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                     HostsIn(environment, names.list, names.count, view->nnodes));
    view->primary_host = hosts.front();
    for (const std::string& host : hosts) {
      if (view->nnodes <= kMaxNamedNodes) view->nodes.push_back(ToString(host, view->primary_port));
    }
    return CheckReachable(names.list, *view);
  }
  const auto address = TextOf(environment, names.address);
  if (!address) return ToStatus({names.address, "", std::nullopt, "the address of node 0", kGiveAll});
  ASSIGN_OR_RETURN(view->primary_host, HostIn(names.address, *address, kGiveAll));
  return CheckReachable(names.address, *view);
}

Reading ReadNames(const Evidence& evidence, const Names& names) {
  const Environment& environment = evidence.environment;
  const bool fits = std::any_of(names.recognized_by.begin(), names.recognized_by.end(),
                                [&](const char* variable) { return IsSet(environment, variable); });
  if (!fits) return std::nullopt;
  ClusterView view;
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, names.count, 1, kMaxNodes, kGiveAll));
  if (!IsSet(environment, names.rank)) {
    if (view.nnodes == 1) return std::nullopt;
    return ToStatus({names.rank, "", std::nullopt, "this node's number, from 0", kGiveAll});
  }
  ASSIGN_OR_RETURN(view.node_rank, RankIn(names.rank, TextOf(environment, names.rank).value_or(""), view.nnodes,
                                          absl::StrCat(names.count, " ", view.nnodes), kGiveAll));
  if (view.nnodes == 1) return std::nullopt;
  RETURN_IF_ERROR(TakePrimary(environment, names, &view));
  view.loopback_only = IsLoopback(view.primary_host);
  const auto job = names.job != nullptr ? TextOf(environment, names.job) : std::nullopt;
  view.run_id = RunNameOf(names.run_prefix, job.value_or(view.primary_host));
  return view;
}

}  // namespace

Reading ReadSkyPilot(const Evidence& evidence) { return ReadNames(evidence, kSkyPilot); }
Reading ReadDstack(const Evidence& evidence) { return ReadNames(evidence, kDstack); }
Reading ReadLeaderWorkerSet(const Evidence& evidence) { return ReadNames(evidence, kLeaderWorkerSet); }
Reading ReadRunPod(const Evidence& evidence) { return ReadNames(evidence, kRunPod); }
Reading ReadVolcengine(const Evidence& evidence) { return ReadNames(evidence, kVolcengine); }

}  // namespace muster::discovery
