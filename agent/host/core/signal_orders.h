// Signals that somebody wants workers of this node to have (`muster signal`): each order is obeyed once, by
// whichever agent it comes. Pure.
#pragma once

#include <cstdint>
#include <set>

#include "agent/host/core/effects.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

class SignalOrders {
 public:
  // started: the newest round that was started here; runs: some of its workers live.
  void OnDirective(const v1::HostDirective& directive, const v1::RoundId& started, bool runs, Effects* out);
  void OnSignalled(int processes);  // answer to SignalRanks
  void Describe(v1::HostStatus* status) const;

 private:
  uint64_t obeyed_ = 0;  // the newest order; 0: none
  v1::SignalAnswer answer_;
};

}  // namespace muster::host
