// All sources in one order: the first that fits says what this node's place is, and any other that fits must agree
// with it, unless it only repeats in other words what the first says.
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
  std::string source;         // --source: read this one alone, whatever else is there; empty: look at all
  std::optional<int> nnodes;  // --nnodes (its MAX), for sources that do not say how many there are
  std::string nnodes_source = "--nnodes";  // who says so, for messages
  bool primary_given = false;              // by an option, which comes first
  std::optional<int> node_rank;            // --node-rank, for sources that do not say which one this is
};

// One row of the table: a platform, or a way of writing the place by hand.
struct Source {
  const char* name;      // for people and --source
  const char* evidence;  // the variable or file by which it is known
  Reading (*read)(const Evidence&, const DiscoverOptions&);
};

// Where `richer` fits, `implied` is not even read: it says the same in fewer words, or in words that mean
// something else beside it. "*" as richer: all sources before it in the table.
struct Implication {
  std::string_view richer;
  std::string_view implied;
};

const std::vector<Source>& Sources();            // in the order in which they are asked
const std::vector<Implication>& Implications();  // the richer one comes first in Sources()

// Names that --source takes, "vertex, sagemaker, ...".
bool IsSource(std::string_view name);
std::string SourceNames();

// The place that the evidence gives this node, for callers to whom the user gave none. Where no source fits it is
// a job of one node (source "single"). A view without primary_host is one whose sources name no primary. Errors,
// each of one line: InvalidArgument: a reading that is wrong, two sources that disagree, options.source unknown or
// not here. Unavailable: a file of the platform is not written yet; worth another try.
absl::StatusOr<ClusterView> Discover(const Evidence& evidence, const DiscoverOptions& options);

// Names of the sources that would have had a say (or a complaint), for those who were told the place otherwise.
std::vector<std::string> SourcesHere(const Evidence& evidence, const DiscoverOptions& options);

}  // namespace muster::discovery
