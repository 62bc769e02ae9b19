// To add a source, add a row to the table and a file to this folder.
#include "agent/discovery/discover.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/discovery/address.h"
#include "agent/discovery/aws_batch.h"
#include "agent/discovery/azure_ml.h"
#include "agent/discovery/hostfile.h"
#include "agent/discovery/kubeflow.h"
#include "agent/discovery/kubernetes.h"
#include "agent/discovery/openmpi.h"
#include "agent/discovery/slurm.h"
#include "agent/discovery/static_variables.h"
#include "agent/discovery/tf_config.h"
#include "agent/discovery/volcano.h"
#include "base/problem.h"
#include "base/status_macros.h"

namespace muster::discovery {
namespace {

constexpr std::string_view kAnyBefore = "*";
constexpr char kHostfile[] = "hostfile";

// Slurm's step of several nodes; with --source slurm, a single node as well.
Reading ReadSlurmAsAsked(const Evidence& evidence, const DiscoverOptions& options) {
  ASSIGN_OR_RETURN(std::optional<ClusterView> several, ReadSlurm(evidence));
  if (several.has_value() || options.source.empty()) return several;
  return ReadSlurmNode(evidence);
}

struct Found {
  const Source* source;
  ClusterView view;
};

bool Implies(const Source& richer, const Source& implied) {
  const std::vector<Implication>& all = Implications();
  return std::any_of(all.begin(), all.end(), [&](const Implication& pair) {
    return pair.implied == implied.name && (pair.richer == kAnyBefore || pair.richer == richer.name);
  });
}

bool IsImplied(const std::vector<Found>& found, const Source& source) {
  return std::any_of(found.begin(), found.end(), [&](const Found& f) { return Implies(*f.source, source); });
}

std::string FirstLabel(const std::string& host) { return absl::AsciiStrToLower(host.substr(0, host.find('.'))); }

// A machine has many names, and text alone does not show which name has which address: only two names, or two
// addresses, can be compared. The primary may call itself by a loopback address.
bool MayBeOne(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == b || IsLoopback(a) || IsLoopback(b)) return true;
  if (IsLiteral(a) || IsLiteral(b)) return IsLiteral(a) != IsLiteral(b);
  return FirstLabel(a) == FirstLabel(b);
}

bool SamePlace(const ClusterView& a, const ClusterView& b) {
  const bool same_rank = a.node_rank < 0 || b.node_rank < 0 || a.node_rank == b.node_rank;
  return same_rank && a.role == b.role && a.nnodes == b.nnodes;
}

bool Agree(const ClusterView& first, const ClusterView& later) {
  return SamePlace(first, later) && MayBeOne(first.primary_host, later.primary_host);
}

std::string DescribeFound(const Found& found, bool with_primary) {
  const ClusterView& view = found.view;
  const bool trains = view.role == NodeRole::kTrainer;
  const std::string place = view.node_rank >= 0 ? absl::StrCat("rank ", view.node_rank)
                            : trains            ? "no rank"
                                                : "no trainer";
  return absl::StrFormat("%s (%s) says %s of %d%s", found.source->name, found.source->evidence, place, view.nnodes,
                         with_primary ? absl::StrCat(" with primary ", Shown(view.primary_host)) : "");
}

absl::Status Disagreement(const Found& a, const Found& b) {
  const bool by_primary = SamePlace(a.view, b.view);
  return absl::InvalidArgumentError(absl::StrFormat(
      "two sources fit this node and disagree: %s, %s; give --source %s or --source %s, the same on all nodes",
      DescribeFound(a, by_primary), DescribeFound(b, by_primary), a.source->name, b.source->name));
}

// Adds to the error of a source that another source fits.
absl::Status Beside(const Found& found, const absl::Status& status) {
  return {status.code(), absl::StrCat(status.message(), "; or give --source ", found.source->name, ", which (",
                                      found.source->evidence, ") fits too")};
}

ClusterView SingleNode() {
  ClusterView view;
  view.source = "single";
  view.node_rank = 0;
  view.loopback_only = true;
  return view;
}

absl::StatusOr<ClusterView> ReadOne(const Source& source, const Evidence& evidence,
                                    const DiscoverOptions& options) {
  ASSIGN_OR_RETURN(std::optional<ClusterView> reading, source.read(evidence, options));
  if (reading.has_value()) return *std::move(reading);
  return absl::InvalidArgumentError(
      absl::StrFormat("--source %s: %s was not found on this node", source.name, source.evidence));
}

// The view of the first source. If it names no primary, that of the next one that does.
ClusterView Merged(std::vector<Found> all) {
  ClusterView view = std::move(all.front().view);
  for (size_t i = 1; i < all.size() && view.primary_host.empty(); ++i) {
    if (all[i].view.nnodes != view.nnodes) continue;
    view.primary_host = all[i].view.primary_host;
    view.primary_port = all[i].view.primary_port;
    view.loopback_only = all[i].view.loopback_only;
  }
  return view;
}

KubernetesOptions ForPods(const DiscoverOptions& options) {
  return {options.nnodes, options.nnodes_source, options.primary_given};
}

}  // namespace

const std::vector<Source>& Sources() {
  static const auto* const table = new std::vector<Source>{
      {"vertex", "CLUSTER_SPEC",
       [](const Evidence& evidence, const DiscoverOptions& options) {
         return ReadVertex(evidence.environment, options.vertex);
       }},
      {"sagemaker", "resourceconfig.json",
       [](const Evidence& evidence, const DiscoverOptions& options) {
         return ReadSageMaker(evidence, options.sagemaker);
       }},
      {"azureml", "AZ_BATCH_MASTER_NODE",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadAzureMl(evidence); }},
      {"openmpi", "OMPI_COMM_WORLD_RANK",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadOpenMpi(evidence); }},
      {"mvapich", "MV2_COMM_WORLD_RANK",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadMvapich(evidence); }},
      {"mpich", "PMI_RANK", [](const Evidence& evidence, const DiscoverOptions&) { return ReadMpich(evidence); }},
      {"slurm", "SLURM_STEP_NODELIST", ReadSlurmAsAsked},
      {"trainer", "PET_NODE_RANK",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadTrainer(evidence); }},
      {"pytorchjob", "PET_NNODES",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadPytorchJob(evidence); }},
      {"volcano", "VC_TASK_INDEX",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadVolcano(evidence); }},
      {"jobset", "JOBSET_NAME",
       [](const Evidence& evidence, const DiscoverOptions& options) {
         return ReadJobSet(evidence, ForPods(options));
       }},
      {"indexed-job", "JOB_COMPLETION_INDEX",
       [](const Evidence& evidence, const DiscoverOptions& options) {
         return ReadIndexedJob(evidence, ForPods(options));
       }},
      {"statefulset", "MUSTER_SUBDOMAIN",
       [](const Evidence& evidence, const DiscoverOptions& options) {
         return ReadStatefulSet(evidence, ForPods(options));
       }},
      {"tf_config", "TF_CONFIG",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadTfConfig(evidence.environment); }},
      {"batch", "AWS_BATCH_JOB_NUM_NODES",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadBatch(evidence); }},
      {"static", "MASTER_ADDR",
       [](const Evidence& evidence, const DiscoverOptions&) { return ReadStatic(evidence); }},
      {"slurm-node", "SLURM_JOB_ID",
       [](const Evidence& evidence, const DiscoverOptions& /*options*/) { return ReadSlurmNode(evidence); }},
      {kHostfile, kDefaultHostfile,
       [](const Evidence& evidence, const DiscoverOptions& options) {
         return ReadHostfile(evidence, options.hostfile, options.node_rank);
       }},
  };
  return *table;
}

const std::vector<Implication>& Implications() {
  static const auto* const table = new std::vector<Implication>{
      // Vertex AI sets TF_CONFIG itself, without evaluators, and its RANK counts other pools, too.
      {"vertex", "tf_config"},
      // A JobSet consists of Indexed Jobs, and Trainer v2 of JobSets: the index counts within one of several jobs.
      {"trainer", "pytorchjob"},
      {"trainer", "jobset"},
      {"trainer", "indexed-job"},
      {"trainer", "statefulset"},
      {"jobset", "indexed-job"},
      {"jobset", "statefulset"},
      // The names of their pods end in numbers, too.
      {"pytorchjob", "statefulset"},
      {"indexed-job", "statefulset"},
      {"volcano", "statefulset"},
      // Volcano may schedule the pods of the others, and its index counts within one task.
      {"trainer", "volcano"},
      {"pytorchjob", "volcano"},
      // Jobs may run the pods of a PyTorchJob or a task; the index then counts within one of several jobs.
      {"pytorchjob", "indexed-job"},
      {"volcano", "indexed-job"},
      // Azure's MPI jobs are started by its mpirun.
      {"azureml", "openmpi"},
      {"azureml", "mvapich"},
      {"azureml", "mpich"},
      // Open MPI sets PMI_RANK as well, for other libraries.
      {"openmpi", "mpich"},
      // MVAPICH's Hydra sets both.
      {"mvapich", "mpich"},
      // srun sets no OMPI_COMM_WORLD_*, so these come from mpirun; the step's variables describe mpirun's daemons,
      // and the node of mpirun has no daemon.
      {"openmpi", "slurm"},
      // Most platforms and many scripts set MASTER_ADDR, RANK and so on, some for nodes and some for processes.
      {"*", "static"},
      // A single node of Slurm, or an allocation without a step, may be used to try out any other source.
      {"*", "slurm-node"},
      // A hostfile in an image exists on every platform. --source selects it explicitly.
      {"*", "hostfile"},
  };
  return *table;
}

bool IsSource(std::string_view name) {
  const std::vector<Source>& all = Sources();
  return std::any_of(all.begin(), all.end(), [&](const Source& s) { return s.name == name; });
}

std::string SourceNames() {
  std::string names;
  for (const Source& source : Sources()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", source.name);
  }
  return names;
}

absl::StatusOr<ClusterView> Discover(const Evidence& evidence, const DiscoverOptions& options) {
  std::vector<Found> found;
  for (const Source& source : Sources()) {
    if (options.source == source.name) return ReadOne(source, evidence, options);
    if (!options.source.empty() || IsImplied(found, source)) continue;
    Reading reading = source.read(evidence, options);
    if (!reading.ok()) return found.empty() ? reading.status() : Beside(found.front(), reading.status());
    if (!reading->has_value()) continue;
    const Found later{&source, **std::move(reading)};
    for (const Found& earlier : found) {
      if (!Agree(earlier.view, later.view)) return Disagreement(earlier, later);
    }
    found.push_back(later);
  }
  if (!options.source.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--source ", Shown(options.source), ": expected one of ", SourceNames()));
  }
  if (found.empty()) return SingleNode();
  return Merged(std::move(found));
}

std::vector<std::string> SourcesHere(const Evidence& evidence, const DiscoverOptions& options) {
  std::vector<std::string> names;
  for (const Source& source : Sources()) {
    if (source.name == kHostfile && options.hostfile.path.empty()) continue;  // it may just be part of the image
    const Reading reading = source.read(evidence, options);
    if (!reading.ok() || reading->has_value()) names.emplace_back(source.name);
  }
  return names;
}

}  // namespace muster::discovery
