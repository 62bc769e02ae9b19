#include "agent/host/core/signal_orders.h"

#include <algorithm>
#include <csignal>
#include <iterator>

#include "base/wire/ids.h"

namespace muster::host {
namespace {

// Nobody expects that another signal ends a process, as it does with one that does not handle it.
bool IsMeantToEnd(int signal) {
  constexpr int kSuch[] = {SIGKILL, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGABRT};
  return std::find(std::begin(kSuch), std::end(kSuch), signal) != std::end(kSuch);
}

}  // namespace

void SignalOrders::OnDirective(const v1::HostDirective& directive, const v1::RoundId& started, Effects* out) {
  const v1::SignalOrder& order = directive.signal();
  if (!directive.has_signal() || order.number() == obeyed_) return;
  obeyed_ = order.number();
  answer_.Clear();
  if (!Same(order.round(), started)) return;  // those workers are gone: no answer tells that
  const bool halts = order.signal() == SIGSTOP || order.signal() == SIGCONT;
  out->push_back(SignalRanks{.signal = order.signal(),
                             .local_ranks = {order.local_ranks().begin(), order.local_ranks().end()},
                             .only_handlers = !halts && !IsMeantToEnd(order.signal())});
}

void SignalOrders::OnSignalled(int processes) {
  answer_.set_number(obeyed_);
  answer_.set_processes(processes);
}

void SignalOrders::Describe(v1::HostStatus* status) const {
  if (answer_.number() != 0) *status->mutable_signalled() = answer_;
}

}  // namespace muster::host
