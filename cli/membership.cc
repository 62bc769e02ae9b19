#include "cli/membership.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr char kFromFlags[] = "flags";
constexpr char kNoPlatform[] = "single";  // what discovery calls a machine on which no platform was found
constexpr char kThisMachine[] = "127.0.0.1";
constexpr char kRunWithoutName[] = "none";  // torchrun's
constexpr char kOuterLauncher[] =
    "LOCAL_RANK and TORCHELASTIC_RUN_ID: this is a worker of another launcher, and the platform's place is that "
    "launcher's; give --standalone, or --rdzv-endpoint and --nnodes, for a job of its own";

bool IsTrue(const Given<bool>& given) { return given && given->value; }

bool SaysStandalone(const Settings& s) {
  if (IsTrue(s.standalone)) return true;
  return s.rdzv_endpoint && s.rdzv_endpoint->value.port == uint16_t{0};
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

// The primary is named by the options, with several nodes.
Membership FromOptions(const Settings& s) {
  Membership m;
  m.min_nodes = s.nnodes->value.min;
  m.max_nodes = s.nnodes->value.max;
  m.nodes_source = s.nnodes->source;
  discovery::ClusterView& view = m.view;
  view.source = kFromFlags;
  view.nnodes = m.max_nodes;
  view.run_id = kRunWithoutName;
  if (s.coordinator) {
    view.primary_host = s.coordinator->value.host;
    view.primary_port = *s.coordinator->value.port;
  } else if (s.rdzv_endpoint) {
    view.primary_host = s.rdzv_endpoint->value.host;
    view.primary_port = s.rdzv_endpoint->value.port.value_or(kDefaultRendezvousPort);
  } else {
    view.primary_host = s.master_addr ? s.master_addr->value : kThisMachine;
    view.primary_port = s.master_port ? s.master_port->value : kDefaultMasterPort;
  }
  view.loopback_only = IsLoopback(view.primary_host);
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
    return Fault(*s.nnodes, absl::StrCat("the platform (", m->view.source, ") has ", m->view.nnodes, " nodes"));
  }
  m->min_nodes = s.nnodes->value.min;
  m->max_nodes = s.nnodes->value.max;
  m->nodes_source = s.nnodes->source;
  return absl::OkStatus();
}

absl::StatusOr<Membership> FromPlatform(const Settings& s, discovery::ClusterView view) {
  if (s.nested) return absl::FailedPreconditionError(kOuterLauncher);
  Membership m;
  m.on_platform = true;
  m.view = std::move(view);
  RETURN_IF_ERROR(ApplyNodes(s, &m));
  if (s.node_rank && s.node_rank->value != m.view.node_rank) {
    return Fault(*s.node_rank,
                 absl::StrCat("the platform (", m.view.source, ") says that this is ",
                              m.view.node_rank < 0 ? "no trainer" : absl::StrCat("node ", m.view.node_rank)));
  }
  if (s.master_port) m.view.primary_port = s.master_port->value;
  m.single_node = m.view.nnodes == 1 && m.view.role == discovery::NodeRole::kTrainer;
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

}  // namespace

absl::StatusOr<Membership> FindMembership(const Settings& s, const Environment& environment,
                                          const Machine& machine) {
  if (SaysStandalone(s)) {
    if (s.coordinator) return Fault(*s.coordinator, "cannot be used with --standalone");
    if (s.nnodes && s.nnodes->value.max > 1) {
      return Fault(*s.nnodes, absl::StrCat(s.rdzv_endpoint ? s.rdzv_endpoint->source : "--standalone",
                                           " says that this is a job of one node"));
    }
    return SingleNode(s, machine, kFromFlags);
  }
  if (s.coordinator && s.nnodes) return FromOptions(s);
  if (s.nnodes && s.nnodes->value.max == 1) return SingleNode(s, machine, kFromFlags);
  const bool primary_is_named = s.master_addr || s.rdzv_endpoint;
  if (primary_is_named && s.nnodes) return FromOptions(s);

  absl::StatusOr<discovery::ClusterView> view = machine.discover(environment, IsTrue(s.all_pools));
  if (!view.ok()) return absl::FailedPreconditionError(view.status().message());
  if (view->source != kNoPlatform) {
    if (primary_is_named && view->nnodes > 1) {
      const std::string reason =
          absl::StrCat("needs --nnodes, since a platform (", view->source, ") is there too");
      return s.rdzv_endpoint ? Fault(*s.rdzv_endpoint, reason) : Fault(*s.master_addr, reason);
    }
    if (!primary_is_named) return FromPlatform(s, std::move(view).value());
  }
  if (s.coordinator) return Fault(*s.coordinator, "needs --nnodes: nothing here says how many nodes there are");
  if (s.nnodes && s.node_rank) return FromOptions(s);  // several nodes on one machine, as torchrun has it
  if (s.nnodes) {
    return Fault(*s.nnodes, "needs --rdzv-endpoint or --master-addr: nothing here says which node is the primary");
  }
  if (s.node_rank && s.node_rank->value > 0) return Fault(*s.node_rank, "needs --nnodes");
  return SingleNode(s, machine, primary_is_named ? kFromFlags : kNoPlatform);
}

}  // namespace muster::cli
