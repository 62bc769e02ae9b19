// The coordinator core: decides membership, ranks, rounds and the verdict.
//
// Pure: an event and the time go in, effects come out, and the caller carries them out in the given order. It has
// no I/O, clock, thread or randomness of its own (the caller provides the entropy). Not thread-safe: it lives on
// the loop thread of the process that holds it.
//
// Each event is first learned (coordinator.cc, learning.cc), then steps are taken until nothing changes (steps.cc:
// one function for each state of states.h), then directives are sent to the hosts whose order has changed. What is
// known is a Job (job.h); the rules are functions of it: recovery.h, gathering.h, drain.h, round_end.h, lease.h,
// farewell.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/core/driver.h"
#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/announcements.h"
#include "rendezvous/core/directives.h"
#include "rendezvous/core/drain.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/options.h"
#include "rendezvous/core/random.h"
#include "rendezvous/core/states.h"

namespace muster::rendezvous {

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, BootTime now, uint64_t entropy);

  // A status arrived. Its first one makes the stream the host's, in place of an older stream; an old or repeated
  // status changes nothing.
  void OnStatus(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  // The other end closed the stream, or it broke. Not called for streams that CloseStream closed.
  void OnClosed(BootTime now, StreamId stream, Effects* out);
  // To be called every kTick (options.h): all deadlines are looked at here.
  void OnTick(BootTime now, Effects* out);
  // The shell rejected a connection from this address before its first status, because of a wrong token.
  void OnTurnedAway(BootTime now, const std::string& address, const std::string& reason, Effects* out);
  // The process of a separate coordinator was asked to end. It may end once MayEnd.
  void OnAskedToEnd(BootTime now, Effects* out);

  // All that is known: for tests, and for whoever shows it to people.
  const Job& job() const { return job_; }
  State state() const { return job_.state; }
  const v1::Epoch& epoch() const { return job_.epoch(); }
  const v1::Round& greatest() const { return job_.greatest.round; }
  const std::optional<v1::Verdict>& verdict() const { return job_.verdict; }
  // Human-readable reason for waiting; empty when not waiting.
  std::string Waiting() const;
  // True once all nodes have received the verdict and disconnected, or kReleaseLimit has passed.
  bool finished() const;
  // After OnAskedToEnd: no node that is here needs this coordinator any more, or it has waited long enough.
  bool MayEnd(BootTime now) const;
  // Number of hosts that all decisions together have looked at: a measure of the cost of events, for tests.
  uint64_t host_visits() const { return job_.hosts.visits(); }

 private:
  // coordinator.cc: events, and what is sent.
  void NoticeLateness(BootTime now);
  bool IsNews(StreamId stream, const v1::AgentStatus& status) const;
  bool MayWait(BootTime now, const v1::AgentStatus& status) const;
  bool DecidedJustNow(BootTime now) const;
  void DecideAndPush(BootTime now, Effects* out);
  bool Admit(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  void Refuse(BootTime now, StreamId stream, const v1::AgentStatus& status, const Refusal& refusal, Effects* out);
  void Send(BootTime now, Host& host, Effects* out);
  void PushChanges(BootTime now, Effects* out);
  bool BeginFarewell(BootTime now, const Host& own);
  void EndFarewell(BootTime now, Effects* out);

  // learning.cc: what a status changes in the Job.
  void Learn(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  void DealRanksAnew(Effects* out);
  void LearnUse(BootTime now, bool was_unusable, Host& host, Effects* out);
  void LearnTimes(BootTime now, const v1::AgentStatus& status, Host& host);
  void LearnRounds(BootTime now, Host& host, Effects* out);
  void LearnGreaterRound(BootTime now, const v1::Round& last, Effects* out);
  void LearnMembership(BootTime now, const v1::Round& last, Host& host);
  void LearnFarewell(Host& host);
  void LearnLoss(BootTime now, BootTime heard_before, Host& host);
  void LearnFailure(BootTime now, Host& host);
  void LearnProvedDeath(BootTime now, const v1::AgentStatus& successor, Effects* out);
  void LearnVerdict(BootTime now, const Host& host, Effects* out);
  void BeginEpoch(BootTime now, uint64_t above, Effects* out);

  // losses.cc: lost hosts.
  void LoseSilentHosts(BootTime now, Effects* out);
  // True: it cost the round.
  bool Lose(BootTime now, const std::string& id, const StartedLast& started, bool in_the_log, Effects* out);
  void NoteNodeLost(BootTime at, const Host& host, const std::string& text, bool in_the_log, Effects* out);
  void ForgetEnded(const std::string& host_id, Effects* out);  // all its processes are known to have ended
  void Forget(const std::string& host_id, Effects* out);

  // steps.cc: decisions.
  void Decide(BootTime now, Effects* out);             // takes steps until nothing changes
  bool TakeNodeLogBudget(BootTime now, Effects* out);  // of log lines that any node can trigger
  bool Step(BootTime now, Effects* out);               // true: something changed
  bool StepRecovering(BootTime now, Effects* out);
  bool RecoverRound(BootTime now, Effects* out);
  bool StepGathering(BootTime now, Effects* out);
  void WatchForHang(BootTime now, Effects* out);
  void AskWhereWorkersStand(BootTime now, Effects* out);
  void TellMembersAtOnce();
  void ActOnHang(BootTime now, Effects* out);
  bool StepRunning(BootTime now, Effects* out);
  bool StepDraining(BootTime now, Effects* out);
  bool StepVerdict(BootTime now, Effects* out);
  bool EndWithSuccess(BootTime now, Effects* out);
  bool EndBeforeRound(BootTime now, Effects* out);
  void MakeRound(BootTime now, const std::vector<Candidate>& members, Effects* out);
  void Drain(BootTime now, const StopReason& why, Effects* out);
  void NoteLossesOfDrain(BootTime now);
  void NoteCrashLoops(BootTime now, Effects* out);
  void Conclude(BootTime now, v1::Verdict verdict, Effects* out);
  void ConcludeWith(BootTime now, int exit_code, const std::string& reason, Effects* out);
  void Enter(State state, BootTime now, const std::string& why, Effects* out, const NoteSubject& whom = {});

  Random random_;
  Job job_;
  Allowance lines_on_nodes_{kNodeLinesBurst, kNodeLinesPerSecond};
  Allowance lines_left_out_{1, kLeftOutLinesPerSecond};
  Directives directives_;
  Announcements announcements_;
  BootTime decided_at_ = absl::InfinitePast();
  bool undecided_ = false;  // news has arrived since decided_at_
};

using CoordinatorDriver = CoreDriver<Coordinator, Effect>;

}  // namespace muster::rendezvous
