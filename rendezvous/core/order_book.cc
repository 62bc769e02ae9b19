#include "rendezvous/core/order_book.h"

#include <algorithm>

namespace muster::rendezvous {

const v1::Ordered* OrderBook::Find(const std::string& id) const {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&id](const auto& kept) { return kept.first == id; });
  return found == kept_.end() ? nullptr : &found->second;
}

void OrderBook::Keep(const std::string& id, v1::Ordered answer) {
  kept_.emplace_back(id, std::move(answer));
  if (kept_.size() > kMaxOrdersKept) kept_.pop_front();
}

}  // namespace muster::rendezvous
