#include "agent/platform/discovery/azure_ml.h"

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kRunPrefix[] = "azureml";  // of run ids
constexpr char kMpiMaster[] = "AZ_BATCH_MASTER_NODE";
constexpr char kMpiSingleMaster[] = "AZ_BATCHAI_MPI_MASTER_NODE";
constexpr char kOnePerNode[] =
    "muster starts a node's workers itself: set process_count_per_instance: 1 (instance_count stays), and "
    "--nproc-per-node where it is not one for each GPU";

absl::Status TooManyProcesses(const char* variable, const std::string& value, const std::string& expected) {
  return ToStatus({variable, "", value, expected, kOnePerNode});
}

// The first node of an MPI job, without the port, which belongs to the batch service.
absl::Status TakeMpiMaster(const Environment& environment, ClusterView* view) {
  for (const char* variable : {kMpiMaster, kMpiSingleMaster}) {
    const auto text = TextOf(environment, variable);
    if (!text) continue;
    const absl::StatusOr<Address> address = ParseAddress(*text);
    if (!address.ok()) return ToStatus({variable, "", *text, std::string(AsStd(address.status().message())), ""});
    view->primary_host = address->host;
    return CheckReachable(variable, *view);
  }
  return ToStatus({kMpiMaster, "", std::nullopt, "the first node, as Azure ML sets it for MPI jobs",
                   "give --nnodes, --node-rank and --master-addr"});
}

absl::StatusOr<ClusterView> OfMpi(const Environment& environment) {
  ClusterView view;
  ASSIGN_OR_RETURN(const int local_size,
                   NumberIn("OMPI_COMM_WORLD_LOCAL_SIZE",
                            TextOf(environment, "OMPI_COMM_WORLD_LOCAL_SIZE").value_or("1"), 1, kMaxNodes));
  if (local_size > 1) {
    return TooManyProcesses("OMPI_COMM_WORLD_LOCAL_SIZE", absl::StrCat(local_size), "one process on each node");
  }
  const std::string local_rank = TextOf(environment, "OMPI_COMM_WORLD_LOCAL_RANK").value_or("0");
  if (local_rank != "0")
    return TooManyProcesses("OMPI_COMM_WORLD_LOCAL_RANK", local_rank, "0, one process on each node");
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, "OMPI_COMM_WORLD_SIZE", 1, kMaxNodes));
  ASSIGN_OR_RETURN(view.node_rank,
                   RankIn("OMPI_COMM_WORLD_RANK", TextOf(environment, "OMPI_COMM_WORLD_RANK").value_or(""),
                          view.nnodes, absl::StrCat("OMPI_COMM_WORLD_SIZE ", view.nnodes)));
  RETURN_IF_ERROR(TakeMpiMaster(environment, &view));
  view.primary_port = kDefaultRendezvousPort;
  return view;
}

absl::StatusOr<ClusterView> OfPytorch(const Environment& environment) {
  ClusterView view;
  const auto rank = TextOf(environment, "RANK"), local = TextOf(environment, "LOCAL_RANK");
  const std::string node = *TextOf(environment, "NODE_RANK");
  if (local && *local != "0") return TooManyProcesses("LOCAL_RANK", *local, "0, one process on each node");
  if (rank && *rank != node) {
    return TooManyProcesses("RANK", *rank, absl::StrCat("that of the node, NODE_RANK ", Shown(node)));
  }
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, "WORLD_SIZE", 1, kMaxNodes));
  ASSIGN_OR_RETURN(view.node_rank,
                   RankIn("NODE_RANK", node, view.nnodes, absl::StrCat("WORLD_SIZE ", view.nnodes)));
  ASSIGN_OR_RETURN(view.primary_host, HostIn("MASTER_ADDR", *TextOf(environment, "MASTER_ADDR")));
  RETURN_IF_ERROR(CheckReachable("MASTER_ADDR", view));
  ASSIGN_OR_RETURN(view.primary_port, PortOr(environment, "MASTER_PORT", kTorchPort));
  return view;
}

}  // namespace

Reading ReadAzureMl(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  const bool azure = TextOf(environment, "AZUREML_EXPERIMENT_ID") || TextOf(environment, "AZUREML_RUN_ID");
  const bool mpi = TextOf(environment, "OMPI_COMM_WORLD_RANK") &&
                   (azure || TextOf(environment, kMpiMaster) || TextOf(environment, kMpiSingleMaster));
  const bool pytorch = azure && TextOf(environment, "NODE_RANK") && TextOf(environment, "MASTER_ADDR");
  if (!mpi && !pytorch) return std::nullopt;
  absl::StatusOr<ClusterView> view = mpi ? OfMpi(environment) : OfPytorch(environment);
  if (!view.ok()) return view.status();
  view->loopback_only = IsLoopback(view->primary_host);
  const auto run = TextOf(environment, "AZUREML_RUN_ID");
  view->run_id = RunNameOf(kRunPrefix, run.value_or(view->primary_host));
  return *std::move(view);
}

}  // namespace muster::discovery
