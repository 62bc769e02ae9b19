// Log lines about the whole job that are worth saying once, or once for each round: not for users alone, but for
// whoever looks for the reason of a slow or strange job. Nothing is decided here.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/differences.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/roster.h"
#include "rendezvous/core/stragglers.h"

namespace muster::rendezvous {

struct Job;

class Announcements {
 public:
  void OnTick(BootTime now, const Job& job, Effects* out);
  void OnLeaseCheck(const Job& job, Effects* out);
  void OnDrainBegins() { long_drain_logged_ = false; }
  // The members of a round that is about to begin, in the order of their ranks.
  void OnMembers(const Job& job, const std::vector<Candidate>& members, Effects* out);
  void OnExcluded(const Job& job, Effects* out) const;

 private:
  void NameRivals(const Job& job, Effects* out);
  void NameAwaitedNodes(BootTime now, const Job& job, Effects* out);
  void NameWhatHoldsUpDrain(BootTime now, const Job& job, Effects* out);
  void NameSlowRanks(BootTime now, const Job& job, Effects* out);
  static void SayWhoIsSlow(const Stragglers::Finding& found, const char* what, const Job& job, Effects* out);
  void NameDifferences(const Job& job, const std::vector<Candidate>& members, Effects* out);

  bool lease_is_checked_ = false;
  bool awaited_nodes_logged_ = false;                  // after the verdict
  bool long_drain_logged_ = false;                     // for this drain
  std::set<std::pair<int, std::string>> rivals_told_;  // (place, host id) of those that claim a live host's place
  Differences differences_;
  Differences sizes_;            // of the nodes, in workers
  uint64_t compared_round_ = 0;  // the round whose ranks these two compare; 0: none
  Stragglers by_lines_;
  Stragglers by_touches_;
};

}  // namespace muster::rendezvous
