// The coordinator core: who is in the job, ranks, rounds, verdict.
//
// Pure: an event and the time in, effects out, to be carried out in the order given. No I/O, clock, thread or
// randomness of its own (the entropy is given). Lives on the loop thread of the process that holds it.
//
// coordinator.cc takes events in, sending.cc sends directives out; rounds.cc and draining.cc hold the decisions, a
// function for each state, losses.cc who is gone, farewell.cc what one coordinator leaves to the next, and
// facts.cc what they ask; held.cc keeps what a host need not repeat.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/exit_codes.h"
#include "base/note.h"
#include "base/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/budgets.h"
#include "rendezvous/core/counted_map.h"
#include "rendezvous/core/differences.h"
#include "rendezvous/core/options.h"
#include "rendezvous/core/roster.h"
#include "rendezvous/core/states.h"

namespace muster::rendezvous {

using StreamId = uint64_t;  // given by the shell, never 0, never used twice

// Effects.
struct SendDirective {
  StreamId stream = 0;
  v1::Directive directive;
};
struct CloseStream {
  StreamId stream = 0;
  std::string reason;
};
using Effect = std::variant<SendDirective, CloseStream, Note>;
using Effects = std::vector<Effect>;

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, BootTime now, uint64_t entropy);

  void OnStatus(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  void OnClosed(BootTime now, StreamId stream, Effects* out);
  void OnTick(BootTime now, Effects* out);
  // The shell has refused somebody at this address before it could say who it is: a wrong token.
  void OnTurnedAway(const std::string& address, const std::string& reason, Effects* out);

  State state() const { return state_; }
  const v1::Epoch& epoch() const { return epoch_; }
  const v1::Round& greatest() const { return greatest_; }
  const std::optional<v1::Verdict>& verdict() const { return verdict_; }
  // What this waits for, for people; empty: for nothing.
  std::string Waiting() const;
  bool finished() const;  // everybody has heard the verdict and gone, or had the time to
  // How many hosts all decisions together have looked at: what the cost of an event grows with. For tests.
  uint64_t host_visits() const { return hosts_.visits(); }

 private:
  // Everything known of one host process.
  struct Host {
    v1::AgentStatus status;  // the newest
    Facts facts;             // told once in each session
    StreamId stream = 0;     // 0: none
    BootTime silence_measured_from =
        absl::InfinitePast();                        // of the newest status; later by what we missed ourselves
    BootTime last_status_at = absl::InfinitePast();  // of the newest status
    BootTime attached_at = absl::InfinitePast();     // when its stream brought its first status
    BootTime closed_at = absl::InfinitePast();       // when the last stream closed
    bool was_ready = false;                          // once, here
    BootTime joined_at = absl::InfinitePast();
    BootTime lease_until = absl::InfinitePast();  // its workers may execute until then, counted from our side
    uint64_t counts_from = 0;  // a status counts if it names this directive of this epoch, or a later one
    uint64_t last_sent = 0;    // seq
    std::deque<std::pair<uint64_t, BootTime>> sent;
    BootTime echoed_sent_at = absl::InfinitePast();  // when we sent the directive it has applied
    int order_sent = -1;                             // which kind of order was sent last
    int seat = -1;
    bool in_round = false;  // a member of greatest_
    // Has said here that it was a member of an older round than greatest_. Told of that, it says so no more.
    bool in_older_round = false;
    v1::Round round;       // as it was told, when in_round
    uint64_t run_seq = 0;  // of the first RUN of that round in this epoch; 0: not sent
    BootTime run_sent_at = absl::InfinitePast();
    uint64_t stop_seq = 0;                        // of the first STOP of this drain; 0: not sent
    uint64_t release_seq = 0;                     // of the first RELEASE; 0: not sent
    bool succeeded = false;                       // has said so of this round
    bool in_farewell_audience = false;            // by us: it is one of those who are counted
    bool told_by_predecessor = false;             // by our predecessor, and not long ago
    BootTime lost_at = absl::InfiniteFuture();    // the first sign, in this round, that it leaves or cannot go on
    v1::RoundId failed_round;                     // of the failure that it told of
    BootTime failed_at = absl::InfiniteFuture();  // arrival minus age; of several statuses the least delayed one's
  };

  // coordinator.cc: events.
  void NoticeLateness(BootTime now);
  bool IsNews(StreamId stream, const v1::AgentStatus& status) const;
  bool MayWait(BootTime now, const v1::AgentStatus& status) const;
  bool DecidedJustNow(BootTime now) const;
  void DecideAndPush(BootTime now, Effects* out);
  bool Admit(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  void Record(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  void ForgetRound();
  void LearnRounds(BootTime now, Host& host, Effects* out);
  void LearnLoss(BootTime now, BootTime heard_before, Host& host);
  static void LearnFacts(Host* host);
  void LearnFailure(BootTime now, Host& host);
  void LearnProvedDeath(BootTime now, const v1::AgentStatus& successor, Effects* out);
  void LearnEcho(Host& host);
  void NewEpoch(BootTime now, uint64_t above, Effects* out);
  void Refuse(StreamId stream, const v1::AgentStatus& status, const std::string& reason, Effects* out,
              int exit_code = kExitRefused);
  using LoggedRefusals = std::set<std::string>;  // whom, and why; at most kMaxRefusalsLogged
  void NoteRefusal(const std::string& name, const std::string& reason, LoggedRefusals* logged, Effects* out);

  // held.cc: what a host need not repeat, and need not be told again.
  void StoreStatus(const v1::AgentStatus& status, Host* host) const;
  std::string WhyItCannotStart(const v1::AgentStatus& status) const;
  void LearnVerdict(BootTime now, const v1::Verdict& verdict, Effects* out);
  void SetHeldDigests(const Host& host, v1::Directive* directive) const;
  v1::Verdict VerdictFor(const Host& host) const;

  // losses.cc: who is gone.
  // Of each place, and of each name, the host that was started last.
  struct StartedLast {
    std::map<int, std::string> by_place;
    std::map<std::string, std::string> by_name;
    std::map<std::string, std::string> by_name_without_place;
  };
  StartedLast WhoStartedLast() const;
  void ExpireHosts(BootTime now, Effects* out);
  bool IsGone(BootTime now, const Host& host) const;
  bool CostsTheRound(const Host& host) const;  // if it is lost now
  bool Lose(BootTime now, const std::string& id, const StartedLast& started, bool in_the_log, Effects* out);
  void LoseSwept(BootTime now, const std::string& id, Effects* out);
  void NoteLoss(BootTime at, std::string text);  // the first one of a round stays
  BootTime WhenLost(BootTime now) const;
  std::string HowLost(const Host& host) const;
  static std::string WhyLeaseEnded(const Host& host);
  const Host* StartedAgain(const Host& host, const StartedLast& started) const;
  std::string HowVanished(BootTime now, const Host& host, const StartedLast& started) const;
  void ForgetEnded(const std::string& host_id, Effects* out);  // nothing of it is alive, as is known
  void Forget(const std::string& host_id, Effects* out);
  void PassPlaceOn(const Host& host);
  void NoteUse(const v1::AgentStatus& before, const v1::AgentStatus& status, Effects* out) const;
  void GiveUpPlace(int place, const std::string& host_id);

  // farewell.cc: what a coordinator leaves to the one after it.
  bool BeginFarewell(BootTime now, const Host& own);
  void EndFarewell(BootTime now, Effects* out);
  void LearnFarewell(Host& host);
  std::optional<std::string> HowPrimaryEnded() const;
  bool PrimaryIsKnownEnded() const;

  // sending.cc.
  BootTime EchoedByOthers() const;
  bool IsLastMember() const;
  v1::Directive NextDirective(const v1::StatusId& echo);  // without an order
  void Send(BootTime now, Host& host, Effects* out);
  void PushChanges(BootTime now, Effects* out);
  void FillOrder(BootTime now, Host& host, v1::Directive* directive);
  void FillWait(BootTime now, const Host& host, v1::Wait* wait);
  void GrantLease(Host& host, v1::Directive* directive);
  v1::Directive::OrderCase OrderFor(const Host& host) const;
  absl::Duration Beat() const;
  v1::Round GreatestForTelling(BootTime now, const Host& host) const;
  int PlaceInLine(BootTime now, const Host& host);
  void WarnOfLease(Effects* out);
  void Say(Severity severity, std::string text, Effects* out, const NoteSubject& subject = {}) const;

  // rounds.cc: decisions.
  void Decide(BootTime now, Effects* out);  // to a fixed point
  bool Step(BootTime now, Effects* out);    // true: something changed
  bool StepRecovering(BootTime now, Effects* out);
  bool EnoughAreHere(BootTime now) const;
  bool SparesMayHideARound(BootTime now) const;
  bool RecoverRound(BootTime now, Effects* out);
  bool StepGathering(BootTime now, Effects* out);
  bool StepRunning(BootTime now, Effects* out);
  bool EndWithSuccess(BootTime now, Effects* out);
  bool EndBeforeRound(BootTime now, Effects* out);
  std::optional<std::string> WhyDrain(BootTime now);
  std::optional<std::string> WhyDrainFor(BootTime now, const Host& host, bool absent_may_return) const;
  void MakeRound(BootTime now, std::vector<Candidate> members, const std::string& why, Effects* out);
  void WarnOfDifferences(const std::vector<Candidate>& members, Effects* out);
  void WarnOfMixedFamilies(const std::vector<Candidate>& members, Effects* out) const;
  std::vector<Candidate> ReadyCandidates() const;
  std::vector<Candidate> Chosen(std::vector<Candidate> ready, BootTime now) const;
  int RoundSize(int ready) const;
  std::optional<std::string> WhyGrow(BootTime now);
  struct Arriving {
    int known = 0;       // were ready once
    int newcomers = 0;   // not yet
    bool owner = false;  // of a seat
    bool owner_prepares = false;
    bool something_runs = false;
  };
  Arriving WhoArrives(BootTime now) const;
  bool EnoughCame(BootTime now, const Arriving& arriving) const;
  bool MayChangeMembers(BootTime now) const;

  // draining.cc: the end of a round, and the verdict.
  bool StepDraining(BootTime now, Effects* out);
  bool StepVerdict(Effects* out);
  void Drain(BootTime now, const std::string& why, Effects* out);
  void Conclude(BootTime now, v1::Verdict verdict, Effects* out);
  void ConcludeWith(BootTime now, int exit_code, const std::string& reason, Effects* out);
  bool PredecessorsRoundMayRun(BootTime now) const;
  bool IsDrained(BootTime now, const Host& host) const;
  bool HoldsUpDrain(BootTime now, const Host& host) const;
  EndCause ClassifyEnd(const std::optional<SeenFailure>& cause) const;
  RoundResult BuildResult(BootTime now, EndCause end, const std::optional<SeenFailure>& cause) const;
  std::optional<v1::Verdict> VerdictAfter(EndCause end, const std::optional<SeenFailure>& cause) const;
  std::string DescribeEnd(EndCause end, const std::optional<SeenFailure>& cause) const;
  void SayWhoIsSetAside(Effects* out) const;
  std::vector<FailureRef> Failures() const;
  bool Acknowledged(const Host& host) const;
  bool Released(const Host& host) const;  // it has applied a RELEASE
  void LookWhetherTheVerdictIsKept();

  // facts.cc.
  void Enter(State state, BootTime now, const std::string& why, Effects* out);
  uint64_t NextRandom();
  bool StatusIsCurrent(const Host& host) const;  // its newest status counts
  bool Fresh(const Host& host) const;            // its newest status names a directive of this epoch
  bool IsTrainer(const Host& host) const { return host.status.role() != v1::ROLE_OBSERVER; }
  bool Claims(const Host& host) const;     // says that it is a member of greatest_
  bool WasMember(const Host& host) const;  // of greatest_, though it may not have heard of it
  bool LeavesAfterSuccess(const Host& host) const;
  std::string WhyLeft(const Host& host) const;  // "asked to leave", and by what it says itself
  bool HasSucceeded(const Host& host) const;    // in that round, by its newest status
  bool EveryNodeSucceeded() const;              // in that round
  bool OnlyAbsentNodesRun() const;              // in that round
  bool HoldsPlace(const Host& host) const;
  const Host* HolderOf(int place) const;
  bool Leaving(const Host& host) const { return host.status.phase() == v1::PHASE_LEAVING; }
  bool IsReady(const Host& host) const;  // to be in a round
  bool Unusable(const Host& host) const { return host.status.phase() == v1::PHASE_UNUSABLE; }
  static std::string WhyUnusable(const v1::AgentStatus& status);
  // Words of somebody who may not be one of us: they reach the log of every node, and each directive.
  static std::string Foreign(const std::string& text);
  // Of a node that is our own and cannot start.
  bool ServesOn(BootTime now, const v1::AgentStatus& status) const;
  bool CannotStart(const Host& host) const;  // its program, as it says itself
  int CannotStart() const;                   // how many trainers that are here
  std::string WhoIsNotReady() const;         // with what for; empty: nobody who is here
  // The node that holds the place of this one, if both are alive; nullptr: there is none.
  const Host* RivalOf(const Host& host) const;
  std::string DescribeRivals(const Host& holder, const Host& host) const;
  std::string PlacesClaimedTwice() const;  // and by whom; empty: none
  void SayWhoClaimsOnePlace(Effects* out);
  std::string DescribeRefusals() const;     // empty, or what is appended to why the others wait
  bool Idle(const Host& host) const;        // runs nothing
  bool Progressed(const Host& host) const;  // in the round that is greatest_
  bool WatchesProgress(const Host& host) const;
  bool SomeProgressed() const;   // some member of greatest_, gone by now or not
  bool ProgressWatched() const;  // some member of greatest_ looks at a progress file
  bool SetAside(const std::string& host_id, BootTime now) const;
  bool RunsSomething(const Host& host) const;  // and it can still be ended
  bool OthersAttached(const Host& host) const;
  bool AwaitsLatecomers() const;
  void LogAwaitedNodes(BootTime now, Effects* out);
  void LogLongDrain(BootTime now, Effects* out);
  std::set<int> AccountedFor() const;  // node ranks of the round whose hosts are here, or done
  int MembersMissing() const;
  std::string MissingNames() const;  // "node 0, node 3"
  std::vector<std::string> AbsentPlaces() const;
  std::string WhyNotReady(const Host& host) const;  // of one that is here, or was; empty: nothing is known
  std::string HowManyAreReady(int ready) const;
  std::string WhyNoRoundYet(int ready) const;  // while recovering, with no round known
  std::string WhyWaiting() const;
  // "node 2", "node 2 (10.0.0.3:2222)" where places have addresses; with a detail "node 2 (10.0.0.3:2222;
  // detail)".
  std::string PlaceName(int place, const std::string& detail = "") const;
  static std::string NameOf(const Host& host);  // of a member: "node 2 (worker-2)"

  const CoordinatorOptions options_;
  uint64_t entropy_;
  v1::Epoch epoch_;
  const BootTime began_;  // when this coordinator started
  BootTime epoch_start_;
  uint64_t seq_ = 0;
  State state_ = State::kRecovering;
  BootTime state_since_;
  BootTime last_event_;
  BootTime decided_at_ = absl::InfinitePast();
  bool undecided_ = false;   // there was news since then
  absl::Duration lateness_;  // shifted so far

  CountedMap<Host> hosts_;                            // by host id
  std::map<StreamId, std::string> streams_;           // stream -> host id
  std::map<int, std::string> holders_;                // place -> host id
  std::set<std::pair<int, std::string>> contenders_;  // place and host id: who holds it and who stands by for it
  std::set<int> places_seen_;                         // whose nodes have attached here at least once
  bool awaited_nodes_logged_ = false;                 // after the verdict
  std::set<StreamId> refused_;
  std::vector<std::string> refusals_;  // the first since the last round: whom, and why
  bool more_refusals_ = false;         // than those
  LoggedRefusals refused_nodes_;       // in the life of this coordinator
  LoggedRefusals turned_away_;         // by the shell: strangers, who must not use up the room of the others
  std::set<std::pair<int, std::string>>
      rivals_told_;  // places and those who stand by for them beside a living holder
  Differences differences_;

  v1::Round greatest_;                      // the greatest round known, without a node rank
  uint64_t max_number_ = 0;                 // of any round seen anywhere
  RestartLedger round_counts_;              // of greatest_: what is told with it
  RestartLedger counts_;                    // of the round to come, once the drain is over
  bool round_owned_by_this_epoch_ = false;  // greatest_ was made or continued by this epoch
  bool had_predecessor_ = false;            // somebody has followed another coordinator
  std::vector<v1::Epoch> own_epochs_;       // of this coordinator, the newest last
  v1::Epoch predecessor_;                   // whom those followed who came to us
  bool predecessors_differ_ = false;        // they did not all follow one
  BootTime members_known_until_;            // who is not attached may hold a lease of that one until then
  BootTime predecessor_heard_at_ = absl::InfinitePast();  // by somebody here, the last time
  BootTime last_attach_;
  bool first_round_ = true;  // no round has been made or seen
  BootTime gathering_since_;
  bool gathering_is_ours_ = false;           // a round of this coordinator's has ended since it started
  BootTime woke_at_ = absl::InfinitePast();  // from a pause of its own
  BootTime min_reached_ = absl::InfiniteFuture();
  absl::Duration pause_ = absl::ZeroDuration();        // after fast failures, before the next round
  BootTime not_before_ = absl::InfinitePast();         // its end
  BootTime newcomers_since_ = absl::InfiniteFuture();  // more nodes are ready than this round has
  BootTime round_since_ = absl::InfinitePast();        // when greatest_ was made
  BootTime trouble_at_ = absl::InfinitePast();         // the drain's beginning
  bool progressed_ = false;                            // so said a member of greatest_ that is gone by now
  bool progress_watched_ = false;  // a member of greatest_ that is gone by now looked at a progress file
  int largest_ = 0;                // node count of any round so far
  std::string drain_cause_;
  bool long_drain_logged_ = false;   // of this drain
  std::optional<BootTime> loss_at_;  // the first sign that a member of this round was lost or leaves
  std::set<int> succeeded_;          // node ranks of greatest_ whose nodes have said that they succeeded
  std::set<int>
      succeeded_and_departed_;  // node ranks of this round that succeeded and then left: their loss costs nothing
  std::set<int>
      succeeded_and_confirmed_dead_;  // those of them of which it is known, and not only that nobody hears of them
  std::string cancelled_on_;          // where Ctrl-C was pressed; that node need not stay to the end
  std::string loss_text_;
  std::vector<SeenFailure> lost_failures_;  // of members that are gone by now
  std::optional<v1::Verdict> verdict_;
  bool verdict_kept_ = false;        // by the primary's own host, if there is one
  std::vector<std::string> absent_;  // of absent_since_
  BootTime absent_since_ = absl::InfinitePast();
  std::map<std::string, int> line_;  // host id of a spare -> place in line, as of line_since_
  BootTime line_since_ = absl::InfinitePast();
  bool lease_is_checked_ = false;  // against the number of nodes; told once
  bool primary_leaves_ = false;    // this coordinator's own node is ending: it makes no more rounds
  bool strayed_ = false;           // a node that was told of greatest_ is gone, and nothing proves that it ended
  struct Farewell {
    v1::PrimaryEnded word;
    StreamId stream = 0;  // of the agent that ends with us: it is let go when the others know; 0: it was
    v1::StatusId echo;    // its newest status
    uint64_t before = 0;  // all directives above this seq bring the word
    BootTime since;
    BootTime ended_at;  // that node, at the earliest
  };
  std::optional<Farewell> farewell_;                    // ours
  std::optional<v1::PrimaryEnded> word_left_;           // our predecessor's, of greatest_
  BootTime primary_ended_at_ = absl::InfiniteFuture();  // as it says
  std::string last_why_;
};

}  // namespace muster::rendezvous
