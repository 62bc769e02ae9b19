#include "agent/platform/discovery/slurm.h"

#include <algorithm>
#include <climits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/nodelist.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kJobId[] = "SLURM_JOB_ID";
constexpr char kStepNodes[] = "SLURM_STEP_NODELIST";
constexpr char kStepCount[] = "SLURM_STEP_NUM_NODES";
constexpr char kStepTasks[] = "SLURM_STEP_NUM_TASKS";
constexpr char kTasks[] = "SLURM_NTASKS";  // outside of a step: of the allocation
constexpr char kStepTasksPerNode[] = "SLURM_STEP_TASKS_PER_NODE";
constexpr char kNodeId[] = "SLURM_NODEID";
constexpr char kLocalId[] = "SLURM_LOCALID";
constexpr char kNodeName[] = "SLURMD_NODENAME";
constexpr char kGroups[] = "SLURM_HET_SIZE";
constexpr char kLaunchAddress[] = "SLURM_LAUNCH_NODE_IPADDR";  // set only by srun
constexpr int kMaxTasks = INT_MAX;
constexpr uint64_t kStepStride = 101;  // distance between the ports of two consecutive steps of a job
// If one of these is set, it restricts the devices of a task, and counting devices takes it into account.
constexpr const char* kDeviceLists[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                        "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"};

class SlurmReader {
 public:
  explicit SlurmReader(const Environment& environment) : environment_(environment) {}

  bool IsStep() const { return Find(kStepNodes) || Find(kLaunchAddress) || Find(kStepCount); }

  // Returns the number of nodes of the step.
  absl::StatusOr<size_t> ReadNodes() {
    const auto list = Find(kStepNodes);
    if (!list) return Missing(kStepNodes, "the names of the step's nodes, which srun sets");
    ASSIGN_OR_RETURN(nodes_, ExpandNodelist(kStepNodes, *list));
    const int count = static_cast<int>(nodes_.size());
    ASSIGN_OR_RETURN(const std::optional<int> stated, Number(kStepCount, 1, static_cast<int>(kMaxNodelistHosts)));
    if (!stated || *stated == count) return nodes_.size();
    return ToStatus({kStepCount, "", absl::StrCat(*stated),
                     absl::StrCat(count, ", the number of nodes in ", kStepNodes, " (", Shown(*list), ")"), ""});
  }

  // Call after ReadNodes().
  Reading Step() {
    ASSIGN_OR_RETURN(const std::optional<int> rank, Number(kNodeId, 0, static_cast<int>(nodes_.size()) - 1));
    if (!rank) return Missing(kNodeId, "this node's number in the step, which srun sets");
    RETURN_IF_ERROR(CheckOneTask(*rank));
    ClusterView view;
    view.node_rank = *rank;
    view.self = nodes_[static_cast<size_t>(*rank)];
    RETURN_IF_ERROR(CheckNodeName(&view));
    RETURN_IF_ERROR(NameRun(&view));
    TakeNodes(&view);
    TakeGpus(&view);
    return view;
  }

  Reading Batch() {
    if (!Find(kJobId)) return std::nullopt;
    ASSIGN_OR_RETURN(const std::optional<int> groups, Number(kGroups, 1, static_cast<int>(kMaxNodelistHosts)));
    if (groups.value_or(1) > 1) {
      return WithoutSrun(absl::StrCat(kGroups, " is ", *groups),
                         "srun --het-group=GROUP --ntasks-per-node=1 muster run SCRIPT");
    }
    ASSIGN_OR_RETURN(const Allocated nodes, AllocatedNodes());
    if (nodes.count == 0) return std::nullopt;
    if (nodes.count > 1) return WithoutSrun(nodes.evidence, Srun(nodes.count));
    ClusterView view;
    view.node_rank = 0;
    RETURN_IF_ERROR(NameRun(&view));
    nodes_ = {"localhost"};
    TakeNodes(&view);
    view.nodes.clear();
    TakeGpus(&view);
    view.warnings.push_back(absl::StrCat(
        kStepNodes, " is missing: the job runs on this node alone; to run in a step of the job, write ", Srun(1)));
    return view;
  }

 private:
  std::optional<std::string> Find(const char* variable) const { return TextOf(environment_, variable); }

  static absl::Status Missing(const char* variable, std::string expected) {
    return ToStatus({variable, "", std::nullopt, std::move(expected), ""});
  }

  // nullopt: not set.
  absl::StatusOr<std::optional<int>> Number(const char* variable, int low, int high) const {
    const auto text = Find(variable);
    if (!text) return std::optional<int>();
    ASSIGN_OR_RETURN(const int number, NumberIn(variable, *text, low, high));
    return std::optional<int>(number);
  }

  // The command for one task on each of `count` nodes, whatever options the allocation has.
  static std::string Srun(int count, const std::string& options = "") {
    return absl::StrFormat(
        "srun --nodes=%d --ntasks=%d --ntasks-per-node=1 --kill-on-bad-exit=0 muster run %sSCRIPT", count, count,
        options);
  }

  // Several tasks on one node would each act as a node, so all of them are refused, including the first.
  absl::Status CheckOneTask(int rank) const {
    const int count = static_cast<int>(nodes_.size());
    ASSIGN_OR_RETURN(const std::optional<int> local, Number(kLocalId, 0, kMaxTasks));
    if (local && *local > 0) return ManyTasks(kLocalId, *local, "0", rank);
    const char* const variable = Find(kStepTasks) ? kStepTasks : kTasks;
    ASSIGN_OR_RETURN(const std::optional<int> tasks, Number(variable, 1, kMaxTasks));
    if (!tasks || *tasks <= count) return absl::OkStatus();
    return ManyTasks(variable, *tasks, absl::StrCat(count, ", one on each node"), rank);
  }

  absl::Status ManyTasks(const char* variable, int value, const std::string& expected, int rank) const {
    std::string workers;
    if (const auto text = Find(kStepTasksPerNode)) {
      const auto counts = ExpandCounts(kStepTasksPerNode, *text);
      const size_t place = static_cast<size_t>(rank);
      if (counts.ok() && place < counts->size() && (*counts)[place] > 1) {
        workers = absl::StrCat("--nproc-per-node ", (*counts)[place], " ");
      }
    }
    return ToStatus(
        {variable, "", absl::StrCat(value),
         absl::StrCat(expected, ": muster is started once on each node, and starts the workers itself"),
         "write " + Srun(static_cast<int>(nodes_.size()), workers)});
  }

  // Detects variables that were inherited from another job's step, or copied by ssh from another node.
  absl::Status CheckNodeName(ClusterView* view) const {
    const auto name = Find(kNodeName);
    if (!name || *name == view->self) return absl::OkStatus();
    if (std::find(nodes_.begin(), nodes_.end(), *name) == nodes_.end()) {
      return ToStatus({kNodeName, "", *name,
                       absl::StrCat("one of ", kStepNodes, ", which seems to be that of another step"),
                       "write " + Srun(static_cast<int>(nodes_.size()))});
    }
    view->warnings.push_back(absl::StrCat(kNodeId, " is ", view->node_rank, ", which is ", Shown(view->self),
                                          ", but ", kNodeName, " is ", Shown(*name),
                                          ": were the variables copied from another node, as by ssh?"));
    return absl::OkStatus();
  }

  // An id of Slurm, a number below 2^32; the steps of batch and salloc have ids near that.
  absl::StatusOr<uint64_t> Id(const char* variable) const {
    const auto text = Find(variable);
    uint64_t id = 0;
    if (!text || (absl::SimpleAtoi(*text, &id) && id <= UINT32_MAX)) return id;
    return ToStatus({variable, "", *text, "a number, as Slurm gives to jobs and steps", ""});
  }

  // Each step, and each requeue of a job, gets its own run id, so that leftover nodes of an earlier one are
  // refused.
  absl::Status NameRun(ClusterView* view) {
    ASSIGN_OR_RETURN(const uint64_t job, Id(kJobId));
    ASSIGN_OR_RETURN(const uint64_t step, Id("SLURM_STEP_ID"));
    ASSIGN_OR_RETURN(const uint64_t requeues, Id("SLURM_RESTART_COUNT"));
    if (!Find(kJobId)) return Missing(kJobId, "the job's number, which srun sets");
    view->run_id = absl::StrCat(job);
    if (step > 0) absl::StrAppend(&view->run_id, ".", step);
    if (requeues > 0) absl::StrAppend(&view->run_id, "-requeue-", requeues);
    view->primary_port = static_cast<uint16_t>(kFirstSlurmPort + (job + step * kStepStride) % kSlurmPorts);
    return absl::OkStatus();
  }

  void TakeNodes(ClusterView* view) const {
    view->primary_host = nodes_.front();
    view->nnodes = static_cast<int>(nodes_.size());
    view->loopback_only = std::all_of(nodes_.begin(), nodes_.end(), IsLoopback);
    for (const std::string& node : nodes_) view->nodes.push_back(ToString(node, view->primary_port));
  }

  void TakeGpus(ClusterView* view) const {
    const auto text = Find("SLURM_GPUS_ON_NODE");
    int gpus = 0;
    if (!text || !absl::SimpleAtoi(*text, &gpus) || gpus < 1 || gpus > kMaxGpusPerNode) return;
    const auto is_set = [this](const char* variable) { return environment_.count(variable) > 0; };
    if (std::none_of(std::begin(kDeviceLists), std::end(kDeviceLists), is_set)) view->nproc = absl::StrCat(gpus);
  }

  struct Allocated {
    std::string evidence;  // for messages: "SLURM_JOB_NUM_NODES is 4"
    int count = 0;
  };

  // A count of 0: not known.
  absl::StatusOr<Allocated> AllocatedNodes() const {
    for (const char* variable : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) {
      ASSIGN_OR_RETURN(const std::optional<int> count, Number(variable, 1, static_cast<int>(kMaxNodelistHosts)));
      if (count) return Allocated{absl::StrCat(variable, " is ", *count), *count};
    }
    for (const char* variable : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
      const auto list = Find(variable);
      if (!list) continue;
      ASSIGN_OR_RETURN(const std::vector<std::string> nodes, ExpandNodelist(variable, *list));
      const int count = static_cast<int>(nodes.size());
      return Allocated{absl::StrCat(variable, " names ", count), count};
    }
    return Allocated();
  }

  static absl::Status WithoutSrun(const std::string& evidence, const std::string& line) {
    return ToStatus({kStepNodes, "", std::nullopt,
                     absl::StrCat("srun to start muster on each node, since ", evidence,
                                  " and this muster was started outside of a step"),
                     "write " + line});
  }

  const Environment& environment_;
  std::vector<std::string> nodes_;
};

}  // namespace

Reading ReadSlurm(const Evidence& evidence) {
  SlurmReader reader(evidence.environment);
  if (!reader.IsStep()) return std::nullopt;
  ASSIGN_OR_RETURN(const size_t nodes, reader.ReadNodes());
  return nodes > 1 ? reader.Step() : std::nullopt;
}

Reading ReadSlurmNode(const Evidence& evidence) {
  SlurmReader reader(evidence.environment);
  if (!reader.IsStep()) return reader.Batch();
  ASSIGN_OR_RETURN(const size_t nodes, reader.ReadNodes());
  return nodes == 1 ? reader.Step() : std::nullopt;
}

bool IsStepOfSeveralNodes(const Environment& environment) {
  const absl::StatusOr<size_t> nodes = SlurmReader(environment).ReadNodes();
  return nodes.ok() && *nodes > 1;
}

}  // namespace muster::discovery
