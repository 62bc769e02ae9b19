// Seats and ranks.
#include "rendezvous/core/roster.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

namespace muster::rendezvous {
namespace {

Candidate Node(const std::string& id, int place = -1, int seat = -1) {
  Candidate c;
  c.host_id = c.hostname = id;
  c.place = place;
  c.seat = seat;
  c.joined_at = FromBootNanos(1'000'000);
  c.offer.set_host(id);
  c.offer.set_port(1000);
  c.role_name = "default";
  return c;
}

std::vector<std::string> Order(std::vector<Candidate> candidates, int max_nodes = 100) {
  std::vector<std::string> names;
  for (const Candidate& c : AssignSeats(std::move(candidates), max_nodes)) names.push_back(c.host_id);
  return names;
}

using Names = std::vector<std::string>;

TEST(Roster, PlacesInTheSpecGiveTheOrder) {
  EXPECT_EQ(Order({Node("c", 2), Node("a", 0), Node("b", 1)}), (Names{"a", "b", "c"}));
}

TEST(Roster, NamesCompareNaturally) {
  EXPECT_EQ(Order({Node("node10"), Node("node9"), Node("node1")}), (Names{"node1", "node9", "node10"}));
  EXPECT_TRUE(NaturalLess("a9", "a10"));
  EXPECT_TRUE(NaturalLess("a", "ab"));
  EXPECT_TRUE(NaturalLess("n1", "n1\u00e9"));
  EXPECT_FALSE(NaturalLess("n1\u00e9", "n1"));
  EXPECT_FALSE(NaturalLess("a10b", "a10b"));
  EXPECT_TRUE(NaturalLess("w1-9", "w1-10"));
}

TEST(Roster, ReplacementTakesTheLostNodesRank) {
  EXPECT_EQ(Order({Node("a", -1, 0), Node("new"), Node("c", -1, 2)}), (Names{"a", "new", "c"}));
}

TEST(Roster, SurvivorsKeepTheirOrderInASmallerGroup) {
  std::vector<Candidate> smaller = AssignSeats({Node("a", -1, 0), Node("c", -1, 2)}, 3);
  EXPECT_EQ(smaller[1].seat, 2) << "a seat is kept for life";
  EXPECT_EQ(AssignRanks(smaller)[1].node_rank(), 1);
  smaller.push_back(Node("new"));
  EXPECT_EQ(Order(smaller), (Names{"a", "new", "c"}));
}

// Found by simulation: a node that returned after a while displaced the spare that had replaced it.
TEST(Roster, CurrentMembersPrecedeAFormerSeatOwner) {
  Candidate member = Node("member", -1, 1);
  member.was_member = true;
  Candidate owner = Node("owner", -1, 0);
  EXPECT_EQ(Order({owner, member}, 1), Names{"member"});
  Candidate same_seat = Node("same seat", -1, 1);
  EXPECT_EQ(Order({same_seat, member}, 1), Names{"member"});
  EXPECT_EQ(Order({same_seat, member}), (Names{"same seat", "member"})) << "with room it has the next free seat";
}

TEST(Roster, ThePrimaryComesFirstAmongUnplacedNodes) {
  Candidate primary = Node("z");
  primary.at_primary = true;
  EXPECT_EQ(Order({Node("a"), primary}), (Names{"z", "a"}));
}

TEST(Roster, OlderMembersPrecedeNewcomers) {
  Candidate old_hand = Node("z");
  old_hand.joined_at = FromBootNanos(1);
  EXPECT_EQ(Order({Node("a"), old_hand}), (Names{"z", "a"}));
}

TEST(Roster, SeatOwnersPrecedeNewcomers) {
  EXPECT_EQ(Order({Node("a"), Node("z", -1, 1), Node("y", -1, 0)}, 2), (Names{"y", "z"}));
}

TEST(Roster, RanksOfUnevenNodesAreContiguousInNodeOrder) {
  Candidate a = Node("a", 0), b = Node("b", 1), c = Node("c", 2);
  a.slots = 1;
  b.slots = 3;
  c.slots = 2;
  c.role_name = "ps";
  const std::vector<v1::Round> rounds = AssignRanks(AssignSeats({c, b, a}, 3));
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_EQ(rounds[0].first_rank(), 0);
  EXPECT_EQ(rounds[1].first_rank(), 1);
  EXPECT_EQ(rounds[2].first_rank(), 4);
  EXPECT_EQ(rounds[2].world_size(), 6);
  EXPECT_EQ(rounds[2].role_first_rank(), 0);
  EXPECT_EQ(rounds[2].role_world_size(), 2);
  EXPECT_EQ(rounds[1].role_world_size(), 4);
  EXPECT_EQ(rounds[2].master().host(), "a");
}

TEST(Roster, SeatsAreAlwaysUniqueAndRanksDense) {
  EXPECT_TRUE(rc::check([] {
    const int count = *rc::gen::inRange(1, 20);
    const int max_nodes = *rc::gen::inRange(1, 20);
    std::vector<Candidate> candidates;
    std::set<int> places;
    for (int i = 0; i < count; ++i) {
      Candidate c = Node("n" + std::to_string(i));
      const int place = *rc::gen::inRange(-1, 20);
      if (place >= 0 && places.insert(place).second) c.place = place;
      c.seat = *rc::gen::inRange(-1, 20);
      c.slots = *rc::gen::inRange(1, 9);
      candidates.push_back(c);
    }
    const std::vector<Candidate> seated = AssignSeats(candidates, max_nodes);
    RC_ASSERT(static_cast<int>(seated.size()) == std::min(count, max_nodes));
    std::set<int> seats;
    for (const Candidate& c : seated) {
      RC_ASSERT(c.seat >= 0);
      RC_ASSERT(seats.insert(c.seat).second);
      if (c.place >= 0) RC_ASSERT(c.seat == c.place);
    }
    int next = 0;
    for (const v1::Round& round : AssignRanks(seated)) {
      RC_ASSERT(round.first_rank() == next);
      next += seated[static_cast<size_t>(round.node_rank())].slots;
    }
    for (const v1::Round& round : AssignRanks(seated)) RC_ASSERT(round.world_size() == next);
  }));
}

}  // namespace
}  // namespace muster::rendezvous
