#include "agent/platform/discovery/sources.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/aws_batch.h"
#include "agent/platform/discovery/azure_ml.h"
#include "agent/platform/discovery/hostfile.h"
#include "agent/platform/discovery/kubeflow.h"
#include "agent/platform/discovery/kubernetes.h"
#include "agent/platform/discovery/node_variables.h"
#include "agent/platform/discovery/openmpi.h"
#include "agent/platform/discovery/pbs.h"
#include "agent/platform/discovery/slurm.h"
#include "agent/platform/discovery/static_variables.h"
#include "agent/platform/discovery/tf_config.h"
#include "agent/platform/discovery/volcano.h"
#include "base/core/status_macros.h"

namespace muster::discovery {
namespace {

constexpr int kVertexRetryCode = 134;    // the platform reads it as SIGABRT and retries
constexpr int kKubeflowRetryCode = 143;  // its ExitCode policy retries 128 and above

// Replicas were seen to start more than 10 minutes apart.
constexpr absl::Duration kVertexJoinTimeout = absl::Minutes(45);

constexpr absl::Duration kVertexGrace = absl::Seconds(8);       // not documented; the shortest usual time
constexpr absl::Duration kSageMakerGrace = absl::Seconds(110);  // of the documented 120
constexpr absl::Duration kSlurmGrace = absl::Seconds(25);       // of KillWait's 30

constexpr DeadlineSource kSlurmDeadline = {
    .variable = "SLURM_JOB_END_TIME",
    .job_variable = "SLURM_JOB_ID",
    .command = R"sh($(date +%s -d "$(squeue --noheader --jobs $SLURM_JOB_ID --format %e)"))sh"};

constexpr ContainerConventions kSageMakerContainer = {.mark = ResourceConfigPath,
                                                      .word = "train",
                                                      .program_variable = "SAGEMAKER_PROGRAM",  // of its toolkit
                                                      .code_folder = "/opt/ml/code/",
                                                      .gpus_variable = "SM_NUM_GPUS",
                                                      .failure_variable = "MUSTER_SAGEMAKER_FAILURE",
                                                      .failure_file = "/opt/ml/output/failure"};

constexpr char kSlurmNode[] = "slurm-node";

// Most pods have them, whatever the source.
constexpr const char* kVariablesOfPods[] = {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"};

Reading VertexReading(const Evidence& evidence, const DiscoverOptions& options) {
  return ReadVertex(evidence.environment, options.vertex);
}

Reading SageMakerReading(const Evidence& evidence, const DiscoverOptions& options) {
  return ReadSageMaker(evidence, options.sagemaker);
}

Reading TfConfigReading(const Evidence& evidence, const DiscoverOptions& /*options*/) {
  return ReadTfConfig(evidence.environment);
}

Reading HostfileReading(const Evidence& evidence, const DiscoverOptions& options) {
  return ReadHostfile(evidence, options.hostfile, options.node_rank);
}

// As in Slurm, a torchrun of the batch script itself is a job of its own.
Reading PbsReading(const Evidence& evidence, const DiscoverOptions& options) {
  return ReadPbs(evidence, options.as_torchrun);
}

// Slurm's step of several nodes; with --source slurm, a single node as well.
Reading SlurmReading(const Evidence& evidence, const DiscoverOptions& options) {
  ASSIGN_OR_RETURN(std::optional<ClusterView> several, ReadSlurm(evidence));
  if (several.has_value() || options.source.empty()) return several;
  ASSIGN_OR_RETURN(std::optional<ClusterView> one, ReadSlurmNode(evidence));
  if (one.has_value()) one->source = kSlurmNode;
  return one;
}

// A reading that needs no options.
template <Reading (*read)(const Evidence&)>
Reading Plain(const Evidence& evidence, const DiscoverOptions& /*options*/) {
  return read(evidence);
}

template <Reading (*read)(const Evidence&, const KubernetesOptions&)>
Reading OfPods(const Evidence& evidence, const DiscoverOptions& options) {
  return read(evidence, {options.nnodes, options.nnodes_source, options.primary_given, options.as_torchrun});
}

// Whether a pattern is this name, or begins it: "AIP_*".
bool FitsAny(const std::vector<std::string_view>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    pattern.remove_suffix(1);
    return name.starts_with(pattern);
  });
}

}  // namespace

const std::vector<Source>& Sources() {
  static const auto* const table = new std::vector<Source>{
      {.name = kVertex,
       .evidence = "CLUSTER_SPEC",
       .reading = VertexReading,
       .shown_as = "Vertex AI",
       // It sets TF_CONFIG itself, without evaluators, and its RANK counts other pools, too.
       .implies = {"tf_config"},
       .traits = {.label = "Vertex AI",
                  .termination_grace = kVertexGrace,
                  .join_timeout = kVertexJoinTimeout,
                  .retry = {.code = kVertexRetryCode},
                  .stderr_means_error = true,
                  .counts_for_torchrun = true,
                  .variables = {"CLUSTER_SPEC*", "CLOUD_ML_*", "AIP_*"},
                  .job_variables = {"CLUSTER_SPEC", "CLOUD_ML_*"},
                  .take_variables = TakeVertexFolders}},
      {.name = "sagemaker",
       .evidence = "resourceconfig.json",
       .reading = SageMakerReading,
       .shown_as = "SageMaker",
       .traits = {.label = "SageMaker",
                  .termination_grace = kSageMakerGrace,
                  .starts_no_node_again = true,
                  .counts_for_torchrun = true,
                  .container = &kSageMakerContainer}},
      {.name = "azureml",
       .evidence = "AZ_BATCH_MASTER_NODE",
       .reading = Plain<ReadAzureMl>,
       .shown_as = "Azure ML",
       // Its MPI jobs are started by its mpirun.
       .implies = {"openmpi", "mvapich", "mpich"},
       .traits = {.label = "Azure ML", .variables = {"AZ_BATCH*", "AZUREML_*"}}},
      {.name = "pbs",
       .evidence = "PBS_NODEFILE",
       .reading = PbsReading,
       .shown_as = "PBS",
       .implies = {"mpich"},  // PALS' mpiexec sets PMI_RANK as well, without the primary
       .traits = {.label = "PBS",
                  .replaces_no_node = true,
                  .starts_no_node_again = true,
                  .counts_for_torchrun = true,
                  .variables = {"PBS_JOBID", "PBS_NODE*", "PBS_TASKNUM", "PALS_*"},
                  .job_variables = {"PBS_NODEFILE", "PALS_*"}}},
      {.name = "openmpi",
       .evidence = "OMPI_COMM_WORLD_RANK",
       .reading = Plain<ReadOpenMpi>,
       .shown_as = "Open MPI",
       // Open MPI sets PMI_RANK as well, for other libraries. srun sets no OMPI_COMM_WORLD_*, so these come from
       // mpirun; the step's variables describe mpirun's daemons, and the node of mpirun has no daemon.
       .implies = {"mpich", "slurm"},
       .traits = {.label = "Open MPI", .starts_no_node_again = true, .variables = {"OMPI_COMM_WORLD_*"}}},
      {.name = "mvapich",
       .evidence = "MV2_COMM_WORLD_RANK",
       .reading = Plain<ReadMvapich>,
       .shown_as = "MVAPICH",
       .implies = {"mpich"},  // its Hydra sets both
       .traits = {.label = "MVAPICH", .starts_no_node_again = true, .variables = {"MV2_COMM_WORLD*"}}},
      {.name = "mpich",
       .evidence = "PMI_RANK",
       .reading = Plain<ReadMpich>,
       .shown_as = "MPICH, Intel MPI or MVAPICH",
       .traits = {.label = "MPICH", .starts_no_node_again = true, .variables = {"PMI_*", "MPI_LOCAL*"}}},
      {.name = "skypilot",
       .evidence = "SKYPILOT_NODE_RANK",
       .reading = Plain<ReadSkyPilot>,
       .shown_as = "SkyPilot",
       // It runs on Slurm and in pods, too, and counts nodes in its own order.
       .implies = {"slurm", "indexed-job", "statefulset"},
       .traits = {.label = "SkyPilot",
                  .counts_for_torchrun = true,
                  .variables = {"SKYPILOT_NODE_*", "SKYPILOT_NUM_*", "SKYPILOT_TASK_ID"},
                  .job_variables = {"SKYPILOT_NODE_*", "SKYPILOT_NUM_NODES"}}},
      {.name = "dstack",
       .evidence = "DSTACK_NODE_RANK",
       .reading = Plain<ReadDstack>,
       .shown_as = "dstack",
       .implies = {"slurm", "indexed-job", "statefulset"},  // it runs there, too
       .traits = {.label = "dstack",
                  .counts_for_torchrun = true,
                  .variables = {"DSTACK_NODE*", "DSTACK_MASTER_NODE_IP", "DSTACK_RUN_NAME"},
                  .job_variables = {"DSTACK_NODE*", "DSTACK_MASTER_NODE_IP"}}},
      {.name = "lws",
       .evidence = "LWS_WORKER_INDEX",
       .reading = Plain<ReadLeaderWorkerSet>,
       .shown_as = "a LeaderWorkerSet of Kubernetes",
       // Its pods belong to two kinds of StatefulSets: the leader's number is that of its group.
       .implies = {"indexed-job", "statefulset"},
       .traits = {.label = "Kubernetes",
                  .is_pod = true,
                  .is_numbered_pod = true,
                  .counts_for_torchrun = true,
                  .variables = {"LWS_*"},
                  .job_variables = {"LWS_*"}}},
      {.name = "volcengine",
       .evidence = "MLP_ROLE_INDEX",
       .reading = Plain<ReadVolcengine>,
       .shown_as = "Volcengine",
       // Its pods are those of other controllers, whose variables may count within one of several roles.
       .implies = {"pytorchjob", "volcano", "indexed-job", "statefulset"},
       .traits = {.label = "Volcengine",
                  .counts_for_torchrun = true,
                  .variables = {"MLP_ROLE*", "MLP_WORKER_*", "MLP_TASK_ID"},
                  .job_variables = {"MLP_ROLE*", "MLP_WORKER_*"}}},
      // People log in to its nodes and start commands there, also on one node alone: under the name torchrun it
      // does not count.
      {.name = "runpod",
       .evidence = "PRIMARY_ADDR",
       .reading = Plain<ReadRunPod>,
       .shown_as = "RunPod",
       .traits = {.label = "RunPod",
                  .variables = {"PRIMARY_ADDR", "PRIMARY_PORT", "NODE_RANK", "NUM_NODES"},
                  .job_variables = {"PRIMARY_ADDR"}}},
      {.name = "slurm",
       .evidence = "SLURM_STEP_NODELIST",
       .reading = SlurmReading,
       .shown_as = "Slurm, a step on several nodes",
       .traits = {.label = "Slurm",
                  .termination_grace = kSlurmGrace,
                  .replaces_no_node = true,
                  .starts_no_node_again = true,
                  .counts_for_torchrun = true,
                  .variables = {"SLURM_*"},
                  .job_variables = {"SLURM_STEP_*"},
                  .deadline = kSlurmDeadline}},
      {.name = "trainer",
       .evidence = "PET_NODE_RANK",
       .reading = Plain<ReadTrainer>,
       .shown_as = "Kubeflow Trainer, or torchrun's variables",
       // Trainer v2 consists of JobSets: the index counts within one of several jobs. Volcano may schedule the
       // pods, and its index counts within one task.
       .implies = {"pytorchjob", "volcano", "jobset", "indexed-job", "statefulset"},
       .traits = {.label = "Kubeflow",
                  .retry = {.code = kKubeflowRetryCode, .only_in_pod = true},
                  .sets_torchrun_variables = true,
                  .counts_for_torchrun = true}},
      {.name = "pytorchjob",
       .evidence = "PET_NNODES",
       .reading = Plain<ReadPytorchJob>,
       .shown_as = "a PyTorchJob of Kubeflow",
       // Its pods' names end in numbers. Jobs may run its pods, and Volcano may schedule them; their indices count
       // within one of several jobs or tasks.
       .implies = {"volcano", "indexed-job", "statefulset"},
       .traits = {.label = "Kubeflow",
                  .retry = {.code = kKubeflowRetryCode, .only_in_pod = true},
                  .pod_variable = "PET_MASTER_ADDR",
                  .sets_torchrun_variables = true,
                  .counts_for_torchrun = true}},
      {.name = "volcano",
       .evidence = "VC_TASK_INDEX",
       .reading = Plain<ReadVolcano>,
       .shown_as = "Volcano",
       // Its pods' names end in numbers. Jobs may run a task; the index then counts within one of several jobs.
       .implies = {"indexed-job", "statefulset"},
       .traits = {.label = "Volcano", .is_pod = true, .variables = {"VC_*"}}},
      {.name = "jobset",
       .evidence = "JOBSET_NAME",
       .reading = OfPods<ReadJobSet>,
       .shown_as = "a JobSet of Kubernetes",
       // A JobSet consists of Indexed Jobs: the index counts within one of several jobs.
       .implies = {"indexed-job", "statefulset"},
       .traits = {.label = "Kubernetes",
                  .is_pod = true,
                  .is_numbered_pod = true,
                  .counts_for_torchrun = true,
                  .variables = {"JOBSET_NAME"}}},
      {.name = "indexed-job",
       .evidence = "JOB_COMPLETION_INDEX",
       .reading = OfPods<ReadIndexedJob>,
       .shown_as = "an Indexed Job of Kubernetes",
       .implies = {"statefulset"},  // its pods' names end in numbers, too
       .traits = {.label = "Kubernetes",
                  .is_pod = true,
                  .is_numbered_pod = true,
                  .counts_for_torchrun = true,
                  .variables = {"JOB_COMPLETION_INDEX", "KUBERNETES_SERVICE_HOST", "POD_NAME", "HOSTNAME"}}},
      {.name = "statefulset",
       .evidence = "MUSTER_SUBDOMAIN",
       .reading = OfPods<ReadStatefulSet>,
       .shown_as = "a StatefulSet of Kubernetes",
       .traits = {.label = "Kubernetes",
                  .is_pod = true,
                  .is_numbered_pod = true,
                  .known_by_host_name = true,
                  .counts_for_torchrun = true}},
      {.name = "tf_config",
       .evidence = "TF_CONFIG",
       .reading = TfConfigReading,
       .shown_as = "TF_CONFIG",
       .traits = {.label = "TF_CONFIG", .variables = {"TF_CONFIG"}, .job_variables = {"TF_CONFIG"}}},
      {.name = "batch",
       .evidence = "AWS_BATCH_JOB_NUM_NODES",
       .reading = Plain<ReadBatch>,
       .shown_as = "AWS Batch",
       .traits = {.label = "AWS Batch", .variables = {"AWS_BATCH_*"}}},
      // Most platforms and many scripts set MASTER_ADDR, RANK and so on, some for nodes and some for processes.
      {.name = "static",
       .evidence = "MASTER_ADDR",
       .reading = Plain<ReadStatic>,
       .shown_as = "variables set on each node",
       .yields_to_all = true,
       .traits = {.variables = {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES", "NUM_NODES", "NPROC_PER_NODE",
                                "RANK", "WORLD_SIZE"}}},
      // A single node of Slurm, or an allocation without a step, may be used to try out any other source.
      {.name = kSlurmNode,
       .evidence = "SLURM_JOB_ID",
       .reading = Plain<ReadSlurmNode>,
       .shown_as = "Slurm, on one node",
       .yields_to_all = true,
       .traits = {.label = "Slurm", .termination_grace = kSlurmGrace, .may_be_batch_script = true}},
      // A hostfile in an image exists on every platform. --source selects it explicitly.
      {.name = kHostfile,
       .evidence = kDefaultHostfile,
       .reading = HostfileReading,
       .shown_as = "a hostfile",
       .yields_to_all = true,
       .traits = {.starts_no_node_again = true, .is_host_list = true}},
  };
  return *table;
}

Reading Source::Read(const Evidence& evidence, const DiscoverOptions& options) const {
  Reading result = reading(evidence, options);
  if (result.ok() && result->has_value() && (*result)->source.empty()) (*result)->source = name;
  return result;
}

const Source* FindSource(std::string_view name) {
  for (const Source& source : Sources()) {
    if (source.name == name) return &source;
  }
  return nullptr;
}

const Traits& TraitsOf(std::string_view name) {
  static const auto* const none = new Traits;
  const Source* const source = FindSource(name);
  return source != nullptr ? source->traits : *none;
}

std::string SourceNames() {
  std::string names;
  for (const Source& source : Sources()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", source.name);
  }
  return names;
}

std::vector<std::string> LabelsOf(const std::function<bool(const Traits&)>& fits) {
  std::vector<std::string> labels;
  for (const Source& source : Sources()) {
    const bool known = std::find(labels.begin(), labels.end(), source.traits.label) != labels.end();
    if (!known && fits(source.traits)) labels.emplace_back(source.traits.label);
  }
  return labels;
}

bool InPod(std::string_view platform, const Environment& environment) {
  const auto has = [&](const char* variable) { return environment.count(variable) > 0; };
  const Traits& traits = TraitsOf(platform);
  if (traits.is_pod || (traits.pod_variable != nullptr && has(traits.pod_variable))) return true;
  return std::any_of(std::begin(kVariablesOfPods), std::end(kVariablesOfPods), has);
}

bool IsPlatformVariable(std::string_view variable) {
  return std::any_of(Sources().begin(), Sources().end(),
                     [&](const Source& source) { return FitsAny(source.traits.variables, variable); });
}

bool IsJobVariable(std::string_view variable) {
  return std::any_of(Sources().begin(), Sources().end(),
                     [&](const Source& source) { return FitsAny(source.traits.job_variables, variable); });
}

}  // namespace muster::discovery
