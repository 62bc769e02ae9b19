// Seats and ranks. A host keeps its seat for life; node ranks are the order of the seats in a round. So a survivor
// keeps its rank, a replacement takes the rank of the lost node, and a group that shrank and grew is as it was.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

struct Candidate {
  std::string host_id;
  std::string hostname;
  int place = -1;           // in the spec, or --node-rank; -1: none
  int seat = -1;            // held before; -1: none
  bool was_member = false;  // of the newest round: one that comes back to its old seat stands behind those
  bool at_primary = false;
  BootTime joined_at = absl::InfinitePast();
  int slots = 1;
  std::string role_name;
  v1::Endpoint offer;
};

// "node2" before "node10": digits compare as numbers.
bool NaturalLess(std::string_view a, std::string_view b);

// At most max_nodes of the candidates with their seats, in the order of the seats: those with a place first, then
// the members of the newest round, those that held a seat earlier, then by time in the job (the primary's before
// others, then natural order of the names).
std::vector<Candidate> AssignSeats(std::vector<Candidate> candidates, int max_nodes);

// One Round for each member, in the order given; everything but id, counts and budgets is set.
std::vector<v1::Round> AssignRanks(const std::vector<Candidate>& members);

}  // namespace muster::rendezvous
