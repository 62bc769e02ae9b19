#include "agent/discovery/openmpi.h"

#include <climits>

#include "absl/strings/str_cat.h"
#include "agent/discovery/address.h"
#include "agent/discovery/problem.h"
#include "agent/discovery/variables.h"
#include "proto/base/status_macros.h"

namespace muster::discovery {
namespace {

constexpr char kSource[] = "openmpi";
constexpr char kRank[] = "OMPI_COMM_WORLD_RANK";
constexpr char kSize[] = "OMPI_COMM_WORLD_SIZE";
constexpr char kLocalRank[] = "OMPI_COMM_WORLD_LOCAL_RANK";
constexpr char kLocalSize[] = "OMPI_COMM_WORLD_LOCAL_SIZE";
constexpr char kRunNumber[] = "PMIX_NAMESPACE";  // another one for each mpirun, the same for all that it starts
constexpr char kMasterAddr[] = "MASTER_ADDR";
constexpr int kMaxProcesses = INT_MAX;

// Absent ones say what there would be with one process.
absl::StatusOr<int> NumberOr(const Environment& environment, const char* variable, int otherwise, int low) {
  const std::optional<std::string> text = TextOf(environment, variable);
  return text ? NumberIn(variable, *text, low, kMaxProcesses) : otherwise;
}

absl::Status CheckOneProcess(const Environment& environment) {
  ASSIGN_OR_RETURN(const int rank, NumberOr(environment, kLocalRank, 0, 0));
  ASSIGN_OR_RETURN(const int size, NumberOr(environment, kLocalSize, 1, 1));
  if (rank == 0 && size == 1) return absl::OkStatus();
  const std::string line = absl::StrCat("write mpirun --map-by ppr:1:node muster run ",
                                        size > 1 ? absl::StrCat("--nproc-per-node ", size, " ") : "", "SCRIPT");
  const char* const variable = rank > 0 ? kLocalRank : kLocalSize;
  return ToStatus(
      {variable, "", absl::StrCat(rank > 0 ? rank : size),
       absl::StrCat(rank > 0 ? 0 : 1, ": muster is started once on each node, and starts the workers itself"),
       line});
}

}  // namespace

Reading ReadOpenMpi(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  const std::optional<std::string> rank = TextOf(environment, kRank);
  const bool several = TextOf(environment, kSize).value_or("1") != "1";
  if (!rank && !several) return std::nullopt;
  if (!rank)
    return ToStatus(
        {kRank, "", std::nullopt, "this process' number, which mpirun sets beside " + std::string(kSize), ""});
  RETURN_IF_ERROR(CheckOneProcess(environment));
  ClusterView view;
  view.source = kSource;
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, kSize, 1, kMaxNodes));
  ASSIGN_OR_RETURN(view.node_rank, RankIn(kRank, *rank, view.nnodes, absl::StrCat(kSize, " ", view.nnodes)));
  const std::optional<std::string> primary = TextOf(environment, kMasterAddr);
  if (primary) {
    ASSIGN_OR_RETURN(view.primary_host, HostIn(kMasterAddr, *primary));
  } else if (view.nnodes == 1) {
    view.primary_host = "localhost";
  }
  ASSIGN_OR_RETURN(view.primary_port, PortOr(environment, "MASTER_PORT", kTorchPort));
  view.loopback_only = IsLoopback(view.primary_host);
  view.run_id = RunNameOf(kSource, TextOf(environment, kRunNumber).value_or(view.primary_host));
  return view;
}

}  // namespace muster::discovery
