// A set of connections that knows which source has most of them, and which of those came first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace muster::rendezvous {

using ConnectionId = uint64_t;  // counts up

class BySource {
 public:
  void Add(const std::string& source, ConnectionId id) {
    std::set<ConnectionId>& of_source = sources_[source];
    Unrank(source, of_source);
    of_source.insert(id);
    Rank(source, of_source);
    ++size_;
  }

  void Remove(const std::string& source, ConnectionId id) {
    const auto it = sources_.find(source);
    if (it == sources_.end() || !it->second.contains(id)) return;
    Unrank(source, it->second);
    it->second.erase(id);
    Rank(source, it->second);
    if (it->second.empty()) sources_.erase(it);
    --size_;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t SizeOf(const std::string& source) const {
    const auto it = sources_.find(source);
    return it == sources_.end() ? 0 : it->second.size();
  }
  ConnectionId NewestOf(const std::string& source) const { return *sources_.at(source).rbegin(); }
  ConnectionId OldestOf(const std::string& source) const { return *sources_.at(source).begin(); }

  // From the source with the most; among several such sources, from the one whose oldest came first: a name is
  // something that a stranger can choose. Not when empty.
  ConnectionId OldestOfFullest() const { return *sources_.at(std::get<std::string>(*ranks_.rbegin())).begin(); }

 private:
  // Number of connections, then age of the oldest: the last rank is the fullest source.
  using Ranked = std::tuple<size_t, ConnectionId, std::string>;
  static Ranked RankOf(const std::string& source, const std::set<ConnectionId>& ids) {
    return {ids.size(), std::numeric_limits<ConnectionId>::max() - *ids.begin(), source};
  }
  void Rank(const std::string& source, const std::set<ConnectionId>& ids) {
    if (!ids.empty()) ranks_.insert(RankOf(source, ids));
  }
  void Unrank(const std::string& source, const std::set<ConnectionId>& ids) {
    if (!ids.empty()) ranks_.erase(RankOf(source, ids));
  }

  std::map<std::string, std::set<ConnectionId>> sources_;
  std::set<Ranked> ranks_;
  size_t size_ = 0;
};

}  // namespace muster::rendezvous
