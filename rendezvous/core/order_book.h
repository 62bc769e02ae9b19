// The newest orders that people gave (orders.h), by their ids: one that comes again is not obeyed again. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxOrdersKept = 256;
inline constexpr absl::Duration kOrderKept =
    absl::Minutes(1);  // at least; until then no more than these are taken

class OrderBook {
 public:
  struct Entry {
    std::string id;
    BootTime at;
    v1::Ordered answer;   // by what is known so far
    std::string host_id;  // of KIND_DRAIN: who is to leave
    std::string node;     // the same, for people
  };

  const Entry* Find(const std::string& id) const;  // nullptr: it has not come, or long ago
  std::deque<Entry>& all() { return kept_; }
  // Whether there is room for another one, without forgetting one that might come again.
  bool HasRoom(BootTime now) const;
  void Keep(Entry entry);

 private:
  std::deque<Entry> kept_;
};

}  // namespace muster::rendezvous
