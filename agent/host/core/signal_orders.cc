#include "agent/host/core/signal_orders.h"

#include "base/wire/ids.h"
#include "base/wire/signals.h"

namespace muster::host {

void SignalOrders::OnDirective(const v1::HostDirective& directive, const v1::RoundId& started, bool runs,
                               Effects* out) {
  const v1::SignalOrder& order = directive.signal();
  if (!directive.has_signal() || order.number() == obeyed_) return;
  obeyed_ = order.number();
  answer_.Clear();
  if (!runs || !Same(order.round(), started)) return OnSignalled(0);  // those workers have ended
  out->push_back(SignalRanks{.signal = order.signal(),
                             .local_ranks = {order.local_ranks().begin(), order.local_ranks().end()},
                             .only_handlers = !GoesToGroup(order.signal()),
                             .why = order.why()});
}

void SignalOrders::OnSignalled(int processes) {
  answer_.set_number(obeyed_);
  answer_.set_processes(processes);
}

void SignalOrders::Describe(v1::HostStatus* status) const {
  if (answer_.number() != 0) *status->mutable_signalled() = answer_;
}

}  // namespace muster::host
