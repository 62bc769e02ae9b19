// All sources in their order. The first one that fits determines this node's place. Any other one that fits must
// agree with it, unless the first one implies it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/discovery/cluster_view.h"
#include "agent/discovery/hostfile_view.h"
#include "agent/discovery/sagemaker.h"
#include "agent/discovery/vertex.h"

namespace muster::discovery {

struct DiscoverOptions {
  VertexOptions vertex;
  SageMakerOptions sagemaker;
  HostfileOptions hostfile;
  std::string source;                      // --source: read only this one; empty: read all
  std::optional<int> nnodes;               // --nnodes (its MAX), for sources that do not know the number of nodes
  std::string nnodes_source = "--nnodes";  // the origin of nnodes, for messages
  bool primary_given = false;              // an option names the primary, and takes precedence
  std::optional<int> node_rank;            // --node-rank, for sources that do not know this node's rank
};

// A row of the table: a platform, or a form in which users set a node's place.
struct Source {
  const char* name;      // for people and --source
  const char* evidence;  // the variable or file by which it is recognized
  Reading (*read)(const Evidence&, const DiscoverOptions&);
};

// If `richer` fits, `implied` is not read: it contains less of the same information, or its variables have another
// meaning there. "*" as richer stands for all sources before `implied` in the table.
struct Implication {
  std::string_view richer;
  std::string_view implied;
};

const std::vector<Source>& Sources();            // in the order in which they are read
const std::vector<Implication>& Implications();  // the richer one comes first in Sources()

// The names that --source accepts; SourceNames() lists them: "vertex, sagemaker, ...".
bool IsSource(std::string_view name);
std::string SourceNames();

// Determines this node's place from the evidence, if the user has not set it by options. If no source fits, it is
// a job of one node (source "single"). primary_host is empty if no source names the primary. Errors have one line.
// InvalidArgument: invalid evidence, two sources that disagree, or options.source is unknown or does not fit.
// Unavailable: a file of the platform is not written yet; retry.
absl::StatusOr<ClusterView> Discover(const Evidence& evidence, const DiscoverOptions& options);

// Names of the sources that fit (or have an error) here, for callers that got the place in another way.
std::vector<std::string> SourcesHere(const Evidence& evidence, const DiscoverOptions& options);

}  // namespace muster::discovery
