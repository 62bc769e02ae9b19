// The newest orders that people gave (orders.h), by their ids, with the first answer to each: one that comes again
// is not obeyed again. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxOrdersKept = 256;

class OrderBook {
 public:
  const v1::Ordered* Find(const std::string& id) const;  // nullptr: it has not come
  void Keep(const std::string& id, v1::Ordered answer);

 private:
  std::deque<std::pair<std::string, v1::Ordered>> kept_;
};

}  // namespace muster::rendezvous
