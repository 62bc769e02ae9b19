#include "rendezvous/gate/gate_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/core/driver.h"

namespace muster::rendezvous {
namespace {

class GateCoreTest : public ::testing::Test {
 protected:
  // A connection that says nothing.
  ConnectionId Accept(const std::string& source) {
    const ConnectionId id = ++last_;
    Feed(&GateCore::OnAccepted, id, source);
    return id;
  }
  // One that has begun its handshake.
  ConnectionId Arrive(const std::string& source) {
    const ConnectionId id = Accept(source);
    if (!closed_.contains(id)) Feed(&GateCore::OnSpoke, id, false);
    return id;
  }
  ConnectionId ArriveNamed(const std::string& source) {
    const ConnectionId id = Accept(source);
    Feed(&GateCore::OnSpoke, id, true);
    return id;
  }
  std::vector<ConnectionId> ArriveMany(const std::string& source, size_t count) {
    std::vector<ConnectionId> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back(Arrive(source));
    return ids;
  }
  void Admit(ConnectionId id) {
    Feed(&GateCore::OnReady, id, false);
    Feed(&GateCore::OnAdmitted, id);
  }
  // In ticks, as the shell does: a longer gap would count as a pause.
  void Pass(absl::Duration time) {
    for (const BootTime until = now_ + time; now_ < until;) {
      now_ = std::min(until, now_ + absl::Milliseconds(100));
      Feed(&GateCore::OnTick);
    }
  }

  template <typename Event, typename... Payload>
  void Feed(Event event, const Payload&... payload) {
    driver_.Feed(event, payload...);
  }

  // As the shell does.
  void CarryOut(const GateEffect& effect) {
    if (const auto* let = std::get_if<LetIn>(&effect)) {
      EXPECT_FALSE(closed_.contains(let->id)) << "a closed connection is not let in";
      inside_.push_back(let->id);
    }
    if (const auto* told = std::get_if<TellRefused>(&effect)) told_.push_back(told->source + ": " + told->why);
    if (const auto* close = std::get_if<CloseConnection>(&effect)) {
      EXPECT_TRUE(closed_.insert(close->id).second) << "closed once";
      Feed(&GateCore::OnClosed, close->id, std::string());
    }
  }

  BootTime now_ = absl::UnixEpoch();
  const GateLimits limits_ = {
      .visitors = 256, .visitors_of_source = 64, .guests = 256, .guests_of_source = 128, .waiting = 4'096};
  GateCore core_{limits_};
  ConnectionId last_ = 0;
  std::vector<ConnectionId> inside_;  // in the order in which they were let in
  std::set<ConnectionId> closed_;     // by the core
  std::vector<std::string> told_;
  std::vector<std::string> logged_;
  CoreDriver<GateCore, GateEffect> driver_{&core_,
                                           {.clock = [this] { return now_; },
                                            .carry_out = [this](const GateEffect& effect) { CarryOut(effect); },
                                            .log = [this](const Note& note) { logged_.push_back(note.text); }}};
};

TEST_F(GateCoreTest, WhoSpeaksIsLetIn) {
  const ConnectionId silent = Accept("a");
  const ConnectionId speaking = Arrive("b");
  EXPECT_EQ(inside_, std::vector{speaking});
  EXPECT_EQ(core_.waiting(), 1u);
  Feed(&GateCore::OnSpoke, silent, false);
  EXPECT_EQ(inside_, (std::vector{speaking, silent}));
}

TEST_F(GateCoreTest, AThousandAgentsOfOneAddressAllGetIn) {
  const std::vector<ConnectionId> agents = ArriveMany("a", 1'000);
  for (size_t i = 0; i < inside_.size(); ++i) {  // grows
    EXPECT_LE(core_.visitors(), limits_.visitors_of_source);
    Admit(inside_[i]);
  }
  EXPECT_EQ(inside_.size(), agents.size());
  EXPECT_EQ(std::set(inside_.begin(), inside_.end()), std::set(agents.begin(), agents.end()));
  EXPECT_EQ(core_.visitors(), 0u) << "admitted agents do not count";
  EXPECT_TRUE(closed_.empty());
}

// An agent among many of the same address that are slow on purpose.
TEST_F(GateCoreTest, AnAgentWaitsForOneSlowHandshakeAtMost) {
  ArriveMany("a", 2'000);
  Pass(kPressedLimit / 2);
  const ConnectionId agent = Arrive("a");
  EXPECT_NE(inside_.back(), agent);
  Pass(kPressedLimit / 2);
  EXPECT_NE(std::find(inside_.begin(), inside_.end(), agent), inside_.end());
}

// As many as wait, and no more: honest agents are slow together.
TEST_F(GateCoreTest, OnlyAsManyLoseTheirPlaceAsWaitForOne) {
  ArriveMany("a", limits_.visitors_of_source + 3);
  Pass(kPressedLimit);
  EXPECT_EQ(closed_.size(), 3u);
  EXPECT_TRUE(told_.empty()) << "nothing was wrong with them";
}

// Its neighbours came before it and after it, and are as quick.
TEST_F(GateCoreTest, WhoNamesTheJobsKeyIsLetInBeforeAllOthers) {
  ArriveMany("a", limits_.visitors_of_source + 5);
  const ConnectionId agents[] = {ArriveNamed("a"), ArriveNamed("a")};
  ArriveMany("a", 5);
  for (int i = 0; i < 2; ++i) {
    Feed(&GateCore::OnClosed, inside_[i], std::string());
    EXPECT_TRUE(inside_.back() == agents[0] || inside_.back() == agents[1]);
  }
  EXPECT_NE(inside_.back(), *(inside_.end() - 2));
}

TEST_F(GateCoreTest, IfTheRoomIsFullWhoNamesTheJobsKeyStays) {
  ArriveMany("a", limits_.visitors_of_source);
  const ConnectionId agent = ArriveNamed("a");
  ArriveMany("a", limits_.waiting + 5);
  EXPECT_EQ(core_.waiting(), limits_.waiting);
  EXPECT_FALSE(closed_.contains(agent));
}

TEST_F(GateCoreTest, WhoOnlyNamesTheKeyIsBoundedToo) {
  for (size_t i = 0; i < limits_.visitors_of_source + limits_.waiting + 5; ++i) ArriveNamed("a");
  EXPECT_EQ(core_.waiting(), limits_.waiting);
  EXPECT_EQ(closed_.size(), 5u);
}

TEST_F(GateCoreTest, AFloodIsOneLineAnHour) {
  for (int i = 0; i < 2; ++i) {
    ArriveMany("b", 10 + limits_.visitors_of_source + limits_.waiting);
    Pass(kWaitLimit);
  }
  ASSERT_EQ(logged_.size(), 1u);
  EXPECT_NE(logged_[0].find("most are from b"), std::string::npos);
  Pass(kFloodLoggedAgain);
  ArriveMany("b", 10 + limits_.visitors_of_source + limits_.waiting);
  EXPECT_EQ(logged_.size(), 2u);
}

TEST_F(GateCoreTest, AFloodAdvisesATokenOnlyToAJobWithoutOne) {
  for (const bool named : {false, true}) {
    GateLimits limits = limits_;
    limits.nodes_are_named = named;
    GateCore core(limits);
    GateEffects effects;
    for (ConnectionId id = 1; id <= limits.visitors_of_source + limits.waiting + 10; ++id) {
      core.OnAccepted(now_, id, "b", &effects);
      core.OnSpoke(now_, id, false, &effects);
    }
    std::string said;
    for (const GateEffect& effect : effects) {
      if (const auto* note = std::get_if<Note>(&effect)) said += note->text;
    }
    EXPECT_NE(said.find("restrict who can reach it"), std::string::npos);
    EXPECT_EQ(said.find("--token-file") == std::string::npos, named) << said;
  }
}

TEST_F(GateCoreTest, OneAddressDoesNotKeepOthersOut) {
  ArriveMany("stranger", 2'000);
  const ConnectionId agent = Arrive("agent");
  EXPECT_EQ(inside_.back(), agent);
}

TEST_F(GateCoreTest, ManyStrangersKeepAnAgentWaitingForAFewTurnsOnly) {
  for (int i = 0; i < 1'000; ++i) ArriveMany(absl::StrCat("stranger ", i), 2);
  EXPECT_EQ(core_.visitors(), limits_.visitors);
  const ConnectionId agent = Arrive("agent");
  EXPECT_NE(inside_.back(), agent);
  // Each of their sources has had one turn before it.
  const size_t turns = 1'000 / limits_.visitors + 1;
  for (size_t i = 0; i < turns; ++i) Pass(kPressedLimit);
  EXPECT_NE(std::find(inside_.begin(), inside_.end(), agent), inside_.end());
}

TEST_F(GateCoreTest, WhoSaysNothingIsClosedInTime) {
  const ConnectionId silent = Accept("a");
  Pass(kSilenceLimit - absl::Milliseconds(1));
  EXPECT_TRUE(closed_.empty());
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(closed_, std::set{silent});
  EXPECT_TRUE(told_.empty()) << "not worth a line";
}

TEST_F(GateCoreTest, AHandshakeThatDoesNotEndIsClosedAndTold) {
  const ConnectionId slow = Arrive("a");
  Pass(kHandshakeLimit);
  EXPECT_EQ(closed_, std::set{slow});
  EXPECT_EQ(told_, std::vector<std::string>{"a: its handshake did not end within 5s"});
}

TEST_F(GateCoreTest, AConnectionWithoutAnAgentIsClosed) {
  const ConnectionId idle = Arrive("a");
  Feed(&GateCore::OnReady, idle, false);
  Pass(kAdmissionLimit - absl::Milliseconds(1));
  EXPECT_TRUE(closed_.empty());
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(closed_, std::set{idle});
}

// Who has the token may be slow for a while: the coordinator, not the agent, is what it waits for.
TEST_F(GateCoreTest, GuestsOfOneAddressKeepOnlyThatAddressWaiting) {
  const std::vector<ConnectionId> agents = ArriveMany("a", 1'000);
  for (size_t i = 0; i < inside_.size(); ++i) Feed(&GateCore::OnReady, inside_[i], true);  // grows
  EXPECT_GE(core_.guests(), limits_.guests_of_source);
  EXPECT_LT(core_.guests(), limits_.guests_of_source + limits_.visitors_of_source) << "those in their handshake";
  EXPECT_EQ(core_.waiting() + core_.guests(), agents.size());
  EXPECT_TRUE(closed_.empty()) << "they wait";
  const ConnectionId other = Arrive("b");
  EXPECT_EQ(inside_.back(), other);
  for (size_t i = 0; i < inside_.size(); ++i) {
    Feed(&GateCore::OnReady, inside_[i], true);
    Feed(&GateCore::OnAdmitted, inside_[i]);
  }
  EXPECT_EQ(inside_.size(), agents.size() + 1);
  Pass(10 * kAdmissionLimit);
  EXPECT_TRUE(closed_.empty());
}

TEST_F(GateCoreTest, SlowGuestsLoseTheirPlacesToThoseThatWait) {
  ArriveMany("a", limits_.guests_of_source);
  for (size_t i = 0; i < inside_.size(); ++i) Feed(&GateCore::OnReady, inside_[i], true);
  EXPECT_EQ(core_.guests(), limits_.guests_of_source);
  const ConnectionId agent = Arrive("a");
  Pass(kPressedGuestLimit - absl::Milliseconds(1));
  EXPECT_NE(inside_.back(), agent);
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(inside_.back(), agent);
  EXPECT_EQ(closed_.size(), 1u) << "as many as wait, and no more";
}

TEST_F(GateCoreTest, AllGuestsTogetherAreBounded) {
  for (int i = 0; i < 100; ++i) ArriveMany(absl::StrCat("source ", i), 20);
  for (size_t i = 0; i < inside_.size(); ++i) Feed(&GateCore::OnReady, inside_[i], true);  // grows
  EXPECT_LE(core_.guests(), limits_.guests + limits_.visitors);
  EXPECT_GE(core_.guests(), limits_.guests);
  EXPECT_GT(core_.waiting(), 0u);
}

// Strangers have all places of theirs, and many wait; agents have proved themselves and wait for the coordinator.
TEST_F(GateCoreTest, StrangersCostNoGuestItsPlace) {
  const std::vector<ConnectionId> agents = ArriveMany("agents", limits_.visitors_of_source);
  for (const ConnectionId id : agents) Feed(&GateCore::OnReady, id, true);
  for (int i = 0; i < 100; ++i) ArriveMany(absl::StrCat("stranger ", i), 20);
  Pass(kAdmissionLimit - absl::Milliseconds(1));
  for (const ConnectionId id : agents) EXPECT_FALSE(closed_.contains(id));
}

TEST_F(GateCoreTest, AProvedConnectionWithoutAnAgentIsClosed) {
  const ConnectionId idle = Arrive("a");
  Feed(&GateCore::OnReady, idle, true);
  Pass(kAdmissionLimit);
  EXPECT_EQ(closed_, std::set{idle});
}

TEST_F(GateCoreTest, AMemberStaysAndIsClosedSomeTimeAfterItsAgentHasLeft) {
  const ConnectionId member = Arrive("a");
  Admit(member);
  Pass(10 * kAdmissionLimit);
  EXPECT_TRUE(closed_.empty());
  Feed(&GateCore::OnLeft, member);
  Pass(kAdmissionLimit);
  EXPECT_EQ(closed_, std::set{member});
  EXPECT_TRUE(told_.empty()) << "that is no refusal";
}

TEST_F(GateCoreTest, IfTheRoomIsFullTheOldestOfTheFullestSourceLeaves) {
  const ConnectionId early = Accept("agent");
  for (size_t i = 0; i < limits_.waiting; ++i) Accept("stranger");
  EXPECT_EQ(closed_, std::set{early + 1});
  const ConnectionId late = Arrive("agent");
  EXPECT_EQ(closed_, (std::set{early + 1, early + 2}));
  EXPECT_EQ(inside_, std::vector{late});
}

// Else a stranger could have twice as many connections there.
TEST_F(GateCoreTest, IfTheRoomIsFullTheSilentCountWithThoseThatSpoke) {
  const ConnectionId oldest =
      ArriveMany("stranger", limits_.visitors_of_source + 1'300)[limits_.visitors_of_source];
  for (int i = 0; i < 1'300; ++i) Accept("stranger");
  ArriveMany("agents", limits_.visitors_of_source + 1'497);
  EXPECT_EQ(closed_, std::set{oldest});
}

// A stranger can choose its address, and so the name of its source, but not come before those that are here.
TEST_F(GateCoreTest, AmongSourcesWithAsManyTheOldestConnectionLeaves) {
  const ConnectionId oldest = Accept("m");
  for (size_t i = 1; i < limits_.waiting; ++i) Accept(absl::StrCat("other ", i));
  Accept("a");
  Accept("z");
  EXPECT_EQ(closed_, (std::set{oldest, oldest + 1}));
}

// Those that have said something, too: they may be as many as they like.
TEST_F(GateCoreTest, AnAgentGetsInBesideTenThousandOfOneAddress) {
  ArriveMany("stranger", 10'000);
  EXPECT_EQ(core_.waiting(), limits_.waiting);
  const ConnectionId agent = Arrive("agent");
  EXPECT_EQ(inside_.back(), agent);
}

// One event may close several, of which one would be let in by the end of another.
TEST_F(GateCoreTest, AfterALongTimeAllAreClosedAtOnce) {
  for (int i = 0; i < 400; ++i) ArriveMany(absl::StrCat("source ", i), 2);
  Feed(&GateCore::OnTick);
  for (int i = 0; i < 40; ++i) {
    now_ += kLongestTick;  // no pause
    Feed(&GateCore::OnTick);
  }
  EXPECT_EQ(core_.visitors() + core_.waiting(), 0u);
}

TEST_F(GateCoreTest, APauseOfThisProcessClosesNobody) {
  ArriveMany("a", limits_.visitors_of_source + 10);
  Accept("b");
  Feed(&GateCore::OnTick);
  now_ += absl::Minutes(10);
  Feed(&GateCore::OnTick);
  EXPECT_LE(closed_.size(), 10u) << "at most the places that others wait for";
  EXPECT_FALSE(closed_.contains(last_));
}

TEST_F(GateCoreTest, WhoLeavesWhileWaitingIsForgotten) {
  const std::vector<ConnectionId> agents = ArriveMany("a", limits_.visitors_of_source + 2);
  Feed(&GateCore::OnClosed, agents.back(), std::string());
  EXPECT_EQ(core_.waiting(), 1u);
  Feed(&GateCore::OnClosed, agents[0], std::string());
  EXPECT_EQ(inside_.back(), agents[limits_.visitors_of_source]);
  EXPECT_EQ(core_.waiting(), 0u);
}

// A stranger that connects, fails and connects again makes work of each handshake.
TEST_F(GateCoreTest, HandshakesThatLeadToNothingAreLetInAtABoundedRate) {
  const auto fail = [this](int count) {
    const size_t before = inside_.size();
    for (int i = 0; i < count; ++i) Feed(&GateCore::OnClosed, Arrive("a"), std::string());
    return inside_.size() - before;
  };
  EXPECT_EQ(fail(2 * kLetInBurst), size_t{kLetInBurst});
  now_ += absl::Seconds(1);
  EXPECT_EQ(fail(kLetInBurst), size_t{kLetInsPerSecond});
  const ConnectionId agent = Arrive("b");
  EXPECT_NE(inside_.back(), agent);
  Pass(absl::Milliseconds(100));
  EXPECT_EQ(inside_.back(), agent) << "it waits";
}

// Six times as many as may begin a handshake come each second, and stay for 0.4 s: the newest is always one of
// theirs.
TEST_F(GateCoreTest, AmongThoseThatComeAndGoAnAgentOfTheirAddressGetsIn) {
  std::deque<std::vector<ConnectionId>> there;
  const auto churn = [&] {
    there.push_back(ArriveMany("a", 120));
    if (there.size() > 4) {
      for (const ConnectionId id : there.front()) {
        if (!closed_.contains(id)) Feed(&GateCore::OnClosed, id, std::string());
      }
      there.pop_front();
    }
    Pass(absl::Milliseconds(100));
  };
  for (int i = 0; i < 100; ++i) churn();
  const ConnectionId agent = Arrive("a");
  for (int i = 0; i < 10; ++i) churn();
  EXPECT_TRUE(std::find(inside_.begin(), inside_.end(), agent) != inside_.end());
}

TEST_F(GateCoreTest, AdmittedAgentsAreNotHeldUpByThatRate) {
  for (int i = 0; i < 3 * kLetInBurst; ++i) Admit(Arrive("a"));
  EXPECT_EQ(inside_.size(), size_t{3 * kLetInBurst});
}

TEST_F(GateCoreTest, RefusalsAreToldAtABoundedRate) {
  const auto refuse = [this](int count) {
    for (int i = 0; i < count; ++i) Feed(&GateCore::OnClosed, Arrive("a"), std::string("it has no token"));
  };
  refuse(5 * kMaxRefusalsTold);
  EXPECT_EQ(told_.size(), size_t{kMaxRefusalsTold});
  now_ += absl::Seconds(1);
  refuse(1);
  EXPECT_EQ(told_.size(), size_t{kMaxRefusalsTold} + 1);
  EXPECT_EQ(told_.back(), "a: it has no token");
}

TEST_F(GateCoreTest, AShortageOfDescriptorsCostsTheOldestThatWaits) {
  Arrive("b");
  const ConnectionId waits = Accept("a");
  Feed(&GateCore::OnShortage);
  EXPECT_EQ(closed_, std::set{waits});
  Feed(&GateCore::OnShortage);
  EXPECT_EQ(closed_, std::set{waits});
}

TEST_F(GateCoreTest, IfNobodyWaitsAShortageCostsWhoIsSlowInside) {
  const ConnectionId visitor = Arrive("a");
  const ConnectionId guest = Arrive("b");
  Feed(&GateCore::OnReady, guest, true);
  Feed(&GateCore::OnShortage);
  EXPECT_TRUE(closed_.empty()) << "neither is slow yet";
  Pass(kPressedGuestLimit);
  Feed(&GateCore::OnShortage);
  EXPECT_EQ(closed_, std::set{visitor});
  Feed(&GateCore::OnShortage);
  EXPECT_EQ(closed_, (std::set{visitor, guest}));
}

TEST(GateLimitsTest, StrangersLeaveDescriptorsToAgents) {
  for (const size_t descriptors : {0, 1, 8, 128, 1'024, 1'048'576}) {
    const GateLimits limits = LimitsFor(descriptors);
    EXPECT_GE(std::min({limits.visitors, limits.visitors_of_source, limits.guests, limits.guests_of_source,
                        limits.waiting}),
              1u);
    EXPECT_LE(3 * (limits.visitors + limits.guests) + limits.waiting, std::max<size_t>(descriptors * 2 / 3, 7))
        << descriptors;
  }
  EXPECT_EQ(LimitsFor(1'048'576).visitors, GateLimits().visitors);
}

}  // namespace
}  // namespace muster::rendezvous
