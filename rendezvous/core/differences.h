// Reports how the nodes of one job were started differently: the setting, its values and the nodes. Such nodes get
// a warning; they are never refused. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster::rendezvous {

inline constexpr size_t kMaxFacts = 80;           // examined per node; an agent sends fewer
inline constexpr size_t kMaxFactBytes = 512;      // of a name or a value; the rest is cut off
inline constexpr size_t kMaxDifferencesSaid = 8;  // lines per round; further differences are counted
inline constexpr size_t kMaxNodesNamed = 8;       // per value
inline constexpr size_t kMaxValuesNamed = 4;      // per fact
inline constexpr size_t kMaxValueShown = 120;     // bytes
inline constexpr size_t kContextShown = 40;       // bytes shown before the first difference of long values

using Facts = std::map<std::string, std::string>;  // readable name -> value: "NCCL_IB_DISABLE", "NVIDIA driver"

struct NodeFacts {
  std::string name;              // shown: "node 2 (gpu-07)"
  std::string key;               // identifies the node across rounds
  const Facts* facts = nullptr;  // not owned; alive during the call
};

class Differences {
 public:
  // One line for each fact that differs, in the order of the facts' names. The most frequent value (among equally
  // frequent ones the first node's) is given with the number of its nodes, the others with the nodes' names. A
  // difference that was reported for the same nodes in the last round is left out. Control characters in names and
  // values are escaped (OneLine). What follows kNotCompared in a value is shown beside it.
  // A fact that a node may leave out (base/wire/facts.h) is compared among those that sent it.
  std::vector<std::string> Of(const std::vector<NodeFacts>& nodes);

 private:
  std::set<std::string> said_;  // "fact\nvalue\nnode key" of the last round
};

}  // namespace muster::rendezvous
