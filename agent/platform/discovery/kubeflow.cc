#include "agent/platform/discovery/kubeflow.h"

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kNodes[] = "PET_NNODES";
constexpr char kRank[] = "PET_NODE_RANK";
constexpr char kAddress[] = "PET_MASTER_ADDR";
constexpr char kPort[] = "PET_MASTER_PORT";
constexpr char kEndpoint[] = "PET_RDZV_ENDPOINT";
constexpr char kProcesses[] = "PET_NPROC_PER_NODE";
constexpr char kRunId[] = "PET_RDZV_ID";

// The common part of both: the numbers of nodes and workers, and the run's name.
absl::StatusOr<ClusterView> Common(const Environment& environment) {
  ClusterView view;
  ASSIGN_OR_RETURN(view.nnodes, MaxNodesIn(kNodes, *TextOf(environment, kNodes)));
  view.nproc = TextOf(environment, kProcesses).value_or("");
  view.nproc_source = kProcesses;
  view.run_id = TextOf(environment, kRunId).value_or("");
  view.self = TextOf(environment, "HOSTNAME").value_or("");
  return view;
}

absl::Status TakeMaster(const Environment& environment, ClusterView* view) {
  ASSIGN_OR_RETURN(view->primary_host, HostIn(kAddress, *TextOf(environment, kAddress)));
  ASSIGN_OR_RETURN(view->primary_port, PortOr(environment, kPort, kTorchPort));
  view->loopback_only = IsLoopback(view->primary_host);
  return absl::OkStatus();
}

// Call after TakeMaster().
absl::Status TakeRank(const Environment& environment, ClusterView* view) {
  if (!IsSet(environment, kRank)) return ToStatus({kRank, "", std::nullopt, "this node's number, from 0", ""});
  ASSIGN_OR_RETURN(view->node_rank, RankIn(kRank, TextOf(environment, kRank).value_or(""), view->nnodes,
                                           absl::StrCat(kNodes, " ", *TextOf(environment, kNodes))));
  return CheckReachable(kAddress, *view);
}

// The nodes of an elastic job meet at the address of its first worker and have no ranks.
absl::Status TakeEndpoint(const std::string& text, ClusterView* view) {
  const absl::StatusOr<Address> endpoint = ParseAddress(text);
  if (!endpoint.ok()) {
    return ToStatus({kEndpoint, "", text, std::string(AsStd(endpoint.status().message())), ""});
  }
  view->primary_host = endpoint->host;
  view->primary_port = endpoint->port.value_or(kDefaultRendezvousPort);
  view->loopback_only = IsLoopback(view->primary_host);
  return absl::OkStatus();
}

// "localhost:0" is torchrun's notation for a job of one node.
bool MeansStandalone(const std::string& endpoint) { return endpoint.ends_with(":0"); }

// Whether the operator of PyTorchJobs has set its variables beside PET_*, for each node. A worker of a launcher
// has LOCAL_RANK, too.
bool HasOperatorsVariables(const Environment& environment) {
  return TextOf(environment, "MASTER_ADDR") && TextOf(environment, "RANK") && TextOf(environment, "WORLD_SIZE") &&
         !IsSet(environment, "LOCAL_RANK");
}

}  // namespace

Reading ReadPytorchJob(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  if (!TextOf(environment, kNodes)) return std::nullopt;
  const auto endpoint = TextOf(environment, kEndpoint);
  const bool fixed = TextOf(environment, kAddress) && HasOperatorsVariables(environment);
  if (!fixed && (!endpoint || MeansStandalone(*endpoint))) return std::nullopt;
  ASSIGN_OR_RETURN(ClusterView view, Common(environment));
  if (!fixed) {
    RETURN_IF_ERROR(TakeEndpoint(*endpoint, &view));
    RETURN_IF_ERROR(CheckReachable(kEndpoint, view));
    return view;
  }
  RETURN_IF_ERROR(TakeMaster(environment, &view));
  RETURN_IF_ERROR(TakeRank(environment, &view));
  return view;
}

Reading ReadTrainer(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  // The rank is copied from the pod's annotation, and empty if the pod has none.
  const bool fits = TextOf(environment, kNodes) && TextOf(environment, kAddress) && IsSet(environment, kRank);
  if (!fits || HasOperatorsVariables(environment)) return std::nullopt;
  ASSIGN_OR_RETURN(ClusterView view, Common(environment));
  RETURN_IF_ERROR(TakeMaster(environment, &view));
  RETURN_IF_ERROR(TakeRank(environment, &view));
  return view;
}

}  // namespace muster::discovery
