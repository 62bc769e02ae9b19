// Where do the workers stand? As people ask it (`muster stacks`); nothing is decided by the answers. One question
// to all members serves everybody who asks meanwhile. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

// From the question to the last answer: a node takes at most 8 s (agent/host/watch/snapshot_taker.h).
inline constexpr absl::Duration kStackAnswers = absl::Seconds(9);
inline constexpr absl::Duration kStacksServe = absl::Seconds(1);  // complete ones; then the members are asked anew
inline constexpr absl::Duration kStacksKept = absl::Seconds(10);  // after somebody wanted them

class StackQuestion {
 public:
  // random: for the first number, since a predecessor has asked, too.
  explicit StackQuestion(uint64_t random) : asked_(random >> 32) {}

  // Somebody wants to see the workers of this round. Returns whether its members must be asked anew now.
  bool Want(BootTime now, uint64_t round);
  void Learn(const std::string& host_id, const v1::NodeSnapshot& answer);
  // What the answers show, once they are complete: it is made once, and they are forgotten.
  void Keep(BootTime now, v1::Stacks made);
  const v1::Stacks* kept() const { return made_ ? &*made_ : nullptr; }  // nullptr: they are not complete
  void OnTick(BootTime now);                                            // forgets what nobody wants any more

  bool IsOpen() const { return number_ != 0; }
  bool IsLate(BootTime now) const { return now >= asked_at_ + kStackAnswers; }  // no more answers are awaited
  BootTime asked_at() const { return asked_at_; }
  uint64_t round() const { return round_; }  // whose workers it is about
  // What this host is to answer; 0: nothing, or it has.
  uint64_t NumberFor(const std::string& host_id) const;
  const v1::NodeSnapshot* AnswerOf(const std::string& host_id) const;  // nullptr: none so far

 private:
  uint64_t asked_;       // so far
  uint64_t number_ = 0;  // of the open question; 0: none is
  uint64_t round_ = 0;
  BootTime asked_at_ = absl::InfinitePast();
  BootTime wanted_at_ = absl::InfinitePast();
  BootTime kept_at_ = absl::InfinitePast();
  std::map<std::string, v1::NodeSnapshot> answers_;
  std::optional<v1::Stacks> made_;
};

}  // namespace muster::rendezvous
