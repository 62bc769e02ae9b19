// A hostfile as a source: which of its hosts this machine is, and what follows. Pure: what only the machine can
// tell is asked through the probes that are given.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

struct HostfileOptions {
  std::string path;                        // --hostfile; empty: kDefaultHostfile, if it is there
  std::string path_source = "--hostfile";  // who says so, for messages
  std::string include;                     // --include, --exclude: "HOST[:SLOT,SLOT][@HOST...]"
  std::string exclude;
  std::string hostname;                                    // this machine's own
  std::function<bool(const std::string&)> is_own_address;  // of an IP address
  // May take seconds; no function: no name is resolved. nullopt: it does not resolve, or not in time.
  std::function<std::optional<bool>(const std::string& name)> resolves_to_own;
};

// nullopt where no file was asked for and there is none. The node finds itself by host name or address, then by
// what the names resolve to; node_rank, its place among the hosts that are left, comes before that. The first host
// is the primary, nproc is the number of this host's slots; where --include or --exclude took some of them away,
// the workers see only the rest (CUDA_VISIBLE_DEVICES).
Reading ReadHostfile(const Evidence& evidence, const HostfileOptions& options, std::optional<int> node_rank);

// One line "HOST slots=N" for each place of a view, as DeepSpeed reads it: slots of the view where it names them,
// else `slots`. InvalidArgument: the view names no nodes.
absl::StatusOr<std::string> WriteHostfile(const ClusterView& view, int slots);

}  // namespace muster::discovery
