#include "agent/platform/discovery/pbs.h"

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

constexpr char kNodeFile[] = "PBS_NODEFILE";
constexpr char kNodeNumber[] = "PBS_NODENUM";
constexpr char kTaskNumber[] = "PBS_TASKNUM";
constexpr char kPalsRank[] = "PALS_RANKID";
constexpr char kPalsLocalRank[] = "PALS_LOCAL_RANKID";
constexpr char kPalsLocalSize[] = "PALS_LOCAL_SIZE";
constexpr char kPmiSize[] = "PMI_SIZE";
constexpr char kBatchScriptsTask[] = "1";

constexpr char kStartOnEach[] =
    "in the batch script write `cp $PBS_NODEFILE hosts; pbsdsh -u -- env PBS_NODEFILE=$PWD/hosts muster run "
    "SCRIPT`, "
    "or `mpiexec -ppn 1 muster run SCRIPT` with HPE PALS; --standalone for this node alone";
constexpr char kCopyFile[] =
    "only the batch script's host has it: copy it to a folder that all hosts share, and set PBS_NODEFILE to the "
    "copy";
constexpr char kOnePerNode[] = "write mpiexec -ppn 1 muster run SCRIPT: muster starts the workers itself";

// Each host once, in the order of the file.
absl::StatusOr<std::vector<std::string>> HostsIn(const std::string& text) {
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(std::string host, HostIn(kNodeFile, std::string(AsStd(word))));
    if (!seen.insert(HostKey(host)).second) continue;
    if (static_cast<int>(hosts.size()) == kMaxNodes) {
      return ToStatus({kNodeFile, "", host, absl::StrCat("at most ", kMaxNodes, " hosts"), ""});
    }
    hosts.push_back(std::move(host));
  }
  if (!hosts.empty()) return hosts;
  return ToStatus({kNodeFile, "", "", "a file with a host per line", kStartOnEach});
}

// The place of a process of PALS' mpiexec, which must start one per host.
absl::Status TakePalsPlace(const Environment& environment, int hosts, ClusterView* view) {
  for (const auto& [variable, expected] : {std::pair(kPalsLocalRank, "0"), std::pair(kPalsLocalSize, "1")}) {
    const auto text = TextOf(environment, variable);
    if (text && *text != expected) {
      return ToStatus({variable, "", *text, absl::StrCat(expected, ", one process on each host"), kOnePerNode});
    }
  }
  view->nnodes = hosts;
  std::string count_source = kNodeFile;
  if (const auto size = TextOf(environment, kPmiSize)) {  // mpiexec may use a part of the hosts
    ASSIGN_OR_RETURN(view->nnodes, NumberIn(kPmiSize, *size, 1, hosts, kOnePerNode));
    count_source = kPmiSize;
  }
  ASSIGN_OR_RETURN(view->node_rank, RankIn(kPalsRank, TextOf(environment, kPalsRank).value_or(""), view->nnodes,
                                           count_source, kOnePerNode));
  return absl::OkStatus();
}

// The place of a task of pbsdsh.
absl::Status TakeTasksPlace(const Environment& environment, int hosts, ClusterView* view) {
  const auto task = TextOf(environment, kTaskNumber), number = TextOf(environment, kNodeNumber);
  if (!task || !number) {
    return ToStatus({task ? kNodeNumber : kTaskNumber, "", std::nullopt,
                     absl::StrCat("a task that PBS started on one of the ", hosts, " hosts of ", kNodeFile),
                     kStartOnEach});
  }
  if (*task == kBatchScriptsTask) {
    return ToStatus({kTaskNumber, "", *task,
                     absl::StrCat("one muster on each of the ", hosts, " hosts, but this is the batch script"),
                     kStartOnEach});
  }
  view->nnodes = hosts;
  ASSIGN_OR_RETURN(view->node_rank, RankIn(kNodeNumber, *number, hosts, kNodeFile, kStartOnEach));
  return absl::OkStatus();
}

}  // namespace

Reading ReadPbs(const Evidence& evidence, bool only_tasks) {
  const Environment& environment = evidence.environment;
  const auto path = TextOf(environment, kNodeFile);
  const bool of_pals = TextOf(environment, kPalsRank).has_value();
  if (!path) return std::nullopt;
  for (const char* other : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", kPmiSize}) {
    if (!of_pals && TextOf(environment, other)) return std::nullopt;
  }
  if (only_tasks && !of_pals &&
      TextOf(environment, kTaskNumber).value_or(kBatchScriptsTask) == kBatchScriptsTask) {
    return std::nullopt;
  }
  const absl::StatusOr<std::string> text = evidence.read_file(*path, kMaxNodeFileBytes);
  if (!text.ok()) return UnreadableFile(kNodeFile, *path, text.status(), kCopyFile);
  ASSIGN_OR_RETURN(std::vector<std::string> hosts, HostsIn(*text));
  const int count = static_cast<int>(hosts.size());
  if (count == 1) return std::nullopt;
  ClusterView view;
  RETURN_IF_ERROR(of_pals ? TakePalsPlace(environment, count, &view) : TakeTasksPlace(environment, count, &view));
  if (view.nnodes == 1) return std::nullopt;
  view.primary_host = hosts.front();
  view.primary_port = kDefaultRendezvousPort;
  view.loopback_only = IsLoopback(view.primary_host);
  // A part of the hosts need not be the first ones in the file, except for the first one.
  if (view.nnodes == count && count <= kMaxNamedNodes) {
    for (const std::string& host : hosts) view.nodes.push_back(ToString(host, view.primary_port));
    view.self = hosts[static_cast<size_t>(view.node_rank)];
  }
  view.run_id = RunNameOf("pbs", TextOf(environment, "PBS_JOBID").value_or(view.primary_host));
  return view;
}

}  // namespace muster::discovery
