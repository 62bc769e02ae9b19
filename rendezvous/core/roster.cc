#include "rendezvous/core/roster.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"

namespace muster::rendezvous {
namespace {

std::string_view TakeDigits(std::string_view* text) {
  size_t n = 0;
  while (n < text->size() && absl::ascii_isdigit(static_cast<unsigned char>((*text)[n]))) ++n;
  const std::string_view digits = text->substr(0, n);
  text->remove_prefix(n);
  return digits;
}

std::string_view WithoutLeadingZeros(std::string_view digits) {
  const size_t n = digits.find_first_not_of('0');
  return n == std::string_view::npos ? std::string_view() : digits.substr(n);
}

// Order in which seats are assigned.
bool Before(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::make_tuple(c.place < 0, c.place, !c.was_member, c.seat < 0, c.seat, !c.at_primary, c.joined_at);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  if (a.hostname != b.hostname) return NaturalLess(a.hostname, b.hostname);
  return a.host_id < b.host_id;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view da = WithoutLeadingZeros(TakeDigits(&a));
    const std::string_view db = WithoutLeadingZeros(TakeDigits(&b));
    if (da.size() != db.size()) return da.size() < db.size();
    if (da != db) return da < db;
    if (a.empty() || b.empty()) break;
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

std::vector<Candidate> AssignSeats(std::vector<Candidate> candidates, int max_nodes) {
  std::sort(candidates.begin(), candidates.end(), Before);
  if (static_cast<int>(candidates.size()) > max_nodes) candidates.resize(static_cast<size_t>(max_nodes));
  std::set<int> taken;
  for (Candidate& c : candidates) {
    if (c.place >= 0) c.seat = c.place;
    if (c.seat >= 0 && !taken.insert(c.seat).second) c.seat = -1;
  }
  int next = 0;
  for (Candidate& c : candidates) {
    if (c.seat >= 0) continue;
    while (taken.count(next) > 0) ++next;
    c.seat = next;
    taken.insert(next);
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.seat < b.seat; });
  return candidates;
}

std::vector<v1::Round> AssignRanks(const std::vector<Candidate>& members) {
  int world_size = 0;
  std::map<std::string, int> role_size;
  for (const Candidate& c : members) {
    world_size += c.slots;
    role_size[c.role_name] += c.slots;
  }
  std::vector<v1::Round> rounds;
  int first_rank = 0;
  std::map<std::string, int> role_next;
  for (const Candidate& c : members) {
    v1::Round round;
    round.set_node_rank(static_cast<int>(rounds.size()));
    round.set_node_count(static_cast<int>(members.size()));
    round.set_first_rank(first_rank);
    round.set_world_size(world_size);
    round.set_seat(c.seat);
    round.set_role_first_rank(role_next[c.role_name]);
    round.set_role_world_size(role_size[c.role_name]);
    *round.mutable_master() = members.front().offer;
    first_rank += c.slots;
    role_next[c.role_name] += c.slots;
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace muster::rendezvous
