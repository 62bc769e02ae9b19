// A signal that somebody wants some workers to have (`muster signal`): it goes to the nodes that run them, and
// each obeys it once. One at a time. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

class Signalling {
 public:
  // By host id: local ranks of that host.
  using Targets = std::map<std::string, std::vector<int>>;

  // random: for the first number, since a predecessor has sent some, too.
  explicit Signalling(uint64_t random) : numbers_(random >> 32) {}

  // order_id: whose it is; what: signal, round and reason; all: the targets are all workers of their hosts. Call
  // it only while none is open.
  void Begin(BootTime now, const std::string& order_id, const v1::SignalOrder& what, Targets targets, bool all);
  void Learn(const std::string& host_id, const v1::SignalAnswer& answer);

  bool IsOpen(BootTime now) const { return now < until_ && !silent_.empty(); }
  // What this host is to do; nullopt: nothing, or it has.
  std::optional<v1::SignalOrder> For(BootTime now, const std::string& host_id) const;

  const std::string& order_id() const { return order_id_; }  // of the newest one; empty: there was none
  int signal() const { return what_.signal(); }
  int ranks_heard() const;                           // workers of the nodes that have answered
  int processes() const { return processes_; }       // that have got it so far
  const Targets& silent() const { return silent_; }  // who has not answered

 private:
  uint64_t numbers_;  // given so far; the newest one's is this
  std::string order_id_;
  v1::SignalOrder what_;  // without the local ranks
  bool all_ = false;
  int ranks_ = 0;  // for which it was meant
  int processes_ = 0;
  Targets silent_;
  BootTime until_ = absl::InfinitePast();
};

}  // namespace muster::rendezvous
