#include "cli/env_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "agent/discovery/mask_secrets.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr size_t kMaxNodesShown = 8;     // in the table; JSON has all
constexpr int kNameColumns = 23;         // as wide as the longest option's name
constexpr size_t kMaxValueColumns = 48;  // of the table

// Variables that bear on what muster or its workers do.
constexpr const char* kPrefixes[] = {"MUSTER_", "PET_",  "TORCHELASTIC_", "TORCH_", "CLUSTER_SPEC", "CLOUD_ML_",
                                     "AIP_",    "NCCL_", "GLOO_",         "CUDA_",  "NVIDIA_",      "SLURM_"};
constexpr const char* kNames[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE",
                                  "NODE_RANK",
                                  "GROUP_RANK",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TF_CONFIG",
                                  "PYTHON_EXEC",
                                  "VIRTUAL_ENV",
                                  "OMP_NUM_THREADS",
                                  "CONDA_PREFIX",
                                  "KUBERNETES_SERVICE_HOST",
                                  "GCE_METADATA_HOST",
                                  "AWS_EC2_METADATA_SERVICE_ENDPOINT"};

bool Bears(const std::string& name) {
  const auto begins = [&](const char* prefix) { return absl::StartsWith(name, prefix); };
  const auto is = [&](const char* other) { return name == other; };
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins) ||
         std::any_of(std::begin(kNames), std::end(kNames), is);
}

Environment Shown(const Environment& environment) {
  Environment bearing;
  for (const auto& [name, value] : environment) {
    if (Bears(name)) bearing.emplace(name, value);
  }
  return discovery::MaskSecrets(bearing);
}

std::string RoleName(const RunPlan& plan) {
  return plan.view.role == discovery::NodeRole::kTrainer ? "trainer" : "aux";
}

void Row(const std::string& name, const std::string& value, const std::string& from, std::string* out) {
  const std::string left = absl::StrFormat("%-*s ", kNameColumns, name);
  if (from.empty()) {
    absl::StrAppend(out, left, value, "\n");
  } else if (value.size() > kMaxValueColumns) {
    absl::StrAppend(out, left, value, "\n", std::string(left.size(), ' '), "(", from, ")\n");
  } else {
    absl::StrAppend(out, left, absl::StrFormat("%-24s ", value), from, "\n");
  }
}

std::string NodesShown(const std::vector<std::string>& nodes) {
  const size_t shown = std::min(nodes.size(), kMaxNodesShown);
  std::string text = absl::StrJoin(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(shown), " ");
  if (shown < nodes.size()) absl::StrAppend(&text, " and ", nodes.size() - shown, " more");
  return text;
}

// The log's line without the path, which stands beside it here.
std::string WhyInterpreter(const agent::Interpreter& interpreter) {
  absl::string_view reason = interpreter.reason;
  absl::ConsumePrefix(&reason, absl::StrCat("python is ", interpreter.path, ": "));
  return std::string(AsStd(reason));
}

}  // namespace

std::string EnvTable(const EnvReport& report) {
  const RunPlan& plan = report.plan;
  std::string out = absl::StrCat(Summary(plan), "\n\n");
  Row("source", plan.view.source, "", &out);
  Row(plan.config.coordinator_alone() ? "coordinator" : "primary",
      plan.config.single_node() ? "none: one node" : ToString(plan.config.primary()), "", &out);
  Row("role", RoleName(plan), "", &out);
  Row("node-rank", plan.view.node_rank < 0 ? "none yet" : absl::StrCat(plan.view.node_rank), "", &out);
  if (!plan.view.nodes.empty()) Row("nodes", NodesShown(plan.view.nodes), "", &out);
  Row("interpreter", report.interpreter.path.empty() ? "none" : report.interpreter.path,
      WhyInterpreter(report.interpreter), &out);
  Row("accelerators", absl::StrCat(report.accelerators.count), report.accelerators.reason, &out);
  absl::StrAppend(&out, "\n");
  for (const SettingLine& line : plan.lines)
    Row(line.name, line.value.empty() ? "-" : line.value, line.origin, &out);
  const Environment shown = Shown(report.environment);
  if (!shown.empty()) absl::StrAppend(&out, "\n");
  for (const auto& [name, value] : shown) absl::StrAppend(&out, name, "=", value, "\n");
  std::vector<std::string> warnings = plan.view.warnings;
  for (const std::string& warning : report.accelerators.warnings) {
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
  }
  for (const std::string& warning : warnings) absl::StrAppend(&out, "warning: ", warning, "\n");
  return out;
}

std::string EnvJson(const EnvReport& report) {
  const RunPlan& plan = report.plan;
  nlohmann::json json;
  json["source"] = plan.view.source;
  json["primary"] = {{"host", plan.config.primary().host()}, {"port", plan.config.primary().port()}};
  json["node_rank"] = plan.view.node_rank < 0 ? nlohmann::json(nullptr) : nlohmann::json(plan.view.node_rank);
  json["nnodes"] = plan.view.nnodes;
  json["min_nodes"] = plan.config.min_nodes();
  json["max_nodes"] = plan.config.max_nodes();
  json["nodes"] = plan.view.nodes;
  json["role"] = RoleName(plan);
  json["self"] = plan.view.self;
  json["run_id"] = plan.config.run_id();
  json["nproc_per_node"] = plan.config.slots();
  json["interpreter"] = {{"path", report.interpreter.path}, {"reason", report.interpreter.reason}};
  json["accelerators"] = {{"count", report.accelerators.count},
                          {"reason", report.accelerators.reason},
                          {"visible", report.accelerators.visible},
                          {"unknown", report.accelerators.unknown}};
  json["settings"] = nlohmann::json::object();
  for (const SettingLine& line : plan.lines) {
    json["settings"][line.name] = {{"value", line.value}, {"origin", line.origin}};
  }
  json["environment"] = Shown(report.environment);
  json["warnings"] = plan.view.warnings;
  // Bytes that are no UTF-8 are shown as such instead of ending the program.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
