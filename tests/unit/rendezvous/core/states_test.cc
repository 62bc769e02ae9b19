// The coordinator's table of states, and its rendering in the folder's README.
#include "rendezvous/core/states.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

constexpr char kBegin[] = "<!-- states: rendered by states_test; MUSTER_RENDER=1 writes it -->\n";
constexpr char kEnd[] = "<!-- end of states -->\n";

std::string Rendered() {
  std::ostringstream out;
  out << "| from | to | event | condition | order to all nodes |\n|---|---|---|---|---|\n";
  for (const Transition& t : Transitions()) {
    out << "| " << Name(t.from) << " | " << Name(t.to) << " | " << t.event << " | " << t.guard << " | " << t.effect
        << " |\n";
  }
  return out.str();
}

TEST(States, TheReadmeShowsTheCurrentTable) {
  const std::string path = std::string(MUSTER_SOURCE_DIR) + "/rendezvous/core/README.md";
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  const std::string readme = content.str();
  const size_t begin = readme.find(kBegin);
  const size_t end = readme.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t start = begin + sizeof(kBegin) - 1;
  if (std::getenv("MUSTER_RENDER") != nullptr) {
    std::ofstream(path) << readme.substr(0, start) << Rendered() << readme.substr(end);
    return;
  }
  EXPECT_EQ(readme.substr(start, end - start), Rendered()) << "run this test once with MUSTER_RENDER=1";
}

TEST(States, EveryStateIsReachableAndLeavable) {
  std::set<State> from, to;
  for (const Transition& t : Transitions()) {
    from.insert(t.from);
    to.insert(t.to);
  }
  EXPECT_EQ(from.size(), 5u);
  EXPECT_EQ(from.count(State::kReleasing), 0u);
  EXPECT_EQ(to.size(), 6u);
}

TEST(States, NothingRunsAfterTheVerdict) {
  for (State state : {State::kRunning, State::kGathering, State::kRecovering, State::kDraining}) {
    for (const Transition& t : Transitions()) {
      const bool is_over = t.from == State::kVerdict || t.from == State::kReleasing;
      EXPECT_FALSE(is_over && t.to == state) << Name(t.from) << " -> " << Name(t.to);
    }
  }
}

// ---- conditions ---------------------------------------------------------------------------------------------

const BootTime kBegan = absl::UnixEpoch();  // start of the coordinator
constexpr absl::Duration kNano = absl::Nanoseconds(1);

// What is known, and the present time, at a transition.
struct Moment {
  explicit Moment(State state) : job(Options(), kBegan, 7) {
    job.state = state;
    job.state_since = job.greatest.drain.began = job.gathering.since = now;
  }

  static CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.run_id = "r";
    options.max_nodes = 3;
    options.join_settle = absl::Seconds(5);
    return options;
  }

  Host& Attach(const std::string& id, int place, v1::Phase phase) {
    v1::AgentStatus status;
    status.set_host_id(id);
    status.set_hostname(id);
    status.set_place(place);
    status.set_phase(phase);
    status.mutable_offer()->set_host("10.0.0.1");
    *status.mutable_applied()->mutable_epoch() = job.epoch();
    status.mutable_applied()->set_seq(1);
    job.hosts.Attach(kBegan, static_cast<StreamId>(place) + 1, status);
    Host& host = At(id);
    host.status = status;
    host.exchange.counts_from = 1;
    job.hosts.Claim(host);
    return host;
  }
  // In a round of a and b that another coordinator has made.
  void KnowSuccess() {
    job.greatest.successes.ranks = {0, 1};
    job.greatest.members = {{0, "a"}, {1, "b"}};
  }
  Host& AttachMember(const std::string& id, int rank, v1::Phase phase) {
    Host& host = Attach(id, rank, phase);
    host.part.in_round = true;
    host.part.round = job.greatest.round;
    host.part.round.set_node_rank(rank);
    *host.status.mutable_last() = host.part.round;
    return host;
  }
  Host& At(const std::string& id) { return job.hosts.Get(id); }

  void KnowRound(int nodes) {
    job.greatest.round.mutable_id()->set_number(1);
    *job.greatest.round.mutable_id()->mutable_epoch() = job.epoch();
    job.greatest.round.set_node_count(nodes);
  }
  // A step, or a status, leads to this state.
  bool LeadsTo(State to) const {
    const Transition* const next = NextTransition(Glance(now, job));
    return (next != nullptr && next->to == to) || MayBeLearned(to, now, job);
  }

  Job job;
  BootTime now = kBegan + absl::Hours(1);  // earlier leases have ended
};

using Change = std::function<void(Moment*)>;

// A condition of the table: it holds in the moment that `given` makes, and no longer once one of the changes was
// made to it.
struct Condition {
  State from;
  State to;
  std::string claim;
  Change given;
  std::vector<std::pair<std::string, Change>> fails;
};

void KnowRoundOfTwo(Moment* m, v1::Phase first, v1::Phase second) {
  m->KnowRound(2);
  m->AttachMember("a", 0, first);
  m->AttachMember("b", 1, second);
}

std::vector<Condition> ConditionsOfRecovering() {
  using S = State;
  return {
      {S::kRecovering,
       S::kGathering,
       "all nodes are here",
       [](Moment* m) {
         m->now = kBegan + absl::Seconds(1);
         m->Attach("a", 0, v1::PHASE_READY);
         m->Attach("b", 1, v1::PHASE_READY);
         m->Attach("c", 2, v1::PHASE_READY);
       },
       {{"one is away", [](Moment* m) { m->job.hosts.Erase("c"); }},
        {"one is not ready", [](Moment* m) { m->At("c").status.set_phase(v1::PHASE_STARTING); }},
        {"a node reports a round", [](Moment* m) { m->KnowRound(1); }}}},
      {S::kRecovering,
       S::kGathering,
       "lease and margin have passed",
       [](Moment* m) {
         m->Attach("a", 0, v1::PHASE_READY);
         m->now = m->job.succession.members_known_until();
       },
       {{"no node is here", [](Moment* m) { m->job.hosts.Erase("a"); }},
        {"they have not", [](Moment* m) { m->now -= kNano; }},
        {"a node reports a round", [](Moment* m) { m->KnowRound(1); }}}},
      {S::kRecovering,
       S::kRunning,
       "all members run the round",
       [](Moment* m) { KnowRoundOfTwo(m, v1::PHASE_RUNNING, v1::PHASE_RUNNING); },
       {{"one does not", [](Moment* m) { m->At("b").status.set_phase(v1::PHASE_READY); }},
        {"one is away", [](Moment* m) { m->job.hosts.Erase("b"); }},
        {"no round is known", [](Moment* m) { m->job.greatest.round.clear_id(); }}}},
      {S::kRecovering,
       S::kDraining,
       "a member cannot go on",
       [](Moment* m) {
         m->now = kBegan + absl::Seconds(1);
         KnowRoundOfTwo(m, v1::PHASE_RUNNING, v1::PHASE_READY);
       },
       {{"both can", [](Moment* m) { m->At("b").status.set_phase(v1::PHASE_RUNNING); }}}},
      {S::kRecovering,
       S::kDraining,
       "an absent member is overdue",
       [](Moment* m) {
         m->KnowRound(2);
         m->AttachMember("a", 0, v1::PHASE_RUNNING);
         m->now = m->job.succession.last_attach() + m->job.options.lease + m->job.options.margin();
       },
       {{"it has time left", [](Moment* m) { m->now -= kNano; }},
        {"the other has succeeded",
         [](Moment* m) {
           m->At("a").status.set_phase(v1::PHASE_SUCCEEDED);
           m->At("a").status.set_outcome(v1::OUTCOME_SUCCEEDED);
         }}}},
      {S::kRecovering,
       S::kVerdict,
       "nobody joined in time",
       [](Moment* m) { m->now = kBegan + m->job.options.join_timeout; },
       {{"there is time left", [](Moment* m) { m->now -= kNano; }},
        {"a node is here", [](Moment* m) { m->Attach("a", 0, v1::PHASE_READY); }}}},
      {S::kRecovering,
       S::kVerdict,
       "success is known of every node",
       [](Moment* m) {
         KnowRoundOfTwo(m, v1::PHASE_SUCCEEDED, v1::PHASE_SUCCEEDED);
         m->KnowSuccess();
       },
       {{"one does not follow this epoch",
         [](Moment* m) { m->At("b").status.mutable_applied()->mutable_epoch()->set_number(9); }}}},
  };
}

std::vector<Condition> ConditionsOfRounds() {
  using S = State;
  return {
      {S::kGathering,
       S::kRunning,
       "a round may begin",
       [](Moment* m) {
         m->Attach("a", 0, v1::PHASE_READY);
         m->Attach("b", 1, v1::PHASE_READY);
         m->Attach("c", 2, v1::PHASE_READY);
       },
       {{"too few nodes", [](Moment* m) { m->At("c").status.set_phase(v1::PHASE_UNUSABLE); }},
        {"during the restart delay", [](Moment* m) { m->job.gathering.not_before = m->now + kNano; }},
        {"the primary leaves", [](Moment* m) { m->job.primary_leaves = true; }},
        {"beside workers whose lease runs",
         [](Moment* m) { m->Attach("d", 3, v1::PHASE_RUNNING).lease_until = m->now; }}}},
      {S::kRunning,
       S::kDraining,
       "a node was lost",
       [](Moment* m) {
         m->KnowRound(1);
         m->AttachMember("a", 0, v1::PHASE_RUNNING);
         m->job.greatest.losses.Note(m->now, "a node was lost", nullptr);
       },
       {{"none was", [](Moment* m) { m->job.greatest.losses.at.reset(); }}}},
      {S::kRunning,
       S::kDraining,
       "a new node has been ready for long enough",
       [](Moment* m) {
         m->KnowRound(1);
         m->AttachMember("a", 0, v1::PHASE_RUNNING);
         m->Attach("b", 1, v1::PHASE_READY);
         m->job.gathering.newcomers_since = m->now - m->job.options.join_settle;
       },
       {{"not for long enough", [](Moment* m) { m->job.gathering.newcomers_since += kNano; }},
        {"it is not ready any more", [](Moment* m) { m->At("b").status.set_phase(v1::PHASE_UNUSABLE); }},
        {"a member has succeeded", [](Moment* m) { m->job.greatest.successes.ranks = {0}; }}}},
      {S::kDraining,
       S::kGathering,
       "the round is drained, and another may follow",
       [](Moment* m) {
         m->KnowRound(1);
         m->job.greatest.is_controlled = true;
         m->AttachMember("a", 0, v1::PHASE_READY).exchange.stop_seq = 1;
       },
       {{"a member still stops",
         [](Moment* m) {
           m->At("a").status.set_phase(v1::PHASE_STOPPING);
           m->now += m->job.options.shutdown_grace + kStopLimit;
         }},
        {"an older member's workers may run",
         [](Moment* m) { m->Attach("b", 1, v1::PHASE_RUNNING).lease_until = m->now; }},
        {"this coordinator ends with its node", [](Moment* m) { m->job.farewell.emplace(); }},
        {"the job was cancelled",
         [](Moment* m) { m->job.asked_to_stop = AskedToStop{.exit_code = 130, .why = "cancelled on a"}; }},
        {"a budget is used up",
         [](Moment* m) {
           m->job.greatest.losses.Note(m->now, "a node was lost", nullptr);
           m->job.counts.losses.assign(static_cast<size_t>(m->job.options.max_node_losses) + 1, m->now);
         }}}},
      {S::kDraining,
       S::kVerdict,
       "the round is drained, and a budget is used up",
       [](Moment* m) {
         m->KnowRound(1);
         m->job.greatest.is_controlled = true;
         m->AttachMember("a", 0, v1::PHASE_READY).exchange.stop_seq = 1;
         m->job.greatest.losses.Note(m->now, "a node was lost", nullptr);
         m->job.counts.losses.assign(static_cast<size_t>(m->job.options.max_node_losses) + 1, m->now);
       },
       {{"a member still stops", [](Moment* m) { m->At("a").status.set_phase(v1::PHASE_STOPPING); }},
        {"the budget suffices", [](Moment* m) { m->job.counts.losses.pop_back(); }}}},
      {S::kDraining,
       S::kVerdict,
       "the round is drained, and the job was cancelled",
       [](Moment* m) {
         m->KnowRound(1);
         m->job.greatest.is_controlled = true;
         m->AttachMember("a", 0, v1::PHASE_READY).exchange.stop_seq = 1;
         m->job.asked_to_stop = AskedToStop{.exit_code = 130, .why = "cancelled on a"};
       },
       {{"a member still stops", [](Moment* m) { m->At("a").status.set_phase(v1::PHASE_STOPPING); }},
        {"it was not", [](Moment* m) { m->job.asked_to_stop.reset(); }}}},
  };
}

std::vector<Condition> ConditionsOfTheEnd() {
  using S = State;
  std::vector<Condition> conditions = {
      {S::kGathering,
       S::kVerdict,
       "too few came in time",
       [](Moment* m) { m->now = m->job.gathering.since + m->job.options.join_timeout; },
       {{"there is time left", [](Moment* m) { m->now -= kNano; }}}},
      {S::kGathering,
       S::kVerdict,
       "a node cannot start its program",
       [](Moment* m) {
         m->Attach("a", 0, v1::PHASE_READY).status.mutable_cannot_start();
         m->job.state_since = m->now - kLatecomers;
       },
       {{"other nodes may still be starting", [](Moment* m) { m->job.state_since += kNano; }},
        {"it can", [](Moment* m) { m->At("a").status.clear_cannot_start(); }},
        {"there has been a round", [](Moment* m) { m->job.gathering.first_round = false; }}}},
      {S::kVerdict,
       S::kReleasing,
       "all nodes have acknowledged the verdict",
       [](Moment* m) {
         m->job.verdict.emplace();
         *m->Attach("a", 0, v1::PHASE_READY).status.mutable_verdict() = *m->job.verdict;
       },
       {{"one has another", [](Moment* m) { m->At("a").status.mutable_verdict()->set_digest(7); }},
        {"one has not",
         [](Moment* m) {
           m->Attach("b", 1, v1::PHASE_READY);
           m->now += m->job.options.shutdown_grace + kStopLimit;
         }},
        {"one still runs", [](Moment* m) { m->At("a").status.set_phase(v1::PHASE_STOPPING); }}}},
  };
  for (const S from : {S::kRecovering, S::kGathering, S::kRunning, S::kDraining}) {
    conditions.push_back({from,
                          S::kVerdict,
                          "every member succeeded",
                          [](Moment* m) {
                            KnowRoundOfTwo(m, v1::PHASE_SUCCEEDED, v1::PHASE_SUCCEEDED);
                            m->KnowSuccess();
                          },
                          {{"one did not", [](Moment* m) { m->job.greatest.successes.ranks = {0}; }}}});
    conditions.push_back({from,
                          S::kVerdict,
                          "a node reports the verdict",
                          [](Moment* m) { m->Attach("a", 0, v1::PHASE_READY).status.mutable_verdict(); },
                          {{"none does", [](Moment* m) { m->At("a").status.clear_verdict(); }}}});
  }
  for (const S from : {S::kRecovering, S::kGathering}) {
    conditions.push_back({from,
                          S::kVerdict,
                          "the job was cancelled",
                          [](Moment* m) {
                            m->Attach("a", 0, v1::PHASE_READY);
                            m->job.asked_to_stop = AskedToStop{.exit_code = 130, .why = "cancelled on a"};
                          },
                          {{"it was not", [](Moment* m) { m->job.asked_to_stop.reset(); }}}});
  }
  for (const S from : {S::kGathering, S::kRunning, S::kDraining}) {
    conditions.push_back({from,
                          S::kRecovering,
                          "the round is not of this epoch",
                          [](Moment*) {},
                          {{"it is", [](Moment* m) { m->job.greatest.is_controlled = true; }}}});
  }
  return conditions;
}

std::vector<Condition> AllConditions() {
  std::vector<Condition> all = ConditionsOfRecovering();
  for (const auto& more : {ConditionsOfRounds(), ConditionsOfTheEnd()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

TEST(StateConditions, EachTransitionNeedsItsCondition) {
  for (const Condition& condition : AllConditions()) {
    SCOPED_TRACE(::testing::Message() << Name(condition.from) << " -> " << Name(condition.to) << ": "
                                      << condition.claim);
    Moment holds(condition.from);
    condition.given(&holds);
    EXPECT_TRUE(holds.LeadsTo(condition.to));
    for (const auto& [but, change] : condition.fails) {
      Moment fails(condition.from);
      condition.given(&fails);
      change(&fails);
      EXPECT_FALSE(fails.LeadsTo(condition.to)) << but;
    }
  }
}

TEST(StateConditions, EachTransitionIsAmongThem) {
  std::set<std::pair<State, State>> covered, listed;
  for (const Condition& condition : AllConditions()) covered.insert({condition.from, condition.to});
  for (const Transition& t : Transitions()) listed.insert({t.from, t.to});
  EXPECT_EQ(covered, listed);
}

TEST(StateConditions, ANewCoordinatorMayEnterNothing) {
  Moment start(State::kRecovering);
  start.now = kBegan;
  for (State state : {State::kGathering, State::kRunning, State::kDraining, State::kVerdict, State::kReleasing}) {
    EXPECT_FALSE(start.LeadsTo(state)) << Name(state);
  }
}

}  // namespace
}  // namespace muster::rendezvous
