#include "rendezvous/core/differences.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/text.h"
#include "base/wire/facts.h"

namespace muster::rendezvous {
namespace {

using Nodes = std::vector<size_t>;                          // indices, in the order of the round
using Groups = std::vector<std::pair<std::string, Nodes>>;  // (value, its nodes); value "": the fact is not set

bool MayBeLeftOut(const std::string& name) { return name == kPythonFact || name == kScriptFact; }

std::string Compared(const std::string& value) { return value.substr(0, value.find(kNotCompared)); }

// Compares value by value only those nodes whose facts differ from the first node's. Mostly there are none.
std::set<std::string> NamesThatDiffer(const std::vector<NodeFacts>& nodes) {
  std::set<std::string> names;
  const Facts& first = *nodes.front().facts;
  const auto collect = [&names](const Facts& facts, const Facts& others) {
    size_t count = 0;
    for (const auto& [name, value] : facts) {
      if (++count > kMaxFacts) return;
      const auto other = others.find(name);
      if (other == others.end() || Compared(other->second) != Compared(value)) names.insert(name);
    }
  };
  for (const NodeFacts& node : nodes) {
    if (*node.facts == first) continue;
    collect(*node.facts, first);
    collect(first, *node.facts);
  }
  return names;
}

// Nodes grouped by value, from the rarest value to the most frequent one.
Groups GroupsOf(const std::string& name, const std::vector<NodeFacts>& nodes) {
  std::map<std::string, Nodes> by_value;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto fact = nodes[i].facts->find(name);
    const bool is_sent = fact != nodes[i].facts->end();
    if (is_sent || !MayBeLeftOut(name)) by_value[is_sent ? Compared(fact->second) : ""].push_back(i);
  }
  Groups groups(by_value.begin(), by_value.end());
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return a.second.front() > b.second.front();
  });
  return groups;
}

// Length of the common beginning of all values, which is not shown if it is long.
size_t CommonPrefix(const Groups& groups) {
  const std::string& first = groups.front().first;
  size_t common = first.size();
  for (const auto& [value, nodes] : groups) {
    const auto [a, b] = std::mismatch(first.begin(), first.end(), value.begin(), value.end());
    common = std::min(common, static_cast<size_t>(a - first.begin()));
  }
  return common;
}

std::string Shown(const std::string& value, size_t common) {
  if (value.empty()) return "not set";
  std::string text = value;
  if (common > 2 * kContextShown)
    text = absl::StrCat("...", CutUtf8Front(value, value.size() - (common - kContextShown)));
  if (text.size() > kMaxValueShown) text = absl::StrCat(CutUtf8(text, kMaxValueShown), "...");
  return absl::StrContains(text, ' ') ? absl::StrCat("'", text, "'") : text;
}

// " (/usr/bin/python3)": what the first node of a group has beside the value; empty: nothing.
std::string Beside(const std::string& name, const NodeFacts& node) {
  const auto fact = node.facts->find(name);
  const size_t mark = fact == node.facts->end() ? std::string::npos : fact->second.find(kNotCompared);
  return mark == std::string::npos ? "" : absl::StrCat(" (", Shown(fact->second.substr(mark + 1), 0), ")");
}

std::string Line(const std::string& name, const Groups& groups, const std::vector<NodeFacts>& nodes) {
  const size_t common = CommonPrefix(groups);
  std::vector<std::string> parts;
  for (size_t i = 0; i + 1 < groups.size(); ++i) {
    if (parts.size() + 1 >= kMaxValuesNamed && i + 2 < groups.size()) {
      parts.push_back(absl::StrCat(groups.size() - 1 - i, " other values on others"));
      break;
    }
    std::vector<std::string> names;
    for (const size_t node : groups[i].second) names.push_back(nodes[node].name);
    parts.push_back(absl::StrCat(Shown(groups[i].first, common), Beside(name, nodes[groups[i].second.front()]),
                                 " on ", JoinAtMost(names, kMaxNodesNamed)));
  }
  const auto& [usual, holders] = groups.back();
  parts.push_back(absl::StrCat(Shown(usual, common), Beside(name, nodes[holders.front()]), " on ",
                               holders.size() == 1
                                   ? nodes[holders.front()].name
                                   : absl::StrCat(MayBeLeftOut(name) ? "" : "the ", holders.size(), " others")));
  // The options among the facts are those that the coordinator decides by.
  const bool is_option = absl::StartsWith(name, "--");
  return OneLine(absl::StrCat("nodes differ: ", name, " is ", absl::StrJoin(parts, "; "),
                              is_option ? "; the primary's value applies" : ""));
}

}  // namespace

std::vector<std::string> Differences::Of(const std::vector<NodeFacts>& nodes) {
  std::vector<std::string> lines;
  if (nodes.empty()) return lines;
  std::set<std::string> present;
  std::vector<std::string> unsaid;
  for (const std::string& name : NamesThatDiffer(nodes)) {
    const Groups groups = GroupsOf(name, nodes);
    bool is_new = false;
    for (size_t i = 0; i + 1 < groups.size(); ++i) {
      for (const size_t node : groups[i].second) {
        const std::string key = absl::StrCat(name, "\n", groups[i].first, "\n", nodes[node].key);
        is_new |= said_.count(key) == 0;
        present.insert(key);
      }
    }
    if (!is_new) continue;
    if (lines.size() < kMaxDifferencesSaid) {
      lines.push_back(Line(name, groups, nodes));
    } else {
      unsaid.push_back(name);
    }
  }
  if (!unsaid.empty()) {
    lines.push_back(
        OneLine(absl::StrCat("nodes differ in ", unsaid.size(), " more: ", JoinAtMost(unsaid, kMaxNodesNamed))));
  }
  said_ = std::move(present);
  return lines;
}

}  // namespace muster::rendezvous
