// All host processes that the coordinator knows, their streams, and who holds which place.
//
// A place (a node's number in the cluster spec, or --node-rank) belongs to one live host at a time, its holder.
// Other hosts that claim it stand by: one of them may be the replacement of a holder that has died, or was given
// the same number by mistake.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/counted_map.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/host.h"

namespace muster::rendezvous {

class Hosts {
 public:
  // A host that claims the place of a live one.
  struct Rivalry {
    const Host* holder;
    const Host* other;
  };

  // In the order of the host ids.
  auto begin() { return hosts_.begin(); }
  auto begin() const { return hosts_.begin(); }
  auto end() { return hosts_.end(); }
  auto end() const { return hosts_.end(); }
  size_t size() const { return hosts_.size(); }
  bool empty() const { return hosts_.empty(); }
  Host& Get(const std::string& id) { return hosts_[id]; }  // adds it if it is new
  Host* Find(const std::string& id);                       // nullptr: not known
  const Host* Find(const std::string& id) const;
  // The host whose stream this is, or was before a newer one; empty: none.
  std::string IdOf(StreamId stream) const;
  void Erase(const std::string& id);  // the host, its stream and its claim to a place

  // Records the stream on which the host's newest status came; adds the host if it is new. Returns the stream that
  // this one replaces (0: none), or nullopt if the stream is the same as before.
  std::optional<StreamId> Attach(BootTime now, StreamId stream, const v1::AgentStatus& status);
  void Detach(Host* host);       // its stream has closed; the host itself stays known
  void Forget(StreamId stream);  // a stream has closed that no host uses any more

  // Claims the place that the host's status names, and passes it on if its holder is unusable.
  void Claim(const Host& host);
  void GivePlaceTo(const v1::AgentStatus& status);  // whoever holds it now
  const Host* HolderOf(int place) const;            // nullptr: nobody
  bool HoldsPlace(const Host& host) const;          // or has none
  // The live host that holds this host's place; nullptr: none.
  const Host* RivalOf(const Host& host) const;
  std::vector<Rivalry> Rivalries() const;
  // Whether this status claims a place by a hint that does not count: a live node has that place, or this node has
  // had another seat, under a coordinator before this one.
  bool IsVoidHint(const v1::AgentStatus& status) const;
  void VoidHint(const std::string& id);  // this host has no place from now on
  // Places whose nodes have attached here at least once.
  const std::set<int>& places_seen() const { return places_seen_; }

  // Number of hosts that all loops together have looked at: a measure of the cost of events, for tests.
  uint64_t visits() const { return hosts_.visits(); }

 private:
  void PassPlaceOn(int place);
  void GiveUpPlace(int place, const std::string& id);

  CountedMap<Host> hosts_;                            // by host id
  std::map<StreamId, std::string> streams_;           // stream -> host id
  std::map<int, std::string> holders_;                // place -> host id
  std::set<std::pair<int, std::string>> contenders_;  // (place, host id) of each holder and each standby
  std::set<int> places_seen_;
};

// For each place and each hostname, the attached host that was started last: one look at all hosts serves many
// losses, and hosts may be erased meanwhile.
class StartedLast {
 public:
  StartedLast() = default;                   // no host was started again
  explicit StartedLast(const Hosts& hosts);  // must outlive this

  // The attached host with the same place, or else the same hostname, that started after this host's last status;
  // nullptr: none.
  const Host* After(const Host& host) const;

 private:
  const Hosts* hosts_ = nullptr;
  std::map<int, std::string> by_place_;
  std::map<std::string, std::string> by_name_;
  std::map<std::string, std::string> by_name_without_place_;
};

}  // namespace muster::rendezvous
