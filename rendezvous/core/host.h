// One host process as the coordinator knows it: what it reports, which directives it got, and its part of the
// greatest round.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "base/core/allowance.h"
#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/differences.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

// Text from a node that may be a stranger, cut and made one line: it goes into every node's log and directives.
std::string Foreign(const std::string& text);

// Brings the verdict that the job has succeeded.
bool BringsSuccess(const v1::AgentStatus& status);

// The directives of the present epoch to one host, and which of them it has applied. A status that was sent before
// an order arrived says nothing about the order: the sequence numbers tell.
struct Exchange {
  // Seq of the oldest directive that a status must have applied to be current: the first one of this epoch, or the
  // STOP of the newest drain. 0: none was sent.
  uint64_t counts_from = 0;
  uint64_t last_sent = 0;    // seq of the newest directive
  int order_sent = -1;       // OrderCase of the newest directive; -1: one is due at once
  uint64_t run_seq = 0;      // seq of the first RUN of the greatest round; 0: not sent
  uint64_t stop_seq = 0;     // seq of the first STOP of this drain; 0: not sent
  uint64_t release_seq = 0;  // seq of the first RELEASE; 0: not sent
  // Numbers of the job's events: the newest that this stream has surely got; the newest in the directive with
  // events_seq, the first one after that which had any. 0: none.
  uint64_t events_held = 0, events_sent = 0, events_seq = 0;
  BootTime run_sent_at = absl::InfinitePast();
  // When the directive that it has applied was sent. This bounds the lease of the primary's own node.
  BootTime echoed_sent_at = absl::InfinitePast();

  void NoteSent(uint64_t seq, BootTime now, int order);
  void NoteApplied(uint64_t seq);
  void BeginEpoch();  // nothing of the new epoch was sent

 private:
  std::deque<std::pair<uint64_t, BootTime>> sent_;  // seq and time of recent directives
};

// A host's part of the greatest round.
struct Part {
  bool in_round = false;   // a member
  bool succeeded = false;  // has reported that its part succeeded
  // Has reported membership in a round older than the greatest. Kept, because an agent that hears of the greatest
  // round no longer reports the older one.
  bool in_older_round = false;
  int workers = 0;   // of the node, as its status said when it became a member
  std::string node;  // see crash_loops.h; "": not known, since another coordinator made the round, say
  v1::Round round;   // with its node rank; kept after the round, until the host is a member of another one
  BootTime lost_at = absl::InfiniteFuture();  // first sign in this round that it leaves or cannot continue
};

// Lines in the log about one node's becoming unusable, and usable again: a broken one may alternate without end.
inline constexpr double kUseLinesBurst = 20;
inline constexpr double kUseLinesPerSecond = 1.0 / 60;

struct Host {
  v1::AgentStatus status;  // the newest
  Facts facts;             // sent by the agent once in each session, and facts of the status itself
  StreamId stream = 0;     // 0: none
  BootTime last_status_at = absl::InfinitePast();
  // last_status_at, moved later by the time that this process itself was stopped since.
  BootTime silence_measured_from = absl::InfinitePast();
  BootTime attached_at = absl::InfinitePast();  // first status on the present stream
  BootTime closed_at = absl::InfinitePast();    // end of the last stream
  BootTime joined_at = absl::InfinitePast();
  bool was_ready = false;                       // has been READY at this coordinator at least once
  BootTime lease_until = absl::InfinitePast();  // its workers may run until then, by the coordinator's clock
  int seat = -1;
  bool hint_is_void = false;  // it has claimed the place of a live node, as a hint
  std::string leave_order;    // somebody wants it to leave the job, and why; empty: nobody does
  Exchange exchange;
  Part part;
  bool in_farewell_audience = false;            // receives this coordinator's farewell, is counted in its known_to
  bool told_by_predecessor = false;             // brought the predecessor's farewell, no older than a lease
  v1::RoundId failed_round;                     // round of the failure that it reported
  BootTime failed_at = absl::InfiniteFuture();  // earliest estimate over all its reports

  // Replaces the stored status by the newest one, but keeps the texts that this one leaves out.
  void Store(const v1::AgentStatus& newest);
  void TakeFacts();                  // those of the stored status
  void ForgetDetailsOfVerdict();     // the Job has them, and they are many KiB
  void NoteFailure(BootTime now);    // the stored status's, if it has one
  void NoteLossSign(BootTime when);  // the earliest one is kept
  // This process was stopped for that long: what happened meanwhile is not the host's fault.
  void PostponeDeadlines(absl::Duration shift);

  Allowance use_lines{kUseLinesBurst, kUseLinesPerSecond};  // about its becoming unusable, and usable again

  // Was given a part of some round, as far as known here.
  bool HadAPart() const { return status.last().has_node_rank() || part.in_older_round; }
  bool IsAttached() const { return stream != 0; }
  bool IsTrainer() const { return status.role() != v1::ROLE_OBSERVER; }
  bool IsGone() const { return status.phase() == v1::PHASE_HOST_GONE; }
  bool IsLeaving() const { return status.phase() == v1::PHASE_LEAVING; }
  bool IsUnusable() const { return status.phase() == v1::PHASE_UNUSABLE; }
  bool IsIdle() const;         // has no live worker
  bool RunsSomething() const;  // live workers that can still be ended
  // Reports this verdict, no other one, and runs nothing. An unusable host can receive the verdict like any other,
  // but its stuck workers are not waited for.
  bool HasAcknowledged(const v1::Verdict& verdict) const;
  // The host's newest status has applied some directive of this epoch.
  bool Follows(const v1::Epoch& epoch) const;
  // The host's newest status has applied a directive no older than counts_from. An older status says nothing about
  // what the host runs now.
  bool IsCurrent(const v1::Epoch& epoch) const;
  bool HasAppliedRelease(const v1::Epoch& epoch) const;

  bool HasRank(int rank) const;   // of the present round, as a member
  std::string Name() const;       // as a member of a round: "node 2 (worker-2)"
  std::string WhyItLeft() const;  // "asked to leave", with the reason that it reports
};

// Why the node that sent this status is unusable.
std::string WhyUnusable(const v1::AgentStatus& status);

}  // namespace muster::rendezvous
