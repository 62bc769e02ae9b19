#include "agent/platform/discovery/volcano.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

constexpr char kTaskIndex[] = "VC_TASK_INDEX";
constexpr char kOldTaskIndex[] = "VK_TASK_INDEX";
constexpr char kRunPrefix[] = "volcano";  // of run ids
constexpr char kUsePlugin[] =
    "add `pytorch: []` to the job's plugins, which sets MASTER_ADDR, RANK and WORLD_SIZE; or give --nnodes, "
    "--node-rank and --master-addr";

// Variables VC_<TASK>_HOSTS.
std::vector<std::string> HostLists(const Environment& environment) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environment) {
    if (absl::StartsWith(name, "VC_") && absl::EndsWith(name, "_HOSTS") && !value.empty()) names.push_back(name);
  }
  return names;
}

absl::StatusOr<ClusterView> ByPlugin(const Environment& environment) {
  ClusterView view;
  for (const char* variable : {"MASTER_ADDR", "RANK"}) {
    if (!TextOf(environment, variable)) {
      return ToStatus({variable, "", std::nullopt, "the value that Volcano's plugin pytorch sets", kUsePlugin});
    }
  }
  ASSIGN_OR_RETURN(view.nnodes, RequiredNumber(environment, "WORLD_SIZE", 1, kMaxNodes, kUsePlugin));
  ASSIGN_OR_RETURN(view.primary_host, HostIn("MASTER_ADDR", *TextOf(environment, "MASTER_ADDR")));
  ASSIGN_OR_RETURN(view.primary_port, PortOr(environment, "MASTER_PORT", kTorchPort));
  ASSIGN_OR_RETURN(view.node_rank, RankIn("RANK", *TextOf(environment, "RANK"), view.nnodes,
                                          absl::StrCat("WORLD_SIZE ", view.nnodes, ", which counts pods here")));
  RETURN_IF_ERROR(CheckReachable("MASTER_ADDR", view));
  return view;
}

absl::StatusOr<ClusterView> ByHosts(const std::string& variable, const std::string& list,
                                    const std::string& index) {
  ClusterView view;
  view.primary_port = kDefaultRendezvousPort;
  std::set<std::string> seen;
  for (const absl::string_view entry : absl::StrSplit(list, ',')) {
    if (static_cast<int>(view.nodes.size()) == kMaxNodes) {
      return ToStatus({variable, "", list, absl::StrCat("at most ", kMaxNodes, " hosts"), ""});
    }
    const std::string_view name = AsStd(absl::StripAsciiWhitespace(entry));
    if (name.empty()) return ToStatus({variable, "", list, "host names with single commas between them", ""});
    ASSIGN_OR_RETURN(const std::string host, HostIn(variable, std::string(name)));
    if (!seen.insert(HostKey(host)).second) return ToStatus({variable, "", host, "each host once", ""});
    if (view.nodes.empty()) view.primary_host = host;
    view.nodes.push_back(ToString(host, view.primary_port));
  }
  view.nnodes = static_cast<int>(view.nodes.size());
  ASSIGN_OR_RETURN(view.node_rank, RankIn(kTaskIndex, index, view.nnodes, Shown(variable)));
  return view;
}

// VC_<TASK>_NUM beside VC_<TASK>_HOSTS, where it is set.
absl::Status CheckCount(const Environment& environment, const std::string& hosts, int count) {
  const std::string variable = absl::StrCat(absl::StripSuffix(hosts, "HOSTS"), "NUM");
  const auto text = TextOf(environment, variable);
  if (!text || *text == absl::StrCat(count)) return absl::OkStatus();
  return ToStatus({variable, "", *text, absl::StrCat(count, ", the number of hosts in ", Shown(hosts)), ""});
}

}  // namespace

Reading ReadVolcano(const Evidence& evidence) {
  const Environment& environment = evidence.environment;
  if (!IsSet(environment, kTaskIndex) && !IsSet(environment, kOldTaskIndex)) return std::nullopt;
  absl::StatusOr<ClusterView> view = ClusterView();
  const std::vector<std::string> lists = HostLists(environment);
  if (IsSet(environment, "WORLD_SIZE") || lists.empty()) {
    // A task of one pod without plugins is not a cluster.
    if (!IsSet(environment, "WORLD_SIZE") && !IsSet(environment, "MASTER_ADDR")) return std::nullopt;
    view = ByPlugin(environment);
  } else if (lists.size() > 1 && TextOf(environment, "TF_CONFIG")) {
    return std::nullopt;  // the plugin tensorflow describes the job in TF_CONFIG
  } else if (lists.size() > 1) {
    return ToStatus({"WORLD_SIZE", "", std::nullopt,
                     absl::StrCat("the number of pods of all ", lists.size(), " tasks, since ", kTaskIndex,
                                  " counts within one task"),
                     kUsePlugin});
  } else {
    const auto index = TextOf(environment, kTaskIndex);
    view = ByHosts(lists.front(), environment.at(lists.front()),
                   index ? *index : TextOf(environment, kOldTaskIndex).value_or(""));
    if (view.ok()) RETURN_IF_ERROR(CheckCount(environment, lists.front(), view->nnodes));
  }
  if (!view.ok()) return view.status();
  view->loopback_only = IsLoopback(view->primary_host);
  view->self = TextOf(environment, "HOSTNAME").value_or("");
  view->run_id = RunNameOf(kRunPrefix, view->primary_host);
  return *std::move(view);
}

}  // namespace muster::discovery
