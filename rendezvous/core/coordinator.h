// The coordinator core: decides membership, ranks, rounds and the verdict.
//
// Pure: an event and the time go in, effects come out, and the caller carries them out in the given order. It has
// no I/O, clock, thread or randomness of its own (the caller provides the entropy). Not thread-safe: it lives on
// the loop thread of the process that holds it.
//
// coordinator.cc handles events, sending.cc builds directives, rounds.cc and draining.cc hold one decision
// function for each state, losses.cc detects lost hosts, farewell.cc hands knowledge to the next coordinator,
// held.cc keeps texts that hosts do not repeat, and facts.cc holds the queries that all of these share.
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

#include "base/driver.h"
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

using StreamId = uint64_t;  // assigned by the shell; never 0, never reused

// Effects.
struct SendDirective {
  StreamId stream = 0;
  v1::Directive directive;
};
struct CloseStream {
  StreamId stream = 0;
  std::string reason;
};
// The agent of this stream was admitted: its first status counts. Comes before any directive for it.
struct AdmitStream {
  StreamId stream = 0;
};
using Effect = std::variant<SendDirective, CloseStream, AdmitStream, Note>;
using Effects = std::vector<Effect>;

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, BootTime now, uint64_t entropy);

  void OnStatus(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  void OnClosed(BootTime now, StreamId stream, Effects* out);
  void OnTick(BootTime now, Effects* out);
  // The shell rejected a connection from this address before its first status, because of a wrong token.
  void OnTurnedAway(BootTime now, const std::string& address, const std::string& reason, Effects* out);

  State state() const { return state_; }
  const v1::Epoch& epoch() const { return epoch_; }
  const v1::Round& greatest() const { return greatest_; }
  const std::optional<v1::Verdict>& verdict() const { return verdict_; }
  // Human-readable reason for waiting; empty when not waiting.
  std::string Waiting() const;
  // True once all nodes have received the verdict and disconnected, or kReleaseLimit has passed.
  bool finished() const;
  // Number of hosts that all decisions together have looked at: a measure of the cost of events, for tests.
  uint64_t host_visits() const { return hosts_.visits(); }

 private:
  // All that is known of one host process.
  struct Host {
    v1::AgentStatus status;  // the newest
    Facts facts;             // sent by the agent once in each session
    StreamId stream = 0;     // 0: none
    BootTime last_status_at = absl::InfinitePast();
    // last_status_at, moved later by the time that this process itself was stopped since.
    BootTime silence_measured_from = absl::InfinitePast();
    BootTime attached_at = absl::InfinitePast();  // first status on the present stream
    BootTime closed_at = absl::InfinitePast();    // end of the last stream
    bool was_ready = false;                       // has been READY at this coordinator at least once
    BootTime joined_at = absl::InfinitePast();
    BootTime lease_until = absl::InfinitePast();  // its workers may run until then, by the coordinator's clock
    uint64_t counts_from = 0;  // see StatusIsCurrent: seq of the oldest directive that a status must have applied
    uint64_t last_sent = 0;    // seq of the newest directive sent to it
    std::deque<std::pair<uint64_t, BootTime>> sent;  // seq and time of recent directives
    BootTime echoed_sent_at = absl::InfinitePast();  // when the directive that it has applied was sent
    int order_sent = -1;                             // OrderCase of the newest directive; -1: one is due at once
    int seat = -1;
    bool in_round = false;  // member of greatest_
    // Has reported membership in a round older than greatest_. Kept, because an agent that hears of greatest_ no
    // longer reports the older round.
    bool in_older_round = false;
    v1::Round round;       // its part of greatest_, when in_round
    uint64_t run_seq = 0;  // seq of the first RUN of that round in this epoch; 0: not sent
    BootTime run_sent_at = absl::InfinitePast();
    uint64_t stop_seq = 0;              // seq of the first STOP of this drain; 0: not sent
    uint64_t release_seq = 0;           // seq of the first RELEASE; 0: not sent
    bool succeeded = false;             // has reported that its part of greatest_ succeeded
    bool in_farewell_audience = false;  // receives this coordinator's farewell and is counted in its known_to
    bool told_by_predecessor = false;   // brought the predecessor's farewell, no older than a lease
    BootTime lost_at = absl::InfiniteFuture();    // first sign in this round that it leaves or cannot continue
    v1::RoundId failed_round;                     // round of the failure that it reported
    BootTime failed_at = absl::InfiniteFuture();  // earliest estimate (arrival minus age) over all its reports
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
  using LoggedRefusals = std::set<std::string>;  // "NAME (reason)"; at most kMaxRefusalsLogged
  void NoteRefusal(const std::string& name, const std::string& reason, LoggedRefusals* logged, Effects* out);

  // held.cc: texts that need not travel again.
  void StoreStatus(const v1::AgentStatus& status, Host* host) const;
  std::string WhyItCannotStart(const v1::AgentStatus& status) const;
  void LearnVerdict(BootTime now, const v1::Verdict& verdict, Effects* out);
  void SetHeldDigests(const Host& host, v1::Directive* directive) const;
  v1::Verdict VerdictFor(const Host& host) const;

  // losses.cc: lost hosts.

  // For each place and each hostname, the id of the attached host that was started last.
  struct StartedLast {
    std::map<int, std::string> by_place;
    std::map<std::string, std::string> by_name;
    std::map<std::string, std::string> by_name_without_place;
  };
  StartedLast WhoStartedLast() const;
  void ExpireHosts(BootTime now, Effects* out);
  bool IsGone(BootTime now, const Host& host) const;
  bool CostsTheRound(const Host& host) const;  // losing it now would end the round
  bool Lose(BootTime now, const std::string& id, const StartedLast& started, bool in_the_log, Effects* out);
  void LoseSwept(BootTime now, const std::string& id, Effects* out);
  void NoteLoss(BootTime at, std::string text);  // the earliest loss of a round is kept
  BootTime WhenLost(BootTime now) const;
  std::string HowLost(const Host& host) const;
  static std::string WhyLeaseEnded(const Host& host);
  const Host* StartedAgain(const Host& host, const StartedLast& started) const;
  std::string HowVanished(BootTime now, const Host& host, const StartedLast& started) const;
  void ForgetEnded(const std::string& host_id, Effects* out);  // all its processes are known to have ended
  void Forget(const std::string& host_id, Effects* out);
  void PassPlaceOn(const Host& host);
  void NoteUse(const v1::AgentStatus& before, const v1::AgentStatus& status, Effects* out) const;
  void GiveUpPlace(int place, const std::string& host_id);

  // farewell.cc: knowledge handed to the next coordinator.
  bool BeginFarewell(BootTime now, const Host& own);
  void EndFarewell(BootTime now, Effects* out);
  void LearnFarewell(Host& host);
  std::optional<std::string> HowPrimaryEnded() const;
  bool PrimaryIsKnownEnded() const;

  // sending.cc.
  BootTime EchoedByOthers() const;
  bool IsLastMember() const;
  v1::Directive NextDirective(const v1::StatusId& echo);  // with a new seq and no order
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
  void Decide(BootTime now, Effects* out);  // takes steps until nothing changes
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
  // Known nodes that are not ready.
  struct Arriving {
    int known = 0;                // have been ready before
    int newcomers = 0;            // have never been ready
    bool owner = false;           // one of them holds a seat
    bool owner_prepares = false;  // a member of the last round is preparing (preflight, GPUs)
    bool something_runs = false;  // workers of any round still run
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
  bool Released(const Host& host) const;  // has applied a RELEASE
  void LookWhetherTheVerdictIsKept();

  // facts.cc.
  void Enter(State state, BootTime now, const std::string& why, Effects* out);
  uint64_t NextRandom();
  // Its newest status has applied a directive no older than counts_from: the first of this epoch, or the STOP of
  // the newest drain. An older status says nothing about what the host runs now.
  bool StatusIsCurrent(const Host& host) const;
  bool Fresh(const Host& host) const;  // its newest status has applied some directive of this epoch
  bool IsTrainer(const Host& host) const { return host.status.role() != v1::ROLE_OBSERVER; }
  bool Claims(const Host& host) const;     // reports membership in greatest_
  bool WasMember(const Host& host) const;  // was given a part of greatest_, whether or not the RUN reached it
  bool LeavesAfterSuccess(const Host& host) const;
  std::string WhyLeft(const Host& host) const;  // "asked to leave", with the reason that it reports
  bool HasSucceeded(const Host& host) const;    // its newest status reports success in greatest_
  bool EveryNodeSucceeded() const;              // in greatest_
  bool OnlyAbsentNodesRun() const;              // all attached members of greatest_ have succeeded
  bool HoldsPlace(const Host& host) const;
  const Host* HolderOf(int place) const;
  bool Leaving(const Host& host) const { return host.status.phase() == v1::PHASE_LEAVING; }
  bool IsReady(const Host& host) const;  // can be a member of the next round
  bool Unusable(const Host& host) const { return host.status.phase() == v1::PHASE_UNUSABLE; }
  static std::string WhyUnusable(const v1::AgentStatus& status);
  // Text from a node that may be a stranger, cut and made one line: it goes into every node's log and directives.
  static std::string Foreign(const std::string& text);
  // Whether a primary's node that cannot start its program stays in the job as its coordinator.
  bool ServesOn(BootTime now, const v1::AgentStatus& status) const;
  bool CannotStart(const Host& host) const;  // reports that it cannot start its program
  int CannotStart() const;                   // number of such trainers among the attached
  std::string WhoIsNotReady() const;         // attached nodes that are not ready, with reasons; empty: none
  // The live host that holds this host's place; nullptr: none.
  const Host* RivalOf(const Host& host) const;
  std::string DescribeRivals(const Host& holder, const Host& host) const;
  std::string PlacesClaimedTwice() const;  // with the claimants; empty: none
  void SayWhoClaimsOnePlace(Effects* out);
  std::string DescribeRefusals() const;     // suffix for the reason why others wait; empty: none refused
  bool Idle(const Host& host) const;        // has no live worker
  bool Progressed(const Host& host) const;  // in greatest_
  bool WatchesProgress(const Host& host) const;
  bool SomeProgressed() const;   // some member of greatest_, attached or lost
  bool ProgressWatched() const;  // some member of greatest_, attached or lost, watches a progress file
  bool SetAside(const std::string& host_id, BootTime now) const;
  bool RunsSomething(const Host& host) const;  // has live workers that can still be ended
  bool OthersAttached(const Host& host) const;
  bool AwaitsLatecomers() const;
  void LogAwaitedNodes(BootTime now, Effects* out);
  void LogLongDrain(BootTime now, Effects* out);
  std::set<int> AccountedFor() const;  // node ranks of greatest_ whose hosts are known, or departed after success
  int MembersMissing() const;
  std::string MissingNames() const;  // "node 0, node 3"
  std::vector<std::string> AbsentPlaces() const;
  std::string WhyNotReady(const Host& host) const;  // empty: not known, or reported elsewhere
  std::string HowManyAreReady(int ready) const;
  std::string WhyNoRoundYet(int ready) const;  // while recovering, with no round known
  std::string WhyWaiting() const;
  // "node 2", "node 2 (10.0.0.3:2222)" where places have addresses; with a detail "node 2 (10.0.0.3:2222;
  // detail)".
  std::string PlaceName(int place, const std::string& detail = "") const;
  static std::string NameOf(const Host& host);  // for a member of a round: "node 2 (worker-2)"

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
  bool undecided_ = false;   // news has arrived since decided_at_
  absl::Duration lateness_;  // total shift of deadlines for this process's own pauses

  CountedMap<Host> hosts_;                            // by host id
  std::map<StreamId, std::string> streams_;           // stream -> host id
  std::map<int, std::string> holders_;                // place -> host id
  std::set<std::pair<int, std::string>> contenders_;  // (place, host id) of each holder and each standby
  std::set<int> places_seen_;                         // places whose nodes have attached here at least once
  bool awaited_nodes_logged_ = false;                 // after the verdict
  std::set<StreamId> refused_;
  std::vector<std::string> refusals_;  // the first few since the last round started: "NAME (reason)"
  bool more_refusals_ = false;         // than refusals_ lists
  LoggedRefusals refused_nodes_;       // by this core, over its whole life
  LoggedRefusals turned_away_;         // by the shell; separate, so that strangers cannot use up refused_nodes_
  std::set<std::pair<int, std::string>> rivals_told_;  // contenders already logged beside a live holder
  Differences differences_;

  v1::Round greatest_;                      // the greatest round known, without a node rank
  uint64_t max_number_ = 0;                 // greatest number of any round seen
  RestartLedger round_counts_;              // of greatest_, as sent with it
  RestartLedger counts_;                    // of the next round, computed at the end of the drain
  bool round_owned_by_this_epoch_ = false;  // greatest_ was made or continued by this epoch
  bool had_predecessor_ = false;            // an agent has reported another coordinator's epoch
  std::vector<v1::Epoch> own_epochs_;       // of this coordinator, the newest last
  v1::Epoch predecessor_;                   // the foreign epoch that agents reported last
  bool predecessors_differ_ = false;        // agents reported more than one foreign epoch
  BootTime members_known_until_;  // until then a host that has not attached may hold a lease of the predecessor
  BootTime predecessor_heard_at_ = absl::InfinitePast();  // when any attached node last heard the predecessor
  BootTime last_attach_;
  bool first_round_ = true;  // no round has been made or seen
  BootTime gathering_since_;
  bool gathering_is_ours_ = false;           // this coordinator has drained a round itself, so it knows the time
  BootTime woke_at_ = absl::InfinitePast();  // end of the last long pause of this process itself
  BootTime min_reached_ = absl::InfiniteFuture();
  absl::Duration pause_ = absl::ZeroDuration();        // restart delay before the next round
  BootTime not_before_ = absl::InfinitePast();         // end of pause_
  BootTime newcomers_since_ = absl::InfiniteFuture();  // since when enough new nodes to grow are ready
  BootTime round_since_ = absl::InfinitePast();        // when greatest_ was made
  BootTime trouble_at_ = absl::InfinitePast();         // start of the drain
  bool progressed_ = false;                            // a lost member of greatest_ had reported progress
  bool progress_watched_ = false;                      // a lost member of greatest_ watched a progress file
  int largest_ = 0;                                    // greatest node count of any round so far
  std::string drain_cause_;
  bool long_drain_logged_ = false;   // for this drain
  std::optional<BootTime> loss_at_;  // first sign in this round that a member was lost or leaves
  std::set<int> succeeded_;          // node ranks of greatest_ that have reported success
  // Node ranks of greatest_ whose hosts reported success and are gone: losing them costs nothing.
  std::set<int> succeeded_and_departed_;
  // The subset whose processes are known to have ended; the others are only silent.
  std::set<int> succeeded_and_confirmed_dead_;
  std::string cancelled_on_;  // hostname where the job was cancelled; that node need not stay to the end
  std::string loss_text_;
  std::vector<SeenFailure> lost_failures_;  // of members that are gone
  std::optional<v1::Verdict> verdict_;
  bool verdict_kept_ = false;        // the primary's own host has stored the verdict, or there is no such host
  std::vector<std::string> absent_;  // AbsentPlaces() as of absent_since_
  BootTime absent_since_ = absl::InfinitePast();
  std::map<std::string, int> line_;  // host id of a spare -> place in line, as of line_since_
  BootTime line_since_ = absl::InfinitePast();
  bool lease_is_checked_ = false;  // the warning about a lease too short for the number of nodes has been given
  bool primary_leaves_ = false;    // this coordinator's own node is ending: no more rounds are made
  bool strayed_ = false;           // a trainer was lost during greatest_ without proof that it ended
  struct Farewell {
    v1::PrimaryEnded word;
    StreamId stream = 0;  // of the agent of this process; released once the audience has the word; 0: released
    v1::StatusId echo;    // newest status of that agent
    uint64_t before = 0;  // every directive with a greater seq carries the word
    BootTime since;
    BootTime ended_at;  // earliest time at which the primary's node may have ended
  };
  std::optional<Farewell> farewell_;                    // this coordinator's
  std::optional<v1::PrimaryEnded> word_left_;           // the predecessor's farewell, about greatest_
  BootTime primary_ended_at_ = absl::InfiniteFuture();  // by word_left_
  std::string last_why_;
};

using CoordinatorDriver = CoreDriver<Coordinator, Effect>;

}  // namespace muster::rendezvous
