// Builds the directive for each host: one order, the settings, and the lease.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/host.h"

namespace muster::rendezvous {

struct Job;

absl::Duration Beat(const Job& job);  // between two statuses of an agent

// The order that this host gets now.
v1::Directive::OrderCase OrderFor(BootTime now, const Job& job, const Host& host);

// Position among the spares while a round runs, from 1, in the order in which they would join. It is asked for
// each status of each spare: with very many hosts the list is up to a tick old, and a spare that came since is put
// last.
class SpareLine {
 public:
  int PlaceOf(BootTime now, const Job& job, const Host& host);

 private:
  std::map<std::string, int> places_;  // by host id, as of since_
  BootTime since_ = absl::InfinitePast();
};

class Directives {
 public:
  // With a new seq and no order.
  v1::Directive Next(const Job& job, const v1::StatusId& echo);
  // The whole directive. What is sent to the host is noted in its Exchange, and the end of the lease that it gets.
  v1::Directive For(BootTime now, const Job& job, Host* host);
  uint64_t last_seq() const { return seq_; }
  // Decisions were made since: the list of absent nodes is made anew.
  void ForgetAbsent() { absent_since_ = absl::InfinitePast(); }

 private:
  void FillOrder(BootTime now, const Job& job, Host* host, v1::Directive* directive);
  void FillWait(BootTime now, const Job& job, const Host& host, v1::Wait* wait);

  uint64_t seq_ = 0;
  std::vector<std::string> absent_;  // AbsentPlaces() as of absent_since_; one list serves all nodes for a tick
  BootTime absent_since_ = absl::InfinitePast();
  SpareLine spares_;
};

}  // namespace muster::rendezvous
