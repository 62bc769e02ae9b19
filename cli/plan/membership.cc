#include "cli/plan/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace muster::cli {
namespace {

constexpr char kFromFlags[] = "flags";
constexpr char kHostfile[] = "hostfile";  // what discovery calls one
constexpr char kStatefulSet[] = "statefulset";
constexpr std::string_view kNumberPods[] = {"jobset", "indexed-job", kStatefulSet};
constexpr char kNoPlatform[] = "single";  // what discovery calls a machine on which no platform was found
constexpr char kThisMachine[] = "127.0.0.1";
constexpr char kOuterLauncher[] =
    "LOCAL_RANK and TORCHELASTIC_RUN_ID: this is a worker of another launcher, and the platform's place is that "
    "launcher's; give --standalone, or --rdzv-endpoint and --nnodes, for a job of its own";

bool IsTrue(const Given<bool>& given) { return given && given->value; }

bool SaysStandalone(const Settings& s) {
  if (IsTrue(s.standalone)) return true;
  return s.rdzv_endpoint && s.rdzv_endpoint->value.port == uint16_t{0};
}

// Whatever gives the place by hand: who says so, for one line.
std::string ByHand(const Settings& s) {
  if (IsTrue(s.standalone)) return s.standalone->source;
  return s.nnodes ? s.nnodes->source : s.rdzv_endpoint->source;
}

bool NamesPrimary(const Settings& s) { return s.master_addr || s.rdzv_endpoint; }

discovery::DiscoverOptions OptionsOf(const Settings& s) {
  discovery::DiscoverOptions options;
  options.vertex.all_pools = IsTrue(s.all_pools);
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
  return options;
}

// The place was given by hand: whoever else would have had a say is named, once.
Membership Silencing(Membership m, const Settings& s, const Environment& environment, const Machine& machine) {
  const std::vector<std::string> here = machine.sources_here(environment, OptionsOf(s));
  if (here.empty()) return m;
  m.platform = here.front();
  m.silenced = absl::StrCat(ByHand(s), " says who is in the job: what ", absl::StrJoin(here, ", "),
                            here.size() == 1 ? " says" : " say", " is not looked at");
  return m;
}

Membership SingleNode(const Settings& s, const Machine& machine, const char* source) {
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

// Who the options say it is, and which of them.
Setting<std::string> NamedPrimary(const Settings& s) {
  if (!s.rdzv_endpoint) return *s.master_addr;
  const auto& endpoint = *s.rdzv_endpoint;
  return {endpoint.value.host, endpoint.origin, endpoint.source, endpoint.text};
}

void SetPrimary(const Settings& s, discovery::ClusterView* view) {
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

bool NumbersPods(const std::string& source) {
  return std::find(std::begin(kNumberPods), std::end(kNumberPods), source) != std::end(kNumberPods);
}

// Beside a source. Of pods all know the same port, also those that need no option to know the first one.
void SetPrimaryBeside(const Settings& s, discovery::ClusterView* view) {
  const uint16_t port = view->primary_port;
  SetPrimary(s, view);
  if (NumbersPods(view->source) && !s.rdzv_endpoint && !s.master_port) view->primary_port = port;
}

// The primary is named by the options, with several nodes.
Membership FromOptions(const Settings& s) {
  Membership m;
  m.min_nodes = s.nnodes->value.min;
  m.max_nodes = s.nnodes->value.max;
  m.nodes_source = s.nnodes->source;
  discovery::ClusterView& view = m.view;
  view.source = kFromFlags;
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
    m.serves = view.node_rank == 0 ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO;
  } else {
    // torchrun takes a node for number 0 unless told otherwise; that holds where the primary's address is ours.
    view.node_rank = s.rdzv_endpoint ? -1 : 0;
    m.serves = v1::NodeConfig::SERVES_IF_LOCAL;
  }
  if (s.is_host) m.serves = *s.is_host ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO;
  return m;
}

absl::Status ApplyNodes(const Settings& s, Membership* m) {
  m->min_nodes = m->max_nodes = m->view.nnodes;
  m->nodes_source = m->view.source;
  if (!s.nnodes) return absl::OkStatus();
  if (s.nnodes->value.max > m->view.nnodes) {
    return Fault(*s.nnodes, absl::StrCat("expected at most ", m->view.nnodes, ", the nodes that the platform (",
                                         m->view.source, ") has; correct it, or leave it out"));
  }
  m->min_nodes = s.nnodes->value.min;
  m->max_nodes = s.nnodes->value.max;
  m->nodes_source = s.nnodes->source;
  return absl::OkStatus();
}

// A source that knows ranks alone, as mpirun does: the options say who is the primary.
absl::Status NamePrimary(const Settings& s, discovery::ClusterView* view) {
  if (!NamesPrimary(s)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--master-addr is missing: expected the address of node 0, as the platform (", view->source,
        ") says which node this is, but not where the primary is; give --master-addr, the same on all nodes"));
  }
  SetPrimaryBeside(s, view);
  return absl::OkStatus();
}

absl::StatusOr<Membership> FromPlatform(const Settings& s, discovery::ClusterView view) {
  if (s.nested) return absl::FailedPreconditionError(kOuterLauncher);
  Membership m;
  m.on_platform = true;
  m.platform = view.source;
  m.view = std::move(view);
  if (m.view.primary_host.empty() && !s.coordinator) RETURN_IF_ERROR(NamePrimary(s, &m.view));
  RETURN_IF_ERROR(ApplyNodes(s, &m));
  if (s.node_rank && s.node_rank->value != m.view.node_rank) {
    return Fault(*s.node_rank,
                 absl::StrCat("expected ", m.view.node_rank < 0 ? "none" : absl::StrCat(m.view.node_rank),
                              ", as the platform (", m.view.source, ") says; correct it, or leave it out"));
  }
  if (s.master_port) m.view.primary_port = s.master_port->value;
  m.single_node = m.view.nnodes == 1 && m.view.role == discovery::NodeRole::kTrainer && !m.view.may_have_aux;
  m.serves = m.view.node_rank == 0 ? v1::NodeConfig::SERVES_YES : v1::NodeConfig::SERVES_NO;
  if (s.coordinator) {
    m.view.primary_host = s.coordinator->value.host;
    m.view.primary_port = *s.coordinator->value.port;
    m.view.loopback_only &= IsLoopback(m.view.primary_host);
    m.single_node = false;
    m.serves = v1::NodeConfig::SERVES_NO;
  }
  return m;
}

// PET_* alone, as Kubeflow's operators set them: a source like others, though with torchrun's defaults.
bool ByTorchrunVariables(const Settings& s) {
  const auto by_others = [](const auto& given) { return given && given->origin != Origin::kTorchrunVariable; };
  if (s.coordinator || by_others(s.nnodes) || by_others(s.node_rank) || by_others(s.master_addr)) return false;
  if (by_others(s.master_port) || by_others(s.rdzv_endpoint)) return false;
  return s.nnodes && s.nnodes->value.max > 1 && NamesPrimary(s);
}

absl::StatusOr<Membership> FromTorchrunVariables(const Settings& s, discovery::ClusterView view) {
  const bool of_kubeflow = view.source == "trainer" || view.source == "pytorchjob";
  if (!of_kubeflow && view.source != kNoPlatform) {
    Settings others = s;
    if (s.source)
      others.nnodes.reset(), others.node_rank.reset(), others.master_port.reset();  // it was not chosen
    return FromPlatform(others, std::move(view));
  }
  Membership m = FromOptions(s);
  if (of_kubeflow) m.view.source = m.platform = view.source;
  m.view.warnings = std::move(view.warnings);
  return m;
}

// Whether the options say it all. --source, where it is said at least as plainly, wants to be asked all the same.
bool SaysAll(const Settings& s) {
  if (!s.nnodes) return false;
  if (s.source && s.source->origin <= s.nnodes->origin) return false;
  return s.coordinator || s.nnodes->value.max == 1 || (NamesPrimary(s) && !ByTorchrunVariables(s));
}

// What Kubernetes says of this pod, whose number no option tells; nullopt where it is none that it numbers.
discovery::Reading ReadPod(const Settings& s, const Environment& environment, const Machine& machine) {
  discovery::DiscoverOptions options = OptionsOf(s);
  const std::vector<std::string> here = machine.sources_here(environment, options);
  if (here.empty() || !NumbersPods(here.front())) return std::nullopt;
  // A StatefulSet's pod is known by its name alone, and machines are called node-1, too.
  const auto has = [&](const char* variable) { return environment.count(variable) > 0; };
  const bool in_pod = has("KUBERNETES_SERVICE_HOST") || has("MUSTER_SUBDOMAIN");
  if (here.front() == kStatefulSet && !in_pod) return std::nullopt;
  options.source = here.front();
  absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, options);
  if (!view.ok()) return absl::FailedPreconditionError(view.status().message());
  return *std::move(view);
}

// By MUSTER_NNODES pods are told how many there are, which is one only for pod 0.
absl::Status CheckOnlyPod(const Settings& s, const Environment& environment, const Machine& machine) {
  if (s.node_rank) return absl::OkStatus();
  const discovery::Reading pod = ReadPod(s, environment, machine);
  if (pod.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(pod.status().message(), "; or give --nnodes 1 for a job of this pod alone"));
}

// torchrun's variables come after what a platform says. Of one node, they would make each of its nodes a job of
// its own.
absl::Status CheckAlone(const Settings& s, const Environment& environment, const Machine& machine) {
  if (s.nnodes->origin == Origin::kMusterVariable) return CheckOnlyPod(s, environment, machine);
  if (s.nnodes->origin != Origin::kTorchrunVariable) return absl::OkStatus();
  const absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, OptionsOf(s));
  if (!view.ok() || view->nnodes == 1 || view->source == kHostfile) return absl::OkStatus();
  return Fault(*s.nnodes, absl::StrCat("expected ", view->nnodes, ", the nodes that the platform (", view->source,
                                       ") has; unset it, or give --nnodes 1 for a job of this node alone"));
}

absl::StatusOr<Membership> Standalone(const Settings& s, const Machine& machine) {
  if (s.coordinator) return Fault(*s.coordinator, "cannot be used with --standalone");
  if (s.source && s.source->origin == Origin::kFlag) return Fault(*s.source, "cannot be used with --standalone");
  if (s.nnodes && s.nnodes->value.max > 1) {
    return Fault(*s.nnodes, absl::StrCat(s.rdzv_endpoint ? s.rdzv_endpoint->source : "--standalone",
                                         " says that this is a job of one node"));
  }
  return SingleNode(s, machine, kFromFlags);
}

// What chooses among a hostfile's hosts must not be passed over in silence.
absl::Status CheckFilters(const Settings& s, const std::string& source) {
  if (source == kHostfile) return absl::OkStatus();
  for (const Given<std::string>* filter : {&s.include, &s.exclude}) {
    if (*filter) return Fault(**filter, "needs --hostfile: it chooses among the hosts of one");
  }
  return absl::OkStatus();
}

absl::Status LacksCount(const Setting<int>& node_rank) {
  if (node_rank.origin == Origin::kFlag) return Fault(node_rank, "needs --nnodes");
  const char* const prefix = node_rank.origin == Origin::kTorchrunVariable ? "PET_" : "MUSTER_";
  return Fault(node_rank, absl::StrCat("needs ", VariableName(prefix, "nnodes"),
                                       ", the number of nodes; set that, or unset this"));
}

// No source fits.
absl::StatusOr<Membership> WithoutPlatform(const Settings& s, const Machine& machine) {
  if (s.coordinator) return Fault(*s.coordinator, "needs --nnodes: nothing here says how many nodes there are");
  if (s.nnodes && s.node_rank) return FromOptions(s);  // several nodes on one machine, as torchrun has it
  if (s.nnodes) {
    return Fault(*s.nnodes, "needs --rdzv-endpoint or --master-addr: nothing here says which node is the primary");
  }
  if (s.node_rank && s.node_rank->value > 0) return LacksCount(*s.node_rank);
  return SingleNode(s, machine, NamesPrimary(s) ? kFromFlags : kNoPlatform);
}

// The options, all but the number of this node, which in a pod is the pod's: else each would be node 0. Those who
// meet at an endpoint get theirs there.
absl::StatusOr<Membership> FromOptionsOrPod(const Settings& s, const Environment& environment,
                                            const Machine& machine) {
  if (!s.coordinator && !s.node_rank && !s.rdzv_endpoint) {
    ASSIGN_OR_RETURN(std::optional<discovery::ClusterView> pod, ReadPod(s, environment, machine));
    if (pod) {
      SetPrimaryBeside(s, &*pod);
      return FromPlatform(s, *std::move(pod));
    }
  }
  return Silencing(FromOptions(s), s, environment, machine);
}

// Whether the options may name one beside that of the source. Kubeflow's variables are both.
bool MayNamePrimary(const Settings& s, const discovery::ClusterView& view) {
  if (view.primary_host.empty() || view.source == kHostfile || NumbersPods(view.source)) return true;
  const Setting<std::string> named = NamedPrimary(s);
  return s.source && named.origin == Origin::kTorchrunVariable && named.value == view.primary_host;
}

// A primary beside one that the source names.
absl::Status RefuseSecondPrimary(const Settings& s, const std::string& source) {
  const Setting<std::string> named = NamedPrimary(s);
  if (s.source) {
    const bool by_flag = named.origin == Origin::kFlag;
    return Fault(*s.source,
                 absl::StrCat("says who the primary is: ",
                              by_flag ? "leave --master-addr and --rdzv-endpoint out" : "unset " + named.source));
  }
  return Fault(named, absl::StrCat("needs --nnodes, since a platform (", source, ") is there too"));
}

}  // namespace

absl::StatusOr<Membership> FindMembership(const Settings& s, const Environment& environment,
                                          const Machine& machine) {
  if (SaysStandalone(s)) {
    ASSIGN_OR_RETURN(Membership m, Standalone(s, machine));
    return Silencing(std::move(m), s, environment, machine);
  }
  if (SaysAll(s)) {
    const bool one = !s.coordinator && s.nnodes->value.max == 1;
    if (!one) return FromOptionsOrPod(s, environment, machine);
    RETURN_IF_ERROR(CheckAlone(s, environment, machine));
    return Silencing(SingleNode(s, machine, kFromFlags), s, environment, machine);
  }
  absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, OptionsOf(s));
  if (!view.ok()) return absl::FailedPreconditionError(view.status().message());
  RETURN_IF_ERROR(CheckFilters(s, view->source));
  if (ByTorchrunVariables(s)) return FromTorchrunVariables(s, *std::move(view));
  if (view->source == kNoPlatform) {
    ASSIGN_OR_RETURN(Membership m, WithoutPlatform(s, machine));
    m.view.warnings = view->warnings;
    return m;
  }
  if (NamesPrimary(s) && !MayNamePrimary(s, *view)) {
    if (view->nnodes == 1) return WithoutPlatform(s, machine);
    return RefuseSecondPrimary(s, view->source);
  }
  if (NamesPrimary(s)) SetPrimaryBeside(s, &*view);
  return FromPlatform(s, *std::move(view));
}

}  // namespace muster::cli
