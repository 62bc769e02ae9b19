// Nodes of one job that were not started alike: which, in what, and how they have it. A remark, never a reason to
// refuse anybody. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster::rendezvous {

inline constexpr size_t kMaxFacts = 80;           // of one node that are looked at; an agent sends fewer
inline constexpr size_t kMaxFactBytes = 1024;     // of a name or a value; more is cut off
inline constexpr size_t kMaxDifferencesSaid = 8;  // of a round, a line each; the rest are counted
inline constexpr size_t kMaxNodesNamed = 8;       // of those that have one value
inline constexpr size_t kMaxValuesNamed = 4;      // of one fact
inline constexpr size_t kMaxValueShown = 120;     // bytes
inline constexpr size_t kContextShown = 40;       // bytes before the first difference of long values

using Facts = std::map<std::string, std::string>;  // by name, for people: "NCCL_IB_DISABLE", "NVIDIA driver"

struct NodeFacts {
  std::string name;              // for people: "node 2 (gpu-07)"
  std::string key;               // stays the same from round to round
  const Facts* facts = nullptr;  // of this round's; alive during the call
};

// What differs, in the order of the facts' names; of most nodes' value (of several that are as frequent the first
// node's) it is only said how many have it. Said before, of the same nodes: not again. Each is one line, whatever
// the nodes told (OneLine).
class Differences {
 public:
  std::vector<std::string> Of(const std::vector<NodeFacts>& nodes);

 private:
  std::set<std::string> said_;  // fact, value and node of the last round's
};

}  // namespace muster::rendezvous
