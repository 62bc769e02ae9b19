// What a host does about hangs: it counts for how long its workers show no sign of life, takes the pictures of
// them that the coordinator or a SIGUSR2 asks for, and ends the worker that the coordinator holds responsible.
// Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/core/effects.h"
#include "agent/host/core/idle_clock.h"
#include "base/picture/rank_picture.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

class HangWatch {
 public:
  // watches: whether signs of life are looked for at all.
  explicit HangWatch(bool watches) : watches_(watches) {}

  void BeginRound(BootTime now, const v1::Round& round, int workers);
  void EndRound();
  void OnLook(BootTime now, const std::set<int>& signs) { clock_.OnLook(now, signs); }
  void OnEnded(int local_rank) { clock_.OnEnded(local_rank); }  // its first process
  void OnSuspended(bool suspended) { clock_.OnSuspended(suspended); }

  void AskedBySignal(Effects* out);
  void OnDirective(const v1::HostDirective& directive, Effects* out);
  // Answer to TakePicture. Returns whether the agent must hear of it.
  bool OnPicture(std::vector<RankPicture> ranks, Effects* out);

  void Describe(v1::HostStatus* status) const;

 private:
  void Take(Effects* out);
  void EndHung(const v1::Hang& hang, Effects* out);

  const bool watches_;
  IdleClock clock_;
  v1::RoundId round_;
  int first_rank_ = 0;
  bool is_taken_ = false;       // an answer to TakePicture is awaited
  bool by_signal_ = false;      // it is for the log of this node
  uint64_t asked_ = 0;          // the coordinator's number; 0: it asks nothing
  v1::NodePicture picture_;     // the answer to that number, once it is there
  bool hang_is_ended_ = false;  // in this round
};

}  // namespace muster::host
