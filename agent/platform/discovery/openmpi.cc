#include "agent/platform/discovery/openmpi.h"

#include <climits>

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/slurm.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kRunNumber[] = "PMIX_NAMESPACE";  // unique for each mpirun, and the same for all its processes
constexpr char kMasterAddr[] = "MASTER_ADDR";
constexpr int kMaxProcesses = INT_MAX;

// The names that a launcher uses.
struct Names {
  const char* run_prefix;  // of run ids
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* once_per_node;  // the command that starts one process per node
};

constexpr Names kOpenMpi = {"openmpi",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            "mpirun --map-by ppr:1:node"};
constexpr Names kMvapich = {"mvapich",
                            "MV2_COMM_WORLD_RANK",
                            "MV2_COMM_WORLD_SIZE",
                            "MV2_COMM_WORLD_LOCAL_RANK",
                            "MV2_COMM_WORLD_LOCAL_SIZE",
                            "mpiexec -ppn 1"};
constexpr Names kHydra = {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "mpiexec -ppn 1"};

// The value of a variable, or `otherwise` if it is not set.
absl::StatusOr<int> NumberOr(const Environment& environment, const char* variable, int otherwise, int low) {
  const std::optional<std::string> text = TextOf(environment, variable);
  return text ? NumberIn(variable, *text, low, kMaxProcesses) : otherwise;
}

absl::Status CheckOneProcess(const Environment& environment, const Names& names) {
  ASSIGN_OR_RETURN(const int rank, NumberOr(environment, names.local_rank, 0, 0));
  ASSIGN_OR_RETURN(const int size, NumberOr(environment, names.local_size, 1, 1));
  if (rank == 0 && size == 1) return absl::OkStatus();
  const std::string line = absl::StrCat("write ", names.once_per_node, " muster run ",
                                        size > 1 ? absl::StrCat("--nproc-per-node ", size, " ") : "", "SCRIPT");
  const char* const variable = rank > 0 ? names.local_rank : names.local_size;
  return ToStatus(
      {variable, "", absl::StrCat(rank > 0 ? rank : size),
       absl::StrCat(rank > 0 ? 0 : 1, ": muster is started once on each node, and starts the workers itself"),
       line});
}

Reading ReadMpi(const Environment& environment, const Names& names) {
  RETURN_IF_ERROR(CheckOneProcess(environment, names));
  ClusterView view;
  const std::optional<std::string> rank = TextOf(environment, names.rank);
  if (!rank) {
    return ToStatus({names.rank, "", std::nullopt,
                     absl::StrCat("this process' number, which is set beside ", names.size), ""});
  }
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, names.size, 1, kMaxNodes));
  ASSIGN_OR_RETURN(view.node_rank,
                   RankIn(names.rank, *rank, view.nnodes, absl::StrCat(names.size, " ", view.nnodes)));
  const std::optional<std::string> primary = TextOf(environment, kMasterAddr);
  if (primary) {
    ASSIGN_OR_RETURN(view.primary_host, HostIn(kMasterAddr, *primary));
  } else if (view.nnodes == 1) {
    view.primary_host = "localhost";
  }
  RETURN_IF_ERROR(CheckReachable(kMasterAddr, view));
  ASSIGN_OR_RETURN(view.primary_port, PortOr(environment, "MASTER_PORT", kTorchPort));
  view.loopback_only = IsLoopback(view.primary_host);
  view.run_id = RunNameOf(names.run_prefix, TextOf(environment, kRunNumber).value_or(view.primary_host));
  return view;
}

bool OfSeveral(const Environment& environment, const Names& names) {
  const std::optional<std::string> size = TextOf(environment, names.size);
  // A rank above 0 without a size means that the size got lost; without an error, each node would run its own job.
  return size ? *size != "1" : TextOf(environment, names.rank).value_or("0") != "0";
}

}  // namespace

Reading ReadOpenMpi(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  const bool several = OfSeveral(environment, kOpenMpi);
  if (!several && !TextOf(environment, kOpenMpi.rank)) return std::nullopt;
  // sbatch and srun pass on the variables of a surrounding mpirun of one process.
  if (!several && IsStepOfSeveralNodes(environment)) return std::nullopt;
  return ReadMpi(environment, kOpenMpi);
}

Reading ReadMvapich(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  if (!OfSeveral(environment, kMvapich) || IsStepOfSeveralNodes(environment)) return std::nullopt;
  return ReadMpi(environment, kMvapich);
}

Reading ReadMpich(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  // srun --mpi=pmi2 sets them, too, without the local ones; Slurm's own variables are complete.
  const bool in_step =
      TextOf(environment, "SLURM_STEP_NODELIST") || TextOf(environment, "SLURM_LAUNCH_NODE_IPADDR");
  if (in_step || !OfSeveral(environment, kHydra)) return std::nullopt;
  return ReadMpi(environment, kHydra);
}

}  // namespace muster::discovery
