// Works in three steps: from text to a JSON document, to a validated Job, to a ClusterView.
#include "agent/platform/discovery/sagemaker.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/document.h"
#include "agent/platform/discovery/sagemaker_variables.h"
#include "agent/platform/discovery/variables.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"
#include "nlohmann/json.hpp"

namespace muster::discovery {
namespace {

using Json = nlohmann::json;

constexpr char kRunPrefix[] = "sagemaker";  // of run ids
constexpr char kAdvice[] = "give --nnodes, --node-rank and --master-addr in place of it";
constexpr char kJobName[] = "TRAINING_JOB_NAME";
constexpr char kInterface[] = "SM_NETWORK_INTERFACE_NAME";
constexpr size_t kMaxInterfaceChars = 15;  // IFNAMSIZ, less its NUL

// The configuration from the platform, from a file or from variables.
struct Text {
  std::string name;  // for errors: the file's path, or the variable's name
  std::string json;
};

struct Group {
  std::string name;
  std::set<std::string> hosts;
};

struct Job {
  std::vector<std::string> hosts;  // sorted, distinct
  std::string current_host;
  std::string network_interface;
  std::vector<Group> groups;
};

std::string ValueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : std::string(AsStd(absl::StripAsciiWhitespace(found->second)));
}

bool IsInterfaceName(const std::string& name) {
  return name.size() <= kMaxInterfaceChars && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isgraph(c) && c != '/' && c != ',' && c != '=' && c != '^';
         });
}

std::string ExpectedInterface() {
  return absl::StrCat("the name of a network interface, of at most ", kMaxInterfaceChars, " characters, as eth0");
}

// ---- The text ----

absl::StatusOr<std::optional<Text>> FromFile(const Evidence& evidence) {
  const std::string named = ValueOf(evidence.environment, kSageMakerConfigVariable);
  const std::string path = ResourceConfigPath(evidence.environment);
  absl::StatusOr<std::string> text = evidence.read_file(path, kMaxResourceConfigBytes);
  if (absl::IsNotFound(text.status())) {
    if (named.empty()) return std::nullopt;
    return ToStatus({kSageMakerConfigVariable, "", path, "the path of SageMaker's resourceconfig.json",
                     "there is no such file: correct it, or unset it"});
  }
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("resourceconfig.json cannot be read: ", Shown(AsStd(text.status().message())),
                     ": expected at most ", kMaxResourceConfigBytes, " bytes in a file; ", kAdvice));
  }
  return Text{Shown(path), *std::move(text)};
}

// From the variables that the training toolkit and the SDK's drivers set for their children.
absl::StatusOr<std::optional<Text>> FromVariables(const Environment& environment) {
  const std::string config = ValueOf(environment, "SM_RESOURCE_CONFIG");
  if (!config.empty()) return Text{"SM_RESOURCE_CONFIG", config};
  const std::string hosts = ValueOf(environment, "SM_HOSTS");
  const std::string current = ValueOf(environment, "SM_CURRENT_HOST");
  if (hosts.empty()) return std::nullopt;
  if (current.empty()) {
    return ToStatus({"SM_CURRENT_HOST", "", std::nullopt, "the name of this host, one of SM_HOSTS", kAdvice});
  }
  const absl::StatusOr<Json> list = ParseBoundedJson(hosts, {kMaxResourceConfigBytes, kMaxResourceConfigDepth});
  if (!list.ok() || !list->is_array()) {
    return ToStatus({"SM_HOSTS", "", hosts, "a JSON list of host names, as [\"algo-1\",\"algo-2\"]", kAdvice});
  }
  const std::string interface = ValueOf(environment, kInterface);
  if (!IsInterfaceName(interface)) return ToStatus({kInterface, "", interface, ExpectedInterface(), kAdvice});
  const Json all = {{"hosts", *list}, {"current_host", current}, {"network_interface_name", interface}};
  return Text{"SM_HOSTS and SM_CURRENT_HOST", all.dump(-1, ' ', true, Json::error_handler_t::replace)};
}

// ---- The document ----

class ConfigReader {
 public:
  explicit ConfigReader(const std::string& name) : document_(name, kAdvice) {}

  absl::StatusOr<Job> Read(std::string_view text) {
    ASSIGN_OR_RETURN(const Json json, document_.Parse(text, {kMaxResourceConfigBytes, kMaxResourceConfigDepth},
                                                      "a JSON object with \"hosts\" and \"current_host\""));
    ASSIGN_OR_RETURN(std::set<std::string> hosts, Hosts(json, "hosts", "hosts"));
    if (hosts.empty()) {
      return document_.Wrong("hosts", "[]", "a list of the names of all hosts, this one among them");
    }
    Job job;
    job.hosts.assign(hosts.begin(), hosts.end());  // sorted as text
    ASSIGN_OR_RETURN(job.current_host, document_.StringIn(json, "current_host", "current_host",
                                                          "the name of this host, one of hosts"));
    if (hosts.count(job.current_host) == 0) {
      return document_.Wrong("current_host", job.current_host,
                             absl::StrCat("one of hosts, which are ", Shown(absl::StrJoin(job.hosts, ", "))));
    }
    RETURN_IF_ERROR(ReadInterface(json, &job));
    RETURN_IF_ERROR(ReadGroups(json, &job));
    return job;
  }

 private:
  absl::StatusOr<std::set<std::string>> Hosts(const Json& object, const char* key, const std::string& field) {
    const auto found = object.find(key);
    const std::string expected = "a list of host names";
    if (found == object.end()) return document_.Missing(field, expected);
    if (!found->is_array()) return document_.Wrong(field, Spelled(*found), expected);
    if (found->size() > kMaxSageMakerHosts) {
      return document_.Wrong(field, absl::StrCat("a list of ", found->size()),
                             absl::StrCat("at most ", kMaxSageMakerHosts, " hosts"));
    }
    std::set<std::string> hosts;
    for (size_t i = 0; i < found->size(); ++i) {
      const std::string entry = absl::StrCat(field, "[", i, "]");
      if (!(*found)[i].is_string()) return document_.Wrong(entry, Spelled((*found)[i]), "a host's name");
      ASSIGN_OR_RETURN(const Address address, document_.AddressOf((*found)[i], entry));
      if (address.port || address.host.find(':') != std::string::npos)
        return document_.Wrong(entry, Spelled((*found)[i]), "a host's name or IPv4 address, without a port");
      // The spelling is kept, since current_host repeats it.
      if (!hosts.insert(Spelled((*found)[i])).second) {
        return document_.Wrong(entry, Spelled((*found)[i]), "each host once");
      }
    }
    return hosts;
  }

  absl::Status ReadInterface(const Json& json, Job* job) {
    const auto found = json.find("network_interface_name");
    if (found == json.end() || found->is_null()) return absl::OkStatus();
    const std::string name = found->is_string() ? found->get<std::string>() : "";
    if (!found->is_string() || !IsInterfaceName(name)) {
      return document_.Wrong("network_interface_name", Spelled(*found), ExpectedInterface());
    }
    job->network_interface = name;
    return absl::OkStatus();
  }

  absl::Status ReadGroups(const Json& json, Job* job) {
    const auto found = json.find("instance_groups");
    if (found == json.end() || found->is_null()) return absl::OkStatus();
    if (!found->is_array()) {
      return document_.Wrong("instance_groups", Spelled(*found), "a list of groups, each with its hosts");
    }
    std::set<std::string> names;
    for (size_t i = 0; i < found->size(); ++i) {
      const std::string field = absl::StrCat("instance_groups[", i, "]");
      const Json& entry = (*found)[i];
      if (!entry.is_object()) return document_.Wrong(field, Spelled(entry), "an object with a name and hosts");
      const auto name = entry.find("instance_group_name");
      if (name == entry.end() || !name->is_string()) {
        return document_.Missing(field + ".instance_group_name", "the group's name");
      }
      Group group{name->get<std::string>(), {}};
      ASSIGN_OR_RETURN(group.hosts, Hosts(entry, "hosts", field + ".hosts"));
      if (!names.insert(group.name).second) {
        return document_.Wrong(field + ".instance_group_name", group.name, "a name of its own for each group");
      }
      job->groups.push_back(std::move(group));
    }
    return absl::OkStatus();
  }

  const DocumentReader document_;
};

// ---- The view ----

// A host of the group that is not among the job's hosts. It does not matter if no groups are selected.
std::optional<std::string> StrangeHost(const Job& job, const Group& group) {
  for (const std::string& host : group.hosts) {
    if (!std::binary_search(job.hosts.begin(), job.hosts.end(), host)) return host;
  }
  return std::nullopt;
}

// The hosts that train, sorted.
absl::StatusOr<std::vector<std::string>> Trainers(const Text& text, const Job& job,
                                                  const SageMakerOptions& options,
                                                  std::vector<std::string>* warnings) {
  if (options.instance_groups.empty()) {
    for (const Group& group : job.groups) {
      const auto strange = StrangeHost(job, group);
      if (!strange) continue;
      warnings->push_back(absl::StrCat(text.name, ": instance_groups: ", Shown(group.name), " has ",
                                       Shown(*strange),
                                       ": expected only hosts that hosts has too; it is ignored"));
      break;  // one warning is enough
    }
    return job.hosts;
  }
  std::set<std::string> trainers;
  for (const absl::string_view wanted : absl::StrSplit(options.instance_groups, ',')) {
    const std::string name(AsStd(absl::StripAsciiWhitespace(wanted)));
    const auto group = std::find_if(job.groups.begin(), job.groups.end(),
                                    [&](const Group& candidate) { return candidate.name == name; });
    if (group == job.groups.end()) {
      const std::string known =
          absl::StrJoin(job.groups, ", ", [](std::string* out, const Group& g) { out->append(g.name); });
      return ToStatus({options.groups_source, "", name,
                       known.empty() ? absl::StrCat("an instance group, but ", text.name, " names none")
                                     : "one of the instance groups " + Shown(known),
                       "correct it, or leave it out"});
    }
    if (const auto strange = StrangeHost(job, *group)) {
      return ToStatus({text.name, absl::StrCat("instance_groups: ", Shown(group->name)), *strange,
                       "hosts that hosts has too", kAdvice});
    }
    trainers.insert(group->hosts.begin(), group->hosts.end());
  }
  if (trainers.empty()) {
    return ToStatus({options.groups_source, "", options.instance_groups, "groups that have hosts",
                     "correct it, or leave it out"});
  }
  return std::vector<std::string>(trainers.begin(), trainers.end());
}

absl::StatusOr<std::string> RunId(const Environment& environment, const std::string& primary) {
  const std::string job = ValueOf(environment, kJobName);
  RETURN_IF_ERROR(DocumentReader(kJobName).CheckId("", job));
  return job.empty() ? RunNameOf(kRunPrefix, primary) : job;
}

// Sets the variables that the training toolkit provides to scripts, except SM_MASTER_PORT: scripts would bind it,
// but the workers' port is MASTER_PORT.
absl::Status SetVariables(const Evidence& evidence, const Job& job, ClusterView* view) {
  const std::string path = ResourceConfigPath(evidence.environment);
  ASSIGN_OR_RETURN(TrainingInputs inputs,
                   ReadTrainingInputs(evidence.read_file, path.substr(0, path.rfind('/') + 1)));
  view->for_workers = std::move(inputs.variables);
  view->hyperparameters = std::move(inputs.arguments);
  view->warnings.insert(view->warnings.end(), inputs.warnings.begin(), inputs.warnings.end());
  const std::string hosts = Json(job.hosts).dump();
  if (hosts.size() <= kMaxVariableBytes) view->for_workers["SM_HOSTS"] = hosts;
  view->for_workers["SM_CURRENT_HOST"] = job.current_host;
  view->for_workers["SM_MASTER_ADDR"] = view->primary_host;
  if (job.network_interface.empty()) return absl::OkStatus();
  view->for_workers[kInterface] = job.network_interface;
  view->for_workers["NCCL_SOCKET_IFNAME"] = job.network_interface;
  return absl::OkStatus();
}

}  // namespace

std::string ResourceConfigPath(const Environment& environment) {
  const std::string named = ValueOf(environment, kSageMakerConfigVariable);
  return named.empty() ? kSageMakerConfig : named;
}

Reading ReadSageMaker(const Evidence& evidence, const SageMakerOptions& options) {
  ASSIGN_OR_RETURN(std::optional<Text> text, FromFile(evidence));
  const bool is_file = text.has_value();
  if (!is_file) {
    ASSIGN_OR_RETURN(text, FromVariables(evidence.environment));
  }
  if (!text.has_value()) return std::nullopt;

  const std::string_view json = AsStd(absl::StripAsciiWhitespace(text->json));
  if (json.empty()) {
    const absl::Status empty = ToStatus({text->name, "", "", "one JSON object, as SageMaker writes it", kAdvice});
    return absl::UnavailableError(empty.message());
  }
  absl::StatusOr<Job> job = ConfigReader(text->name).Read(json);
  // A file without its end may still be being written.
  if (!job.ok() && is_file && json.back() != '}') return absl::UnavailableError(job.status().message());
  if (!job.ok()) return job.status();

  ClusterView view;
  ASSIGN_OR_RETURN(const std::vector<std::string> trainers, Trainers(*text, *job, options, &view.warnings));
  view.primary_host = trainers.front();
  view.primary_port = kDefaultRendezvousPort;
  if (!is_file) {
    ASSIGN_OR_RETURN(view.primary_port, PortOr(evidence.environment, "SM_MASTER_PORT", kDefaultRendezvousPort));
  }
  view.nnodes = static_cast<int>(trainers.size());
  view.may_have_aux = trainers.size() < job->hosts.size();
  const auto own = std::find(trainers.begin(), trainers.end(), job->current_host);
  view.role = own == trainers.end() ? NodeRole::kAux : NodeRole::kTrainer;
  if (view.role == NodeRole::kTrainer) view.node_rank = static_cast<int>(own - trainers.begin());
  view.loopback_only = std::all_of(trainers.begin(), trainers.end(), IsLoopback);
  for (const std::string& host : trainers) view.nodes.push_back(ToString(host, view.primary_port));
  view.self = job->current_host;
  ASSIGN_OR_RETURN(view.run_id, RunId(evidence.environment, view.primary_host));
  RETURN_IF_ERROR(SetVariables(evidence, *job, &view));
  return view;
}

}  // namespace muster::discovery
