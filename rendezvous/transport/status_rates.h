// How many statuses each host may send, whichever connections and streams it sends them on. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>

#include "base/core/allowance.h"
#include "base/core/time.h"

namespace muster::rendezvous {

class StatusRates {
 public:
  // of_each: not used by any host yet.
  explicit StatusRates(Allowance of_each) : of_each_(of_each) {}

  // Whether this host may send another one now. Time does not go back.
  bool Take(BootTime now, const std::string& host_id) {
    if (hosts_.size() >= forget_at_) ForgetIdle(now);
    return hosts_.try_emplace(host_id, of_each_).first->second.Take(now);
  }

  size_t remembered() const { return hosts_.size(); }

 private:
  // Who may send a whole burst again is as good as new. What is left is doubled before this is done again, so that
  // each status costs little.
  void ForgetIdle(BootTime now) {
    for (auto host = hosts_.begin(); host != hosts_.end();) {
      host = host->second.IsFull(now) ? hosts_.erase(host) : std::next(host);
    }
    forget_at_ = std::max(kForgetAt, 2 * hosts_.size());
  }

  static constexpr size_t kForgetAt = 1'024;  // hosts

  const Allowance of_each_;
  size_t forget_at_ = kForgetAt;
  std::map<std::string, Allowance> hosts_;
};

}  // namespace muster::rendezvous
