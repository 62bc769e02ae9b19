#include "rendezvous/core/order_book.h"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {

const OrderBook::Entry* OrderBook::Find(const std::string& id) const {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&id](const Entry& entry) { return entry.id == id; });
  return found == kept_.end() ? nullptr : &*found;
}

bool OrderBook::HasRoom(BootTime now) const {
  return kept_.size() < kMaxOrdersKept || kept_.front().at + kOrderKept <= now;
}

void OrderBook::Keep(Entry entry) {
  kept_.push_back(std::move(entry));
  if (kept_.size() > kMaxOrdersKept) kept_.pop_front();
}

}  // namespace muster::rendezvous
