// A job at one moment. What several rows of the table of states ask for is computed once for all of them, since
// each answer takes a look at all hosts.
#pragma once

#include <optional>
#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/drain.h"
#include "rendezvous/core/next_round.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/core/round_end.h"

namespace muster::rendezvous {

struct Job;

class Glance {
 public:
  Glance(BootTime at, const Job& of) : now(at), job(of) {}

  const BootTime now;
  const Job& job;

  const Members& members() const;                     // of the greatest round
  const std::vector<Candidate>& ready_nodes() const;  // ReadyCandidates
  const std::vector<Candidate>& candidates() const;   // of these, for the next round: WithoutSetAside
  int ready() const { return static_cast<int>(candidates().size()); }
  // All places, or MAX nodes, are ready, or cannot start their program.
  bool all_are_here() const;
  const Arriving& arriving() const;
  const std::optional<StopReason>& why_stop() const;
  bool is_drained() const;              // RoundIsDrained
  const RoundAccount& account() const;  // of the drained round, once it is closed

 private:
  mutable std::optional<Members> members_;
  mutable std::optional<std::vector<Candidate>> ready_nodes_;
  mutable std::optional<std::vector<Candidate>> candidates_;
  mutable std::optional<Arriving> arriving_;
  mutable std::optional<std::optional<StopReason>> why_stop_;
  mutable std::optional<bool> is_drained_;
  mutable std::optional<RoundAccount> account_;
};

}  // namespace muster::rendezvous
