// Works in three steps: from text to a JSON document, to a validated Spec, to a ClusterView. Each step refuses
// what it does not understand, so that the next one need not check again.
#include "agent/platform/discovery/vertex.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/platform/discovery/address.h"
#include "agent/platform/discovery/document.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"
#include "nlohmann/json.hpp"

namespace muster::discovery {
namespace {

using Json = nlohmann::json;

constexpr char kSource[] = "CLUSTER_SPEC";
constexpr DocumentReader kSpec{kSource};
constexpr char kChief[] = "chief";
constexpr absl::string_view kPoolPrefix = "workerpool";
constexpr int kMaxPoolNumber = 99;
constexpr int kLastTrainingPool = 1;

struct Replica {
  std::string host;
  uint16_t port = 0;
};

struct Pool {
  std::string name;
  int number = 0;
  std::vector<Replica> replicas;
};

struct Spec {
  std::vector<Pool> pools;  // by number; pool 0 has one replica
  size_t own_pool = 0;      // in `pools`
  int own_index = 0;
  std::string trial;
  std::vector<std::string> warnings;
};

// ---- The cluster ----

// 0 for chief, N for workerpoolN, nullopt for any other name.
std::optional<int> PoolNumber(const std::string& name) {
  if (name == kChief) return 0;
  if (!absl::StartsWith(name, kPoolPrefix)) return std::nullopt;
  const std::string digits = name.substr(kPoolPrefix.size());
  int number = 0;
  const bool plain = absl::SimpleAtoi(digits, &number) && std::to_string(number) == digits;
  if (!plain || number < 0 || number > kMaxPoolNumber) return std::nullopt;
  return number;
}

// The port for addresses without one, and its origin.
struct FallbackPort {
  uint16_t port = kDefaultRendezvousPort;
  std::string origin = "muster's default";
};

FallbackPort ReadOpenPorts(const Json& document, std::vector<std::string>* warnings) {
  FallbackPort fallback;
  const auto found = document.find("open_ports");
  if (found == document.end() || found->is_null()) return fallback;
  if (!found->is_array()) {
    warnings->push_back(absl::StrCat(kSource, ": open_ports is ", Shown(AsJson(*found)),
                                     ": expected a list of ports; it is ignored"));
    return fallback;
  }
  bool taken = false;
  size_t ignored = 0;
  std::string first_ignored;
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& entry = (*found)[i];
    const bool valid = entry.is_number_unsigned() && entry.get<uint64_t>() >= 1 && entry.get<uint64_t>() <= 65535;
    if (!valid && ++ignored == 1) first_ignored = absl::StrCat("open_ports[", i, "] is ", Shown(AsJson(entry)));
    if (!valid || taken) continue;
    taken = true;
    fallback = {entry.get<uint16_t>(), absl::StrCat("open_ports[", i, "]")};
  }
  if (ignored > 0) {
    warnings->push_back(absl::StrCat(kSource, ": ", first_ignored,
                                     ": expected a port from 1 to 65535; it is ignored",
                                     ignored > 1 ? absl::StrCat(", as are ", ignored - 1, " more like it") : ""));
  }
  return fallback;
}

absl::StatusOr<Replica> ReadReplica(const Json& entry, const std::string& field, const FallbackPort& fallback,
                                    std::vector<std::string>* warnings) {
  const absl::StatusOr<Address> address = kSpec.AddressOf(entry, field);
  if (!address.ok()) return address.status();
  if (!address->port.has_value() && warnings->empty()) {
    warnings->push_back(absl::StrCat(kSource, ": ", field, " is ", Shown(address->host),
                                     ", without a port: ", fallback.port, " is used (", fallback.origin, ")"));
  }
  return Replica{address->host, address->port.value_or(fallback.port)};
}

absl::StatusOr<Pool> ReadPool(const std::string& name, const Json& list, const FallbackPort& fallback,
                              std::vector<std::string>* port_warnings) {
  const std::string field = absl::StrCat("cluster.", Shown(name));
  if (name == "worker_pools") {
    return kSpec.Wrong(
        field, Spelled(list), "cluster.workerpool0, cluster.workerpool1, ...",
        "this is the old beta format, which is not read; give --nnodes, --node-rank and --master-addr");
  }
  const std::optional<int> number = PoolNumber(name);
  if (!number.has_value()) {
    return kSpec.Wrong(
        field, Spelled(list), "pools named workerpool0, workerpool1, ... or chief",
        "this is not Vertex AI's format; unset CLUSTER_SPEC and give --nnodes, --node-rank and --master-addr");
  }
  if (!list.is_array()) return kSpec.Wrong(field, Spelled(list), "a list of \"host:port\"");
  Pool pool{name, *number, {}};
  pool.replicas.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    ASSIGN_OR_RETURN(Replica replica,
                     ReadReplica(list[i], absl::StrCat(field, "[", i, "]"), fallback, port_warnings));
    pool.replicas.push_back(std::move(replica));
  }
  return pool;
}

absl::Status CheckPrimary(const std::vector<Pool>& pools) {
  if (pools.empty() || pools.front().number != 0) {
    return kSpec.Missing("cluster.workerpool0", "the primary's pool, of exactly one replica (or chief)");
  }
  if (pools.size() > 1 && pools[1].number == 0) {
    return kSpec.Wrong("cluster", "one with both chief and workerpool0", "one of the two: there is one primary");
  }
  const size_t count = pools.front().replicas.size();
  if (count != 1) {
    return kSpec.Wrong(absl::StrCat("cluster.", pools.front().name),
                       absl::StrCat("a list of ", count, " replicas"), "exactly one replica, the primary");
  }
  return absl::OkStatus();
}

absl::Status CheckDistinct(const std::vector<Pool>& pools) {
  std::set<std::pair<std::string, uint16_t>> seen;
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.replicas.size(); ++i) {
      const Replica& replica = pool.replicas[i];
      if (seen.emplace(HostKey(replica.host), replica.port).second) continue;
      return kSpec.Wrong(absl::StrCat("cluster.", pool.name, "[", i, "]"), ToString(replica.host, replica.port),
                         "an address of its own for each replica, but another replica has this one");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadCluster(const Json& document, Spec* spec) {
  ASSIGN_OR_RETURN(
      const Json* const cluster,
      kSpec.ObjectIn(document, "cluster", "an object with a list of \"host:port\" for each worker pool"));
  const FallbackPort fallback = ReadOpenPorts(document, &spec->warnings);
  std::vector<std::string> port_warnings;  // at most one for all replicas without ports
  for (const auto& [name, list] : cluster->items()) {
    ASSIGN_OR_RETURN(Pool pool, ReadPool(name, list, fallback, &port_warnings));
    spec->pools.push_back(std::move(pool));
  }
  std::sort(spec->pools.begin(), spec->pools.end(),
            [](const Pool& a, const Pool& b) { return std::tie(a.number, a.name) < std::tie(b.number, b.name); });
  spec->warnings.insert(spec->warnings.end(), port_warnings.begin(), port_warnings.end());
  RETURN_IF_ERROR(CheckPrimary(spec->pools));
  return CheckDistinct(spec->pools);
}

// ---- This replica ----

absl::Status ReadIndex(const Json& task, Spec* spec) {
  const Pool& pool = spec->pools[spec->own_pool];
  const size_t count = pool.replicas.size();
  if (count == 0) {
    return kSpec.Wrong("task.type", pool.name, "a pool that has replicas, but this one's list is empty");
  }
  ASSIGN_OR_RETURN(spec->own_index, kSpec.Index(task, pool.name, count, &spec->warnings));
  return absl::OkStatus();
}

absl::Status ReadTask(const Json& document, Spec* spec) {
  ASSIGN_OR_RETURN(const Json* const task,
                   kSpec.ObjectIn(document, "task", "an object with this replica's \"type\" and \"index\""));
  const auto type = task->find("type");
  const auto name_of = [](std::string* out, const Pool& pool) { out->append(pool.name); };
  const std::string expected = absl::StrCat("the name of this replica's pool, one of those in cluster: ",
                                            absl::StrJoin(spec->pools, ", ", name_of));
  if (type == task->end()) return kSpec.Missing("task.type", expected);
  if (!type->is_string()) return kSpec.Wrong("task.type", Spelled(*type), expected);
  const auto own = std::find_if(spec->pools.begin(), spec->pools.end(), [&](const Pool& pool) {
    return pool.name == type->get_ref<const std::string&>();
  });
  if (own == spec->pools.end()) return kSpec.Wrong("task.type", Spelled(*type), expected);
  spec->own_pool = static_cast<size_t>(own - spec->pools.begin());
  RETURN_IF_ERROR(ReadIndex(*task, spec));
  ASSIGN_OR_RETURN(spec->trial, kSpec.Trial(*task));
  return absl::OkStatus();
}

// ---- The view ----

// Equal on all replicas, since every spec has the same primary. Different for each job, since Vertex AI puts a new
// id into each job's host names.
std::string NameByPrimary(const Replica& primary) {
  return RunNameOf("vertex", ToString(primary.host, primary.port));
}

// The content of bucket B is mounted at /gcs/B.
constexpr std::string_view kBucketScheme = "gs://", kBucketFolder = "/gcs/";
constexpr std::pair<const char*, const char*> kFolders[] = {
    {"AIP_MODEL_DIR", "OUTPUT_FOLDER"},
    {"AIP_CHECKPOINT_DIR", "CHKPTS_FOLDER"},
    {"AIP_TENSORBOARD_LOG_DIR", "JOBLOGS_FOLDER"},
};

// Each replica is a Kubernetes Service, whose address every container has in the variable NAME_SERVICE_HOST.
std::string ServiceAddress(const Environment& environment, const std::string& name) {
  std::string variable = absl::AsciiStrToUpper(name.substr(0, name.find('.')));
  std::replace(variable.begin(), variable.end(), '-', '_');
  const auto found = environment.find(variable + "_SERVICE_HOST");
  return found != environment.end() && IsLiteral(found->second) ? found->second : "";
}

absl::StatusOr<std::string> RunId(const Environment& environment, const Spec& spec) {
  const auto job = environment.find("CLOUD_ML_JOB_ID");
  std::string run_id = job == environment.end() ? "" : std::string(AsStd(absl::StripAsciiWhitespace(job->second)));
  RETURN_IF_ERROR(DocumentReader("CLOUD_ML_JOB_ID").CheckId("", run_id));
  if (run_id.empty()) run_id = NameByPrimary(spec.pools.front().replicas.front());
  if (!spec.trial.empty()) absl::StrAppend(&run_id, "-trial-", spec.trial);
  return run_id;
}

ClusterView ViewOf(const Spec& spec, const VertexOptions& options) {
  ClusterView view;
  const Replica& primary = spec.pools.front().replicas.front();
  view.primary_host = primary.host;
  view.primary_port = primary.port;
  view.role = NodeRole::kAux;
  view.loopback_only = true;
  for (size_t p = 0; p < spec.pools.size(); ++p) {
    const Pool& pool = spec.pools[p];
    if (pool.number > kLastTrainingPool && !options.all_pools) {
      view.may_have_aux = view.may_have_aux || !pool.replicas.empty();
      continue;
    }
    if (p == spec.own_pool) {
      view.role = NodeRole::kTrainer;
      view.node_rank = static_cast<int>(view.nodes.size()) + spec.own_index;
    }
    for (const Replica& replica : pool.replicas) {
      view.nodes.push_back(ToString(replica.host, replica.port));
      view.loopback_only = view.loopback_only && IsLoopback(replica.host);
    }
  }
  view.nnodes = static_cast<int>(view.nodes.size());
  view.self = absl::StrCat(spec.pools[spec.own_pool].name, "-", spec.own_index);
  view.warnings = spec.warnings;
  return view;
}

}  // namespace

void TakeVertexFolders(const Environment& environment, ClusterView* view) {
  for (const auto& [platforms, workers] : kFolders) {
    const auto found = environment.find(platforms);
    if (found == environment.end() || !absl::StartsWith(found->second, AsAbsl(kBucketScheme))) continue;
    view->for_workers[workers] = absl::StrCat(AsAbsl(kBucketFolder), found->second.substr(kBucketScheme.size()));
  }
}

Reading ReadVertex(const Environment& environment, const VertexOptions& options) {
  const auto found = environment.find(kSource);
  if (found == environment.end()) return std::nullopt;
  // Real values end with blanks. A blank value counts as absent.
  const std::string_view text = AsStd(absl::StripAsciiWhitespace(found->second));
  if (text.empty()) return std::nullopt;

  ASSIGN_OR_RETURN(const Json document, kSpec.Parse(text, {kMaxClusterSpecBytes, kMaxClusterSpecDepth},
                                                    "a JSON object with \"cluster\" and \"task\""));
  Spec spec;
  RETURN_IF_ERROR(ReadCluster(document, &spec));
  RETURN_IF_ERROR(ReadTask(document, &spec));
  ClusterView view = ViewOf(spec, options);
  view.primary_address = ServiceAddress(environment, view.primary_host);
  TakeVertexFolders(environment, &view);
  ASSIGN_OR_RETURN(view.run_id, RunId(environment, spec));
  return view;
}

}  // namespace muster::discovery
