#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/platform/discovery/address.h"
#include "base/core/status_macros.h"
#include "base/wire/loopback.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

using discovery::kFromOptions;
using discovery::kSingleNode;
using discovery::TraitsOf;

constexpr char kThisMachine[] = "127.0.0.1";
constexpr char kPortForOneNode[] =
    "port 0 is any free port, which no other node knows; give a port, the same on all nodes";
constexpr char kOuterLauncher[] =
    "LOCAL_RANK and TORCHELASTIC_RUN_ID are set: this is a worker of another launcher, which has this node's rank "
    "on the platform; give --standalone, or --rdzv-endpoint and --nnodes, for a separate job";

// Port 0 of this machine; for torchrun of any machine.
bool HasFreePort(const HostPort& endpoint, bool as_torchrun) {
  return endpoint.port == uint16_t{0} && (as_torchrun || IsLoopback(endpoint.host));
}

bool IsStandalone(const MembershipSettings& s) {
  if (IsOn(s.standalone)) return true;
  return s.rdzv_endpoint && HasFreePort(s.rdzv_endpoint->value, s.as_torchrun);
}

// What sets the membership, if no platform does.
std::string WhoSetsIt(const MembershipSettings& s) {
  if (IsOn(s.standalone)) return s.standalone->source + " sets the membership";
  if (s.nnodes) return s.nnodes->source + " sets the membership";
  if (IsStandalone(s)) return s.rdzv_endpoint->source + " sets the membership";
  return "without --nnodes torchrun runs a job of one node";
}

bool NamesPrimary(const MembershipSettings& s) { return s.master_addr || s.rdzv_endpoint; }

discovery::DiscoverOptions OptionsOf(const MembershipSettings& s) {
  discovery::DiscoverOptions options;
  options.vertex.all_pools = IsOn(s.all_pools);
  if (s.instance_groups) {
    options.sagemaker.instance_groups = s.instance_groups->value;
    options.sagemaker.groups_source = s.instance_groups->source;
  }
  if (s.hostfile) {
    options.hostfile.path = s.hostfile->value;
    options.hostfile.path_source = s.hostfile->source;
  }
  if (s.include) options.hostfile.include = s.include->value;
  if (s.exclude) options.hostfile.exclude = s.exclude->value;
  if (s.source) options.source = s.source->value;
  if (s.nnodes) options.nnodes = s.nnodes->value.max;
  if (s.nnodes) options.nnodes_source = absl::StrCat(s.nnodes->source, " ", s.nnodes->text);
  if (s.node_rank) options.node_rank = s.node_rank->value;
  options.primary_given = NamesPrimary(s);
  options.as_torchrun = s.as_torchrun;
  return options;
}

// Notes the platforms that are ignored because options, or torchrun's default, set the membership.
Membership NotingIgnoredSources(Membership m, const MembershipSettings& s, const Environment& environment,
                                const Machine& machine) {
  const std::vector<std::string> here = machine.sources_here(environment, OptionsOf(s));
  if (here.empty()) return m;
  m.platform = here.front();
  m.ignored_sources = absl::StrCat(WhoSetsIt(s), "; ignored: ", absl::StrJoin(here, ", "));
  return m;
}

// Under the name torchrun a job without --nnodes has one node, as there. On a platform that gives more, each node
// then trains alone, with one checkpoint for all: a warning. Empty: there are no others.
std::string OtherNodes(const MembershipSettings& s, const Environment& environment, const Machine& machine) {
  if (s.nnodes || s.nested) return "";
  constexpr char kAlone[] = "without --nnodes torchrun trains on this node alone";
  constexpr char kIfMeant[] = "; if one node is meant, give --standalone";
  discovery::DiscoverOptions options = OptionsOf(s);
  options.as_torchrun = false;
  const absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, options);
  if (view.ok() && view->nnodes > 1 && !TraitsOf(view->source).is_host_list)
    return absl::StrCat(kAlone, ", but the platform (", view->source, ") has ", view->nnodes, " nodes", kIfMeant);
  for (const std::string& source : machine.sources_here(environment, options)) {
    if (!TraitsOf(source).may_be_batch_script) continue;
    options.source = source;
    const absl::Status one = machine.discover(environment, options).status();
    if (!one.ok()) return absl::StrCat(kAlone, "; ", one.message(), kIfMeant);
  }
  return "";
}

Membership SingleNode(const MembershipSettings& s, const Machine& machine, const char* source) {
  Membership m;
  m.single_node = true;
  m.view.source = source;
  m.view.primary_host = "localhost";
  m.view.node_rank = 0;
  m.view.loopback_only = true;
  m.view.run_id = machine.random_run_id;
  if (s.nnodes) m.nodes_source = s.nnodes->source;
  return m;
}

// The primary's host that an option gives, and that option.
Setting<std::string> NamedPrimary(const MembershipSettings& s) {
  if (!s.rdzv_endpoint) return *s.master_addr;
  const auto& endpoint = *s.rdzv_endpoint;
  return {endpoint.value.host, endpoint.origin, endpoint.source, endpoint.text};
}

void SetPrimary(const MembershipSettings& s, discovery::ClusterView* view) {
  if (s.rdzv_endpoint) {
    view->primary_host = s.rdzv_endpoint->value.host;
    view->primary_port = s.rdzv_endpoint->value.port.value_or(kDefaultRendezvousPort);
  } else {
    view->primary_host = s.master_addr ? s.master_addr->value : kThisMachine;
    view->primary_port = s.master_port ? s.master_port->value : kDefaultMasterPort;
  }
  if (NamesPrimary(s)) view->primary_evidence = NamedPrimary(s).source;
  view->loopback_only = IsLoopback(view->primary_host);
}

// Sets a primary that options give in addition to a source. Pods keep the source's port unless an option sets one:
// pod 0 may be without the option, and all must use the same port.
void SetPrimaryBeside(const MembershipSettings& s, discovery::ClusterView* view) {
  const uint16_t port = view->primary_port;
  SetPrimary(s, view);
  if (TraitsOf(view->source).is_numbered_pod && !s.rdzv_endpoint && !s.master_port) view->primary_port = port;
}

// Which node is the primary, if all know their ranks. An endpoint names it by its address; if no node has that, it
// is node 0, to which the address may lead.
v1::NodeConfig::Serves ServesWithRank(const MembershipSettings& s, int rank) {
  if (s.rdzv_endpoint) return rank == 0 ? v1::NodeConfig::SERVES_IF_REACHED : v1::NodeConfig::SERVES_IF_LOCAL;
  return rank == 0 ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO;
}

// A job of several nodes whose primary or coordinator is given by options.
Membership FromOptions(const MembershipSettings& s) {
  Membership m;
  m.min_nodes = s.nnodes->value.min;
  m.max_nodes = s.nnodes->value.max;
  m.nodes_source = s.nnodes->source;
  discovery::ClusterView& view = m.view;
  view.source = kFromOptions;
  view.nnodes = m.max_nodes;
  view.run_id = discovery::kNoRunName;
  if (s.coordinator) {
    view.primary_host = s.coordinator->value.host;
    view.primary_port = *s.coordinator->value.port;
    view.loopback_only = IsLoopback(view.primary_host);
  } else {
    SetPrimary(s, &view);
  }
  if (s.coordinator) {
    view.node_rank = s.node_rank ? s.node_rank->value : -1;
    m.serves = v1::NodeConfig::SERVES_NO;
  } else if (s.node_rank) {
    view.node_rank = s.node_rank->value;
    m.serves = ServesWithRank(s, view.node_rank);
    m.rank_is_hint = s.rank_is_hint;
  } else {
    // torchrun assumes rank 0 if none is given; only the node that has the primary's address serves.
    view.node_rank = s.rdzv_endpoint ? -1 : 0;
    m.serves = v1::NodeConfig::SERVES_IF_LOCAL;
  }
  for (const std::string& host : s.hosts) {
    view.nodes.push_back(discovery::ToString(host, view.primary_port));
    view.loopback_only &= IsLoopback(host);
  }
  if (s.is_host) m.serves = *s.is_host ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO;
  return m;
}

absl::Status ApplyNodes(const MembershipSettings& s, Membership* m) {
  m->min_nodes = m->max_nodes = m->view.nnodes;
  m->nodes_source = m->view.source;
  if (!s.nnodes) return absl::OkStatus();
  if (s.nnodes->value.max > m->view.nnodes) {
    return Fault(*s.nnodes,
                 absl::StrCat("expected at most ", m->view.nnodes, ", the number of nodes of the platform (",
                              m->view.source, "); correct it, or leave it out"));
  }
  m->min_nodes = s.nnodes->value.min;
  m->max_nodes = s.nnodes->value.max;
  m->nodes_source = s.nnodes->source;
  return absl::OkStatus();
}

// For a source that provides ranks but no primary, such as mpirun: options must give the primary.
absl::Status NamePrimary(const MembershipSettings& s, discovery::ClusterView* view) {
  if (!NamesPrimary(s)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--master-addr is missing: the platform (", view->source,
        ") gives this node's rank, but not the primary's address; give --master-addr, the same on all nodes"));
  }
  SetPrimaryBeside(s, view);
  return absl::OkStatus();
}

absl::StatusOr<Membership> FromPlatform(const MembershipSettings& s, discovery::ClusterView view) {
  if (s.nested) return absl::FailedPreconditionError(kOuterLauncher);
  Membership m;
  m.on_platform = true;
  m.platform = view.source;
  m.view = std::move(view);
  if (m.view.primary_host.empty() && !s.coordinator) RETURN_IF_ERROR(NamePrimary(s, &m.view));
  RETURN_IF_ERROR(ApplyNodes(s, &m));
  if (s.node_rank && s.node_rank->value != m.view.node_rank) {
    return Fault(
        *s.node_rank,
        absl::StrCat("expected ", m.view.node_rank < 0 ? "none" : absl::StrCat(m.view.node_rank),
                     ", this node's rank on the platform (", m.view.source, "); correct it, or leave it out"));
  }
  if (s.master_port) m.view.primary_port = s.master_port->value;
  m.single_node = m.view.nnodes == 1 && m.view.role == discovery::NodeRole::kTrainer && !m.view.may_have_aux;
  m.serves = ServesWithRank(s, m.view.node_rank);
  if (s.coordinator) {
    m.view.primary_host = s.coordinator->value.host;
    m.view.primary_port = *s.coordinator->value.port;
    m.view.loopback_only &= IsLoopback(m.view.primary_host);
    m.single_node = false;
    m.serves = v1::NodeConfig::SERVES_NO;
  }
  return m;
}

// Whether only PET_ variables set the membership, as Kubeflow's operators do. They then count as a platform, with
// torchrun's defaults.
bool OnlyTorchrunVariables(const MembershipSettings& s) {
  const auto set_otherwise = [](const auto& given) { return given && given->origin != Origin::kTorchrunVariable; };
  if (s.coordinator || set_otherwise(s.nnodes) || set_otherwise(s.node_rank) || set_otherwise(s.master_addr))
    return false;
  if (set_otherwise(s.master_port) || set_otherwise(s.rdzv_endpoint)) return false;
  return s.nnodes && s.nnodes->value.max > 1 && NamesPrimary(s);
}

absl::StatusOr<Membership> FromTorchrunVariables(const MembershipSettings& s, discovery::ClusterView view) {
  const bool by_platform = TraitsOf(view.source).sets_torchrun_variables;
  if (!by_platform && view.source != kSingleNode) {
    MembershipSettings others = s;
    if (s.source) {  // it chose another source than these variables
      others.nnodes.reset();
      others.node_rank.reset();
      others.master_port.reset();
    }
    return FromPlatform(others, std::move(view));
  }
  Membership m = FromOptions(s);
  if (by_platform) m.view.source = m.platform = view.source;
  m.view.warnings = std::move(view.warnings);
  return m;
}

// Whether the options alone determine the membership. A --source of equal or higher precedence is read all the
// same.
bool OptionsSuffice(const MembershipSettings& s) {
  if (!s.nnodes) return false;
  if (s.source && s.source->origin <= s.nnodes->origin) return false;
  return s.coordinator || s.nnodes->value.max == 1 || (NamesPrimary(s) && !OnlyTorchrunVariables(s));
}

// Reads this pod's number from Kubernetes, for options that do not give it; nullopt: not a numbered pod.
discovery::Reading ReadPod(const MembershipSettings& s, const Environment& environment, const Machine& machine) {
  discovery::DiscoverOptions options = OptionsOf(s);
  const std::vector<std::string> here = machine.sources_here(environment, options);
  if (here.empty() || !TraitsOf(here.front()).is_numbered_pod) return std::nullopt;
  // Other machines have names like node-1, too.
  const auto has = [&](const char* variable) { return environment.count(variable) > 0; };
  const bool in_pod = has("KUBERNETES_SERVICE_HOST") || has("MUSTER_SUBDOMAIN");
  if (TraitsOf(here.front()).known_by_host_name && !in_pod) return std::nullopt;
  options.source = here.front();
  absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, options);
  if (!view.ok()) return absl::FailedPreconditionError(view.status().message());
  return *std::move(view);
}

// MUSTER_NNODES=1 is right only for pod 0: for another pod the number of pods must be greater.
absl::Status CheckOnlyPod(const MembershipSettings& s, const Environment& environment, const Machine& machine) {
  if (s.node_rank) return absl::OkStatus();
  const discovery::Reading pod = ReadPod(s, environment, machine);
  if (pod.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(pod.status().message(), "; or give --nnodes 1 for a job of this pod alone"));
}

// A platform takes precedence over torchrun's variables: PET_NNODES=1 would make each of its nodes a separate job.
absl::Status CheckAlone(const MembershipSettings& s, const Environment& environment, const Machine& machine) {
  if (s.nnodes->origin == Origin::kMusterVariable) return CheckOnlyPod(s, environment, machine);
  if (s.nnodes->origin != Origin::kTorchrunVariable) return absl::OkStatus();
  const absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, OptionsOf(s));
  if (!view.ok() || view->nnodes == 1 || TraitsOf(view->source).is_host_list) return absl::OkStatus();
  return Fault(*s.nnodes,
               absl::StrCat("expected ", view->nnodes, ", the number of nodes of the platform (", view->source,
                            "); unset it, or give --nnodes 1 for a job of this node alone"));
}

absl::StatusOr<Membership> Standalone(const MembershipSettings& s, const Machine& machine) {
  if (s.coordinator) return Fault(*s.coordinator, "cannot be used with --standalone");
  if (s.source && s.source->origin == Origin::kFlag) return Fault(*s.source, "cannot be used with --standalone");
  if (LeastNodes(s) <= 1) return SingleNode(s, machine, kFromOptions);
  if (IsOn(s.standalone))
    return Fault(*s.nnodes, "cannot be used with --standalone, which means a single-node job");
  const auto& endpoint = *s.rdzv_endpoint;
  return Fault(*s.nnodes, absl::StrCat("cannot be used with ", ShownWithValue(endpoint.source, endpoint.text),
                                       ": ", kPortForOneNode));
}

// --include and --exclude without a hostfile are refused, since they would have no effect.
absl::Status CheckFilters(const MembershipSettings& s, const std::string& source) {
  if (TraitsOf(source).is_host_list) return absl::OkStatus();
  for (const Given<std::string>* filter : {&s.include, &s.exclude}) {
    if (*filter) return Fault(**filter, "needs --hostfile, whose hosts it filters");
  }
  return absl::OkStatus();
}

absl::Status LacksCount(const Setting<int>& node_rank) {
  if (node_rank.origin == Origin::kFlag) return Fault(node_rank, "needs --nnodes");
  const char* const prefix = node_rank.origin == Origin::kTorchrunVariable ? "PET_" : "MUSTER_";
  return Fault(node_rank, absl::StrCat("needs ", VariableName(prefix, "nnodes"),
                                       ", the number of nodes; set it, or unset this variable"));
}

// No source applies.
absl::StatusOr<Membership> WithoutPlatform(const MembershipSettings& s, const Machine& machine) {
  if (s.coordinator) return Fault(*s.coordinator, "needs --nnodes: no platform gives the number of nodes");
  if (s.nnodes && s.node_rank) return FromOptions(s);  // several nodes on one machine, as under torchrun
  if (s.nnodes) {
    return Fault(*s.nnodes, "needs --rdzv-endpoint or --master-addr: no platform names the primary");
  }
  const bool has_rank = s.node_rank && s.node_rank->value > 0;
  if (has_rank && !s.as_torchrun) return LacksCount(*s.node_rank);
  Membership m = SingleNode(s, machine, NamesPrimary(s) ? kFromOptions : kSingleNode);
  if (has_rank) m.view.warnings.push_back(NodeRankIsIgnored(*s.node_rank) + "; give --nnodes for several");
  return m;
}

// Membership from options; in a numbered pod without --node-rank the pod's number is the rank, else each pod would
// be node 0. With --rdzv-endpoint the rank is assigned at the rendezvous.
absl::StatusOr<Membership> FromOptionsOrPod(const MembershipSettings& s, const Environment& environment,
                                            const Machine& machine) {
  if (!s.coordinator && !s.node_rank && !s.rdzv_endpoint) {
    ASSIGN_OR_RETURN(std::optional<discovery::ClusterView> pod, ReadPod(s, environment, machine));
    if (pod) {
      SetPrimaryBeside(s, &*pod);
      return FromPlatform(s, *std::move(pod));
    }
  }
  return NotingIgnoredSources(FromOptions(s), s, environment, machine);
}

// Whether options may name a primary in addition to the source. Kubeflow's variables are both option and source.
bool MayNamePrimary(const MembershipSettings& s, const discovery::ClusterView& view) {
  const discovery::Traits& traits = TraitsOf(view.source);
  if (view.primary_host.empty() || traits.is_host_list || traits.is_numbered_pod) return true;
  const Setting<std::string> named = NamedPrimary(s);
  return s.source && named.origin == Origin::kTorchrunVariable && named.value == view.primary_host;
}

// The error for a primary that options name although the source names one.
absl::Status RefuseSecondPrimary(const MembershipSettings& s, const std::string& source) {
  const Setting<std::string> named = NamedPrimary(s);
  if (s.source) {
    const bool by_flag = named.origin == Origin::kFlag;
    return Fault(*s.source,
                 absl::StrCat("already names the primary: ",
                              by_flag ? "leave out --master-addr and --rdzv-endpoint" : "unset " + named.source));
  }
  return Fault(named, absl::StrCat("needs --nnodes, since the platform (", source, ") names a primary, too"));
}

absl::StatusOr<Membership> FindAnyPort(const MembershipSettings& s, const Environment& environment,
                                       const Machine& machine) {
  if (IsStandalone(s)) {
    ASSIGN_OR_RETURN(Membership m, Standalone(s, machine));
    return NotingIgnoredSources(std::move(m), s, environment, machine);
  }
  if (OptionsSuffice(s)) {
    const bool one = !s.coordinator && s.nnodes->value.max == 1;
    if (!one) return FromOptionsOrPod(s, environment, machine);
    RETURN_IF_ERROR(CheckAlone(s, environment, machine));
    return NotingIgnoredSources(SingleNode(s, machine, kFromOptions), s, environment, machine);
  }
  absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, OptionsOf(s));
  if (!view.ok()) return absl::FailedPreconditionError(view.status().message());
  RETURN_IF_ERROR(CheckFilters(s, view->source));
  if (OnlyTorchrunVariables(s)) return FromTorchrunVariables(s, *std::move(view));
  if (view->source == kSingleNode) {
    ASSIGN_OR_RETURN(Membership m, WithoutPlatform(s, machine));
    m.view.warnings.insert(m.view.warnings.end(), view->warnings.begin(), view->warnings.end());
    if (!s.as_torchrun) return m;
    if (std::string others = OtherNodes(s, environment, machine); !others.empty())
      m.view.warnings.push_back(std::move(others));
    return NotingIgnoredSources(std::move(m), s, environment, machine);
  }
  if (NamesPrimary(s) && !MayNamePrimary(s, *view)) {
    if (view->nnodes == 1) return WithoutPlatform(s, machine);
    return RefuseSecondPrimary(s, view->source);
  }
  if (NamesPrimary(s)) SetPrimaryBeside(s, &*view);
  return FromPlatform(s, *std::move(view));
}

// Why a job cannot have this list of nodes: one is "localhost" and another a machine of its own; "": it can.
std::string LoopbackAmongOthers(const discovery::ClusterView& view) {
  std::string own, other;
  for (const std::string& node : view.nodes) {
    const absl::StatusOr<discovery::Address> address = discovery::ParseAddress(node);
    if (address.ok()) (IsLoopback(address->host) ? own : other) = address->host;
  }
  if (own.empty() || other.empty()) return "";
  return absl::StrCat(own, ", a node of this job, is each machine's own address, and ", other,
                      " is another machine's: in its place give the name by which the others reach that node");
}

}  // namespace

absl::StatusOr<Membership> FindMembership(const MembershipSettings& s, const Environment& environment,
                                          const Machine& machine) {
  ASSIGN_OR_RETURN(Membership m, FindAnyPort(s, environment, machine));
  if (m.single_node || m.view.primary_port != 0) return m;
  if (s.rdzv_endpoint && s.rdzv_endpoint->value.port == uint16_t{0})
    return Fault(*s.rdzv_endpoint, kPortForOneNode);
  if (s.master_port && s.master_port->value == 0) return Fault(*s.master_port, kPortForOneNode);
  return m;
}

PlanLines PlanMembership(const PlanInput& in, discovery::ClusterView* view, v1::NodeConfig* config) {
  const MembershipSettings& s = in.settings.membership;
  const Membership& m = in.membership;
  const bool trainer = m.view.role == discovery::NodeRole::kTrainer;
  PlanLines plan;
  *view = m.view;
  plan.warnings = std::move(view->warnings);
  const auto take_variables = in.platform().take_variables;
  if (take_variables != nullptr && !m.on_platform) take_variables(in.environment, view);
  view->run_id = plan.Pick("rdzv-id", s.rdzv_id, m.view.run_id, {in.PlatformOrDefault()});
  config->set_run_id(view->run_id);
  config->set_run_id_may_repeat(s.rdzv_id.has_value() || m.view.run_id == discovery::kNoRunName ||
                                TraitsOf(m.view.source).starts_no_node_again);
  config->set_role(trainer ? v1::ROLE_TRAINER : v1::ROLE_OBSERVER);
  if (trainer && m.view.node_rank >= 0) config->set_place(m.view.node_rank);
  config->set_place_is_hint(config->has_place() && m.rank_is_hint);
  for (const std::string& node : m.view.nodes) config->add_place_names(node);
  config->set_min_nodes(m.min_nodes);
  config->set_max_nodes(m.max_nodes);
  config->mutable_primary()->set_host(m.view.primary_host);
  config->mutable_primary()->set_port(m.view.primary_port);
  if (!s.coordinator) {
    config->set_primary_address(m.view.primary_address);
    config->set_primary_source(m.view.primary_evidence);
  }
  config->set_serves(trainer ? m.serves : v1::NodeConfig::SERVES_NO);
  config->set_single_node(m.single_node);
  config->set_coordinator_alone(s.coordinator.has_value());
  config->set_loopback_only(m.view.loopback_only);
  if (const std::string wrong = LoopbackAmongOthers(m.view); !wrong.empty()) plan.warnings.push_back(wrong);
  if (m.view.loopback_only && !m.single_node && !in.is_of_local()) {
    plan.notes.push_back(absl::StrCat(m.view.primary_host, " is each machine's own address: all ", m.max_nodes,
                                      " nodes must be on this machine; else give the address by which the others "
                                      "reach the primary"));
  }
  plan.Add("nnodes",
           m.min_nodes == m.max_nodes ? absl::StrCat(m.max_nodes) : absl::StrCat(m.min_nodes, ":", m.max_nodes),
           m.nodes_source);
  config->set_local_addr(plan.Pick("local-addr", s.local_addr, std::string()));
  return plan;
}

}  // namespace muster::cli
