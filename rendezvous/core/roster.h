// Assigns seats and ranks. The seat of a host is its place if it has one. Otherwise it is the host's seat in its
// last round, unless another member took that in the meantime; a new host gets the lowest free number, which is
// that of a lost node if there is one. The node ranks of a round follow the order of the seats. A survivor
// therefore keeps its rank, a replacement takes the rank of the lost node, and a group that shrank and grew again
// has its old order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

struct Candidate {
  std::string host_id;
  std::string hostname;
  int place = -1;           // in the spec, or --node-rank; -1: none
  int seat = -1;            // held before; -1: none
  bool was_member = false;  // of the newest round; members come before hosts that return to an older seat
  bool at_primary = false;
  BootTime joined_at = absl::InfinitePast();
  int slots = 1;
  std::string role_name;
  v1::Endpoint offer;
};

// "node2" before "node10": digits compare as numbers.
bool NaturalLess(std::string_view a, std::string_view b);

// Selects at most max_nodes candidates, gives each a seat, and returns them in the order of the seats. Preferred
// are, in this order: candidates with a place, members of the newest round, holders of an earlier seat, the
// primary's host, the longest time in the job, and the natural order of the hostnames.
std::vector<Candidate> AssignSeats(std::vector<Candidate> candidates, int max_nodes);

// Returns one Round for each member, in the given order. Sets everything but the id, the counts and the budgets.
std::vector<v1::Round> AssignRanks(const std::vector<Candidate>& members);

}  // namespace muster::rendezvous
