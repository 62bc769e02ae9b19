#include "rendezvous/core/signalling.h"

#include <utility>

#include "rendezvous/core/options.h"

namespace muster::rendezvous {
namespace {

int CountOf(const Signalling::Targets& targets) {
  int ranks = 0;
  for (const auto& [host, local_ranks] : targets) ranks += static_cast<int>(local_ranks.size());
  return ranks;
}

}  // namespace

void Signalling::Begin(BootTime now, const std::string& order_id, const v1::SignalOrder& what, Targets targets,
                       bool all) {
  all_ = all;
  what_ = what;
  what_.set_number(++numbers_);
  order_id_ = order_id;
  ranks_ = CountOf(targets);
  processes_ = 0;
  silent_ = std::move(targets);
  until_ = now + kOrderAnswers;
}

void Signalling::Learn(const std::string& host_id, const v1::SignalAnswer& answer) {
  if (answer.number() == numbers_ && silent_.erase(host_id) > 0) processes_ += answer.processes();
}

// A node that has not heard of it by then is not told any more. One that has, and is frozen, may obey later.
std::optional<v1::SignalOrder> Signalling::For(BootTime now, const std::string& host_id) const {
  const auto found = silent_.find(host_id);
  if (!IsOpen(now) || found == silent_.end()) return std::nullopt;
  v1::SignalOrder order = what_;
  if (all_) return order;  // a node may have more workers than a message holds numbers
  for (const int rank : found->second) order.add_local_ranks(rank);
  return order;
}

int Signalling::ranks_heard() const { return ranks_ - CountOf(silent_); }

}  // namespace muster::rendezvous
