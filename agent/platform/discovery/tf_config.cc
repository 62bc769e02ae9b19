#include "agent/platform/discovery/tf_config.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/document.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"
#include "nlohmann/json.hpp"

namespace muster::discovery {
namespace {

using Json = nlohmann::json;

constexpr char kSource[] = "TF_CONFIG";
constexpr DocumentReader kConfig{kSource};
constexpr char kEvaluator[] = "evaluator";
constexpr char kJobId[] = "CLOUD_ML_JOB_ID";

constexpr char kSparse[] = "sparseCluster";
constexpr char kNoSparseForm[] =
    "this is TFJob's sparse form, which does not name the first worker: set enableDynamicWorker to false, or give "
    "--nnodes, --node-rank and --master-addr";

// The kinds of tasks, trainers first, in the order of ranks.
struct Kind {
  const char* name;
  bool trains;
};
constexpr Kind kKinds[] = {
    {"chief", true}, {"master", true}, {"worker", true}, {"ps", false}, {kEvaluator, false}};

struct Pool {
  std::string name;
  bool trains = false;
  std::vector<std::string> nodes;  // "host:port"
  std::vector<Address> addresses;
};

bool IsKind(const std::string& name) {
  return std::any_of(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return name == kind.name; });
}

absl::StatusOr<Pool> ReadPool(const Kind& kind, const Json& list) {
  const std::string field = absl::StrCat("cluster.", kind.name);
  if (list.is_object()) {
    return kConfig.Wrong(field, Spelled(list), "a list of all addresses, not an object with some of them",
                         kNoSparseForm);
  }
  if (!list.is_array()) return kConfig.Wrong(field, Spelled(list), "a list of \"host:port\"");
  Pool pool{kind.name, kind.trains, {}, {}};
  for (size_t i = 0; i < list.size(); ++i) {
    ASSIGN_OR_RETURN(Address address, kConfig.AddressOf(list[i], absl::StrCat(field, "[", i, "]")));
    pool.nodes.push_back(ToString(address.host, address.port.value_or(kDefaultRendezvousPort)));
    pool.addresses.push_back(std::move(address));
  }
  return pool;
}

absl::Status CheckChief(const Json& cluster) {
  const auto size = [&](const char* name) {
    const auto found = cluster.find(name);
    return found == cluster.end() ? size_t{0} : found->size();
  };
  const size_t chiefs = size("chief");
  const size_t masters = size("master");
  if (chiefs + masters <= 1) return absl::OkStatus();
  return kConfig.Wrong("cluster", absl::StrCat("one with ", chiefs, " chief and ", masters, " master"),
                       "one chief: there is one primary");
}

absl::Status CheckDistinct(const std::vector<Pool>& pools) {
  std::set<std::pair<std::string, uint16_t>> seen;
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.nodes.size(); ++i) {
      const uint16_t port = pool.addresses[i].port.value_or(kDefaultRendezvousPort);
      if (seen.emplace(HostKey(pool.addresses[i].host), port).second) continue;
      return kConfig.Wrong(absl::StrCat("cluster.", pool.name, "[", i, "]"), pool.nodes[i],
                           "an address of its own for each task, but another task has this one");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Pool>> ReadCluster(const Json& document) {
  if (document.contains(kSparse) && !document.contains("cluster")) {
    return kConfig.Wrong(kSparse, Spelled(document[kSparse]), "\"cluster\" with all addresses", kNoSparseForm);
  }
  ASSIGN_OR_RETURN(const Json* const cluster,
                   kConfig.ObjectIn(document, "cluster", "an object with lists named chief, worker, ps"));
  for (const auto& [name, list] : cluster->items()) {
    if (IsKind(name)) continue;
    return kConfig.Wrong("cluster." + Shown(name), Spelled(list),
                         "lists named chief (or master), worker, ps and evaluator");
  }
  std::vector<Pool> pools;
  for (const Kind& kind : kKinds) {
    const auto list = cluster->find(kind.name);
    if (list == cluster->end()) continue;
    ASSIGN_OR_RETURN(Pool pool, ReadPool(kind, *list));
    pools.push_back(std::move(pool));
  }
  RETURN_IF_ERROR(CheckChief(*cluster));
  const bool trained =
      std::any_of(pools.begin(), pools.end(), [](const Pool& p) { return p.trains && !p.nodes.empty(); });
  if (!trained)
    return kConfig.Wrong("cluster", Spelled(*cluster), "a chief or workers, of which one is the primary");
  RETURN_IF_ERROR(CheckDistinct(pools));
  return pools;
}

// This node's pool and index in it; an evaluator that is in no list has no pool.
struct Task {
  const Pool* pool = nullptr;
  int index = 0;
  std::string type;
  std::string trial;
};

absl::StatusOr<Task> ReadTask(const Json& document, const std::vector<Pool>& pools,
                              std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(const Json* const task,
                   kConfig.ObjectIn(document, "task", "an object with this task's \"type\" and \"index\""));
  const std::string expected = "the name of one of the lists in cluster, or evaluator";
  Task result;
  ASSIGN_OR_RETURN(result.type, kConfig.StringIn(*task, "type", "task.type", expected));
  ASSIGN_OR_RETURN(result.trial, kConfig.Trial(*task));
  const auto own =
      std::find_if(pools.begin(), pools.end(), [&](const Pool& pool) { return pool.name == result.type; });
  if (own == pools.end()) {
    if (result.type != kEvaluator) return kConfig.Wrong("task.type", result.type, expected);
    return result;
  }
  if (own->nodes.empty()) {
    return kConfig.Wrong("task.type", result.type, "a list that has tasks, but this one is empty");
  }
  result.pool = &*own;
  ASSIGN_OR_RETURN(result.index, kConfig.Index(*task, own->name, own->nodes.size(), warnings));
  return result;
}

absl::StatusOr<std::string> RunId(const Environment& environment, const ClusterView& view, const Task& task) {
  const auto job = environment.find(kJobId);
  std::string run_id = job == environment.end() ? "" : std::string(AsStd(absl::StripAsciiWhitespace(job->second)));
  RETURN_IF_ERROR(DocumentReader(kJobId).CheckId("", run_id));
  if (run_id.empty()) run_id = RunNameOf("tf-config", ToString(view.primary_host, view.primary_port));
  if (!task.trial.empty()) absl::StrAppend(&run_id, "-trial-", task.trial);
  return run_id;
}

}  // namespace

Reading ReadTfConfig(const Environment& environment) {
  const auto found = environment.find(kSource);
  if (found == environment.end()) return std::nullopt;
  const std::string_view text = AsStd(absl::StripAsciiWhitespace(found->second));
  if (text.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const Json document, kConfig.Parse(text, {kMaxTfConfigBytes, kMaxTfConfigDepth},
                                                      "a JSON object with \"cluster\" and \"task\""));
  if (!document.contains("cluster") && !document.contains("task")) return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<Pool> pools, ReadCluster(document));
  ClusterView view;
  ASSIGN_OR_RETURN(const Task task, ReadTask(document, pools, &view.warnings));

  view.role = NodeRole::kAux;
  view.may_have_aux = true;  // an evaluator may be in no list
  view.loopback_only = true;
  for (const Pool& pool : pools) {
    if (!pool.trains) continue;
    if (&pool == task.pool) {
      view.role = NodeRole::kTrainer;
      view.node_rank = static_cast<int>(view.nodes.size()) + task.index;
    }
    for (const Address& address : pool.addresses) {
      if (view.primary_host.empty()) {
        view.primary_host = address.host;
        view.primary_port = address.port.value_or(kDefaultRendezvousPort);
      }
      view.loopback_only = view.loopback_only && IsLoopback(address.host);
    }
    view.nodes.insert(view.nodes.end(), pool.nodes.begin(), pool.nodes.end());
  }
  view.nnodes = static_cast<int>(view.nodes.size());
  view.self = absl::StrCat(task.type, "-", task.index);
  ASSIGN_OR_RETURN(view.run_id, RunId(environment, view, task));
  return view;
}

}  // namespace muster::discovery
