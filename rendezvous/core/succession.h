// Coordinators that follow each other: epochs, and what a new coordinator knows of the one before it.
//
// A coordinator keeps nothing on disk. One that starts knows no round and no lease that its predecessor granted,
// so it first lets every such lease run out (members_known_until), unless the nodes that attach make that
// needless. Each coordinator's orders carry its epoch, and an agent follows the greatest epoch that it has met:
// whoever hears of a greater epoch than its own takes a still greater one and recovers anew.
//
// A predecessor that ended with its node may have left a farewell (farewell.h), which nodes bring along.
#pragma once

#include <optional>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

class Succession {
 public:
  // unseen_limit: a lease that the predecessor granted before this coordinator began has ended after this time.
  Succession(BootTime now, absl::Duration unseen_limit, uint64_t random);

  // Learns from the epoch that an agent reports. True: it is greater than ours, so BeginEpoch is due.
  bool Hear(const v1::Epoch& epoch);
  void BeginEpoch(BootTime now, uint64_t above, uint64_t random);
  // An agent of another coordinator's epoch last heard that coordinator then.
  void NotePredecessorHeard(BootTime when);
  void NoteAttached(BootTime now) { last_attach_ = now; }
  void BeginRound() { predecessor_heard_at_ = absl::InfinitePast(); }

  // The predecessor's farewell about the greatest round. Ours are never passed on, so a node that reports one has
  // it from that predecessor.
  void LearnFarewell(const v1::PrimaryEnded& farewell, BootTime ended_at);
  void ForgetFarewell();
  const std::optional<v1::PrimaryEnded>& farewell() const { return farewell_; }
  BootTime primary_ended_at() const { return primary_ended_at_; }  // infinite future: there is no farewell
  // The farewell is the last predecessor's own, and all who brought it agree about it. If agents have reported
  // several predecessors, it may be older.
  bool FarewellIsValid() const;

  const v1::Epoch& epoch() const { return epoch_; }
  bool IsOwn(const v1::Epoch& epoch) const;  // this coordinator's, now or before
  BootTime epoch_start() const { return epoch_start_; }
  // Whether an agent has reported another coordinator's epoch.
  bool had_predecessor() const { return had_predecessor_; }
  // Until then a host that has not attached may hold a lease of the predecessor.
  BootTime members_known_until() const { return members_known_until_; }
  BootTime last_attach() const { return last_attach_; }  // of a member of the greatest round
  // Dates the loss of a member that has been missing since this coordinator started: no later than the
  // predecessor's last message, so that peers' failures count as echoes. The predecessor would have handled an
  // earlier failure itself.
  BootTime WhenLost(BootTime now) const;

 private:
  const absl::Duration unseen_limit_;
  v1::Epoch epoch_;
  std::vector<v1::Epoch> own_epochs_;  // the newest last
  BootTime epoch_start_;
  bool had_predecessor_ = false;
  v1::Epoch predecessor_;             // the foreign epoch that agents reported last
  bool predecessors_differ_ = false;  // agents reported more than one foreign epoch
  BootTime members_known_until_;
  BootTime predecessor_heard_at_ = absl::InfinitePast();  // when any attached node last heard the predecessor
  BootTime last_attach_;
  std::optional<v1::PrimaryEnded> farewell_;
  bool farewells_differ_ = false;
  BootTime primary_ended_at_ = absl::InfiniteFuture();
};

}  // namespace muster::rendezvous
