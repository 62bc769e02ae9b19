#include "cli/env/env_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "agent/platform/discovery/sources.h"
#include "base/core/status_macros.h"
#include "base/proc/marker.h"
#include "base/text/mask_secrets.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "cli/options/option_table.h"
#include "cli/plan/make_plan.h"
#include "rendezvous/transport/serving.h"

namespace muster::cli {
namespace {

constexpr size_t kMaxNodesShown = 8;  // in the table; JSON has all of them
constexpr int kNameColumns = 23;      // width of the longest option name
constexpr int kValueColumns = 28;     // the origin of a wider value stands on the next line

// Variables beside those of platforms that affect muster or its workers.
constexpr const char* kPrefixes[] = {"MUSTER_", "PET_",  "TORCHELASTIC_", "TORCH_",
                                     "NCCL_",   "GLOO_", "CUDA_",         "NVIDIA_"};
constexpr const char* kNames[] = {"LOCAL_RANK",      "LOCAL_WORLD_SIZE",  "GROUP_RANK",
                                  "PYTHON_EXEC",     "VIRTUAL_ENV",       "CONDA_PREFIX",
                                  "OMP_NUM_THREADS", "GCE_METADATA_HOST", "AWS_EC2_METADATA_SERVICE_ENDPOINT"};

bool IsRelevant(const std::string& name) {
  const auto begins = [&](const char* prefix) { return absl::StartsWith(name, prefix); };
  const auto is = [&](const char* other) { return name == other; };
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins) ||
         std::any_of(std::begin(kNames), std::end(kNames), is) || discovery::IsPlatformVariable(name);
}

// How a worker's environment differs from muster's own.
struct WorkersGet {
  Environment set;                // as they are in every round
  std::set<std::string> by_rank;  // whose values depend on the round and the rank
  std::vector<std::string> dropped;
};

WorkersGet ShowWorkers(const EnvReport& report) {
  const host::WorkerEnvironmentOptions& options = report.plan.launch.environment;
  WorkersGet workers;
  workers.by_rank = host::VariablesOfAWorker(options);
  Environment common = host::CommonEnvironment(options, report.environment);
  common.erase(kMarkerVariable);  // which each start draws anew
  const Environment& own = report.environment;
  for (const auto& [name, value] : common) {
    const auto inherited = own.find(name);
    if (inherited == own.end() || inherited->second != value) workers.set.emplace(name, value);
  }
  for (const auto& [name, value] : own) {
    if (!common.contains(name) && !workers.by_rank.contains(name)) workers.dropped.push_back(name);
  }
  workers.set = MaskSecrets(workers.set);
  return workers;
}

void AddWorkers(const WorkersGet& workers, std::string* out) {
  absl::StrAppend(out, "\nWorkers get muster's own environment, with:\n");
  for (const auto& [name, value] : workers.set) absl::StrAppend(out, OneLine(name), "=", OneLine(value), "\n");
  absl::StrAppend(out, "for each round and rank: ", absl::StrJoin(workers.by_rank, ", "), "\n");
  if (workers.dropped.empty()) return;
  absl::StrAppend(out, "without: ", OneLine(absl::StrJoin(workers.dropped, ", ")), "\n");
}

Environment Shown(const Environment& environment) {
  Environment relevant;
  for (const auto& [name, value] : environment) {
    if (IsRelevant(name)) relevant.emplace(name, value);
  }
  return MaskSecrets(relevant);
}

std::string RoleName(const RunPlan& plan) {
  return plan.view.role == discovery::NodeRole::kTrainer ? "trainer" : "aux";
}

void Row(const std::string& name, const std::string& value, const std::string& origin, std::string* out) {
  const std::string left = absl::StrFormat("%-*s ", kNameColumns, name);
  if (origin.empty()) {
    absl::StrAppend(out, left, value, "\n");
  } else if (value.size() > size_t{kValueColumns}) {
    absl::StrAppend(out, left, value, "\n", std::string(left.size(), ' '), "(", origin, ")\n");
  } else {
    absl::StrAppend(out, left, absl::StrFormat("%-*s ", kValueColumns, value), origin, "\n");
  }
}

// The variable or file that identifies the source, such as CLUSTER_SPEC; empty for options and if there is no
// source.
std::string EvidenceOf(const discovery::ClusterView& view) {
  if (!view.evidence.empty()) return view.evidence;
  const discovery::Source* const source = discovery::FindSource(view.source);
  return source == nullptr ? "" : source->evidence;
}

// The name of the source for people.
std::string PlatformName(const std::string& name) {
  if (name == discovery::kFromOptions) return "options or their variables";
  if (name == discovery::kSingleNode) return "no platform was found";
  const discovery::Source* const source = discovery::FindSource(name);
  return source == nullptr ? name : source->shown_as;
}

std::string DescribeSource(const RunPlan& plan) {
  const std::string& source = plan.view.source;
  if (source == discovery::kSingleNode) return "Nothing here names other nodes, so this is a single-node job.";
  if (source == discovery::kFromOptions) return "The membership comes from options or their variables.";
  const std::string evidence = EvidenceOf(plan.view);
  const std::string from = evidence.empty() ? source : evidence, platform = PlatformName(source);
  return absl::StrCat("The membership was read from ", from, from == platform ? "" : " (" + platform + ")", ".");
}

std::string DescribeNode(const RunPlan& plan) {
  if (plan.view.role != discovery::NodeRole::kTrainer) {
    return absl::StrCat("This is ", plan.view.self, ", which does not train: it waits and ends with the job.");
  }
  if (plan.host.config.single_node()) return "";
  const int count = plan.host.config.max_nodes();
  if (!plan.host.config.has_place())
    return absl::StrCat("It gets its rank when the nodes, up to ", count, ", have joined.");
  return absl::StrCat("This is node ", plan.host.config.place(), " of nodes 0 to ", count - 1, ".");
}

std::string DescribePrimary(const RunPlan& plan) {
  if (plan.host.config.single_node()) return "It listens on no port.";
  const std::string address = ToString(plan.host.config.primary());
  if (plan.host.config.coordinator_alone())
    return absl::StrCat("All nodes connect to the coordinator, ", address, ".");
  if (plan.host.config.serves() == v1::NodeConfig::SERVES_YES) {
    return absl::StrCat("It is the primary: the other nodes connect to its port ",
                        plan.host.config.primary().port(), ".");
  }
  return absl::StrCat("All nodes connect to the primary, ", address, ".");
}

std::string DescribeWorkers(const RunPlan& plan) {
  const int slots = plan.host.config.slots();
  if (slots == 0) return "";
  std::string text = absl::StrCat("It starts ", slots, slots == 1 ? " worker" : " workers");
  if (plan.host.config.has_place() && !plan.host.config.single_node()) {
    const int64_t first = int64_t{slots} * static_cast<int64_t>(plan.host.config.place());
    const std::string ranks =
        slots == 1 ? absl::StrCat("rank ", first) : absl::StrCat("ranks ", first, " to ", first + slots - 1);
    absl::StrAppend(&text, ", ", ranks, " if the other nodes start as many");
  }
  if (plan.host.config.coordinator_alone()) {
    return absl::StrCat(text, "; muster coordinator has the restart policy.");
  }
  if (plan.host.config.max_restarts() == 0) return absl::StrCat(text, "; when a worker fails, the job ends.");
  return absl::StrCat(text, "; when a worker fails, all restart, at most ", plan.host.config.max_restarts(),
                      plan.host.config.max_restarts() == 1 ? " time." : " times.");
}

// On one line if they fit into the column, else one on each line.
std::string NodesShown(const std::vector<std::string>& nodes) {
  const size_t shown = std::min(nodes.size(), kMaxNodesShown);
  std::vector<std::string> words(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(shown));
  if (shown < nodes.size()) words.push_back(absl::StrCat("and ", nodes.size() - shown, " more"));
  std::string line = absl::StrJoin(words, " ");
  if (line.size() <= size_t{kValueColumns}) return line;
  return absl::StrJoin(words, "\n" + std::string(kNameColumns + 1, ' '));
}

// The log line about the interpreter without the path, which the table shows beside it.
std::string InterpreterReason(const machine::Interpreter& interpreter) {
  absl::string_view reason = interpreter.reason;
  absl::ConsumePrefix(&reason, absl::StrCat("python is ", OneLine(interpreter.path), ": "));
  return std::string(AsStd(reason));
}

nlohmann::json Json(const std::vector<Finding>& findings) {
  static constexpr const char* kKinds[] = {"good", "note", "wrong", "unreachable"};
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"kind", kKinds[static_cast<int>(finding.kind)]},
                    {"name", finding.name},
                    {"text", finding.text},
                    {"advice", finding.advice}});
  }
  return list;
}

}  // namespace

ShownProtection ShowProtection(const v1::NodeConfig& config) {
  switch (rendezvous::ProtectionOf(config)) {
    case rendezvous::Protection::kCertificates:
      return {"certificates", config.certificates().cert_file()};
    case rendezvous::Protection::kToken:
      return {"token", config.token_file().empty() ? kTokenVariable : config.token_file()};
    case rendezvous::Protection::kNoPort:
      return {"none", "it listens on no port"};
    case rendezvous::Protection::kThisMachine:
      return {"none", "only users of this machine can connect"};
    case rendezvous::Protection::kNone:
      break;
  }
  return {"none", absl::StrCat("whoever reaches the ", config.coordinator_alone() ? "coordinator's" : "primary's",
                               " port can join: see --token-file")};
}

std::vector<std::string> Explanation(const RunPlan& plan) {
  std::vector<std::string> sentences = {DescribeSource(plan), DescribeNode(plan), DescribePrimary(plan),
                                        DescribeWorkers(plan)};
  sentences.erase(std::remove(sentences.begin(), sentences.end(), ""), sentences.end());
  return sentences;
}

std::string EnvTable(const EnvReport& report) {
  const RunPlan& plan = report.plan;
  std::string out = absl::StrCat(Summary(plan), "\n\n");
  for (const std::string& sentence : Explanation(plan)) absl::StrAppend(&out, sentence, "\n");
  absl::StrAppend(&out, "\n");
  const std::string evidence = EvidenceOf(plan.view), platform = PlatformName(plan.view.source);
  Row("SETTING", "VALUE", "ORIGIN", &out);
  Row("source", plan.view.source,
      evidence.empty() || evidence == platform ? platform : absl::StrCat(evidence, ": ", platform), &out);
  Row(plan.host.config.coordinator_alone() ? "coordinator" : "primary",
      plan.host.config.single_node() ? "none (single-node job)" : ToString(plan.host.config.primary()),
      plan.view.primary_evidence.empty() ? evidence : plan.view.primary_evidence, &out);
  const ShownProtection protection = ShowProtection(plan.host.config);
  Row("protection", protection.kind, protection.origin, &out);
  Row("node type", RoleName(plan), evidence, &out);
  Row("node-rank", plan.view.node_rank < 0 ? "not yet assigned" : absl::StrCat(plan.view.node_rank), evidence,
      &out);
  if (!plan.view.nodes.empty()) Row("nodes", NodesShown(plan.view.nodes), evidence, &out);
  Row("interpreter", report.interpreter.path.empty() ? "none" : OneLine(report.interpreter.path),
      InterpreterReason(report.interpreter), &out);
  Row("accelerators", absl::StrCat(report.accelerators.count), report.accelerators.reason, &out);
  absl::StrAppend(&out, "\n");
  for (const SettingLine& line : plan.shown.lines) {
    if (plan.host.config.coordinator_alone() && HasFlag(line.name, kDecides)) {
      Row(line.name, "set on the coordinator", "muster coordinator", &out);
    } else {
      Row(line.name, line.value.empty() ? "-" : OneLine(MaskValue(line.name, line.value)), line.origin, &out);
    }
  }
  const Environment shown = Shown(report.environment);
  if (!shown.empty()) absl::StrAppend(&out, "\n");
  for (const auto& [name, value] : shown) absl::StrAppend(&out, OneLine(name), "=", OneLine(value), "\n");
  if (plan.host.config.slots() > 0) AddWorkers(ShowWorkers(report), &out);
  std::vector<std::string> warnings = plan.shown.warnings;
  for (const std::string& warning : report.accelerators.warnings) {
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
  }
  for (const std::string& warning : warnings) absl::StrAppend(&out, "warning: ", warning, "\n");
  return out;
}

std::string EnvJson(const EnvReport& report, const std::vector<Finding>* findings) {
  const RunPlan& plan = report.plan;
  nlohmann::json json;
  json["source"] = plan.view.source;
  json["evidence"] = EvidenceOf(plan.view);
  json["platform"] = PlatformName(plan.view.source);
  json["explanation"] = Explanation(plan);
  if (findings != nullptr) json["checks"] = Json(*findings);
  json["primary"] = {{"host", plan.host.config.primary().host()}, {"port", plan.host.config.primary().port()}};
  const ShownProtection protection = ShowProtection(plan.host.config);
  json["protection"] = {{"kind", protection.kind}, {"origin", protection.origin}};
  json["node_rank"] = plan.view.node_rank < 0 ? nlohmann::json(nullptr) : nlohmann::json(plan.view.node_rank);
  json["nnodes"] = plan.view.nnodes;
  json["min_nodes"] = plan.host.config.min_nodes();
  json["max_nodes"] = plan.host.config.max_nodes();
  json["nodes"] = plan.view.nodes;
  json["role"] = RoleName(plan);
  json["self"] = plan.view.self;
  json["run_id"] = plan.host.config.run_id();
  json["nproc_per_node"] = plan.host.config.slots();
  json["interpreter"] = {{"path", report.interpreter.path}, {"reason", report.interpreter.reason}};
  json["accelerators"] = {{"count", report.accelerators.count},
                          {"reason", report.accelerators.reason},
                          {"visible", report.accelerators.visible},
                          {"unknown", report.accelerators.unknown}};
  json["settings"] = nlohmann::json::object();
  for (const SettingLine& line : plan.shown.lines) {
    json["settings"][line.name] = {{"value", MaskValue(line.name, line.value)}, {"origin", line.origin}};
  }
  json["environment"] = Shown(report.environment);
  const WorkersGet workers = ShowWorkers(report);
  json["workers"] = {{"set", workers.set}, {"by_rank", workers.by_rank}, {"dropped", workers.dropped}};
  json["warnings"] = plan.shown.warnings;
  // Bytes that are not UTF-8 are replaced; by default dump() would throw.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
