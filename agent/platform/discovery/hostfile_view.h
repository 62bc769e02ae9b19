// A hostfile as a source: finds this machine among its hosts. Pure: knowledge about the machine comes from the
// given probes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/platform/discovery/cluster_view.h"
#include "agent/platform/discovery/hostfile.h"

namespace muster::discovery {

struct HostfileOptions {
  std::string path;                        // --hostfile; empty: kDefaultHostfile, if it exists
  std::string path_source = "--hostfile";  // the origin of path, for messages
  std::string include;                     // --include, --exclude: "HOST[:SLOT,SLOT][@HOST...]"
  std::string exclude;
  std::string hostname;                                    // this machine's host name
  std::function<bool(const std::string&)> is_own_address;  // whether an IP address is this machine's
  // Whether a name resolves to this machine; may take seconds. nullopt: it does not resolve, or not in time. An
  // empty function: names are not resolved.
  std::function<std::optional<bool>(const std::string& name)> resolves_to_own;
};

// The hosts of the file `path`; empty: of kDefaultHostfile, if that exists. nullopt: it does not. path_source: the
// origin of path, for messages. An error has one line. warnings: as for ParseHostfile.
absl::StatusOr<std::optional<std::vector<HostSlots>>> LoadHostfile(const FileReader& read_file,
                                                                   const std::string& path,
                                                                   const std::string& path_source,
                                                                   std::vector<std::string>* warnings = nullptr);

// nullopt: no file was named and the default one does not exist. node_rank, the place among the remaining hosts,
// identifies this node; without it, the node finds itself by host name or address, then by resolving the names.
// The first host is the primary. nproc is the number of this host's slots; if --include or --exclude removed some
// of them, the workers see only the rest (CUDA_VISIBLE_DEVICES).
Reading ReadHostfile(const Evidence& evidence, const HostfileOptions& options, std::optional<int> node_rank);

// Writes one line "HOST slots=N" for each place of a view, in DeepSpeed's format, with the slots of the view, or
// `slots` if it has none. InvalidArgument: the view names no nodes.
absl::StatusOr<std::string> WriteHostfile(const ClusterView& view, int slots);

}  // namespace muster::discovery
