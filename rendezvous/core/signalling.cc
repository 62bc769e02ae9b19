#include "rendezvous/core/signalling.h"

#include <utility>

namespace muster::rendezvous {

void Signalling::Begin(BootTime now, const std::string& order_id, const v1::RoundId& round, int signal,
                       Targets targets) {
  ++numbers_;
  order_id_ = order_id;
  round_ = round;
  signal_ = signal;
  ranks_ = processes_ = 0;
  for (const auto& [host, ranks] : targets) ranks_ += static_cast<int>(ranks.size());
  silent_ = std::move(targets);
  until_ = now + kSignalAnswers;
}

void Signalling::Learn(const std::string& host_id, const v1::SignalAnswer& answer) {
  if (answer.number() == numbers_ && silent_.erase(host_id) > 0) processes_ += answer.processes();
}

// A host that hears of it late does nothing any more.
std::optional<v1::SignalOrder> Signalling::For(BootTime now, const std::string& host_id) const {
  const auto found = silent_.find(host_id);
  if (!IsOpen(now) || found == silent_.end()) return std::nullopt;
  v1::SignalOrder order;
  order.set_number(numbers_);
  *order.mutable_round() = round_;
  order.set_signal(signal_);
  for (const int rank : found->second) order.add_local_ranks(rank);
  return order;
}

}  // namespace muster::rendezvous
