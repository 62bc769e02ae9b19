// The coordinator core: decides membership, ranks, rounds and the verdict.
//
// Pure: an event and the time go in, effects come out, and the caller carries them out in the given order. It has
// no I/O, clock, thread or randomness of its own (the caller provides the entropy). Not thread-safe: it lives on
// the loop thread of the process that holds it.
//
// Each event is first learned (learning.h, losses.h), then steps are taken until nothing changes (steps.h: the
// first row of the table in states.h whose condition holds), then directives are sent to the hosts whose order has
// changed (outbox.h). What is known is a Job (job.h); the rules are functions of it: recovery.h, next_round.h,
// drain.h, round_end.h, lease.h, hang_watch.h, parting.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/core/driver.h"
#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/announcements.h"
#include "rendezvous/core/conditions.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/host.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/node_lines.h"
#include "rendezvous/core/options.h"
#include "rendezvous/core/outbox.h"
#include "rendezvous/core/random.h"
#include "rendezvous/core/state.h"

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
  // People want to see where the workers stand (stack_view.h).
  void OnStacksWanted(BootTime now, Effects* out);
  void OnRankWanted(BootTime now, int rank, Effects* out);
  // Somebody orders something (orders.h).
  void OnOrder(BootTime now, const v1::Order& order, Effects* out);
  // The process of a separate coordinator was asked to end. It may end once MayEnd.
  void OnAskedToEnd(BootTime now, Effects* out);

  // All that is known: for tests, and to be shown to people.
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
  void NoticeLateness(BootTime now);
  void TakeIn(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  bool Admit(BootTime now, StreamId stream, const v1::AgentStatus& status, const Host* sender, Effects* out);
  static bool IsNews(StreamId stream, const v1::AgentStatus& status, const Host* sender);
  bool MayWait(BootTime now, const Host& sender) const;
  bool DecidedJustNow(BootTime now) const;
  void DecideAndPush(BootTime now, Effects* out);
  void DealRanksAnew(Effects* out);
  void NoteProgress(BootTime now, Effects* out);

  Random random_;
  Job job_;
  NodeLines lines_;
  Outbox outbox_;
  Announcements announcements_;
  Conditions conditions_;
  BootTime decided_at_ = absl::InfinitePast();
  bool undecided_ = false;  // news has arrived since decided_at_
};

using CoordinatorDriver = CoreDriver<Coordinator, Effect>;

}  // namespace muster::rendezvous
