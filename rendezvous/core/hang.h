// What a coordinator does about a running round that does not go on: it asks all nodes where their workers stand,
// says which rank is most likely the reason, and has a node end one. So the round fails there, and the failure is
// charged, reported and answered like any other. Pure.
#pragma once

#include <optional>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/stall.h"

namespace muster::rendezvous {

// From the question to the last answer, while all members are heard.
inline constexpr absl::Duration kSnapshotAnswers = absl::Seconds(10);
// From the word that a rank must end to its node's report: SIGKILL, the sweep and a beat. After that the whole
// round is stopped, which finds out what cannot be ended.
inline constexpr absl::Duration kHungEnds = absl::Seconds(20);

// A member is heard lately if its newest status is no older than so many heartbeats.
inline constexpr int kFreshBeats = 4;

// What the members of a round report of their workers' silence.
struct Silence {
  // Since the last sign of life of any worker. nullopt: not known, since a member is starting, cut off, not heard
  // lately, or not watched.
  std::optional<absl::Duration> time;
  int running = 0;  // members whose workers have not all ended
  int signs = 0;    // of the member that has seen most windows with a sign
  absl::Duration learned = absl::ZeroDuration();
};

// The present round's silence, and how far the answer to it has come.
struct Hang {
  // random: for the first question, since a predecessor has asked, too.
  Hang(const StallJudge& by, uint64_t random) : judge(by), questions(random >> 32) {}

  void BeginRound();
  // Whether it is a stall. nullopt: not known.
  std::optional<bool> Judge(BootTime now, const Silence& silence);
  void Ask(BootTime now);
  bool Dismiss();  // the silence is over. Returns whether anything was reported about it

  StallJudge judge;
  int running = 0;  // members whose workers have not all ended
  BootTime running_since = absl::InfinitePast();
  uint64_t questions;     // asked so far; kept
  uint64_t question = 0;  // the open one; 0: none is
  BootTime asked_at = absl::InfinitePast();
  bool reported = false;        // what the nodes answered
  bool grace_reported = false;  // that this round may still be silent
  std::optional<v1::Hang> kill_order;
  BootTime kill_ordered_at = absl::InfinitePast();
};

}  // namespace muster::rendezvous
