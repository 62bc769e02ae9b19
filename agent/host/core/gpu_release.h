// Whether the workers of the last round have released this node's GPUs. The driver may take seconds to free the
// memory of a process that has ended, and the next round's workers would then find too little of it. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "agent/host/core/effects.h"
#include "base/core/time.h"

namespace muster::host {

inline constexpr absl::Duration kGpuPoll = absl::Milliseconds(200);  // from an answer to the next question
// Time for processes to leave the GPUs if their pids cannot be compared with those of the workers.
inline constexpr absl::Duration kUnknownGpuUsers = absl::Seconds(5);
inline constexpr int kMaxGpuPidsNamed = 8;

// Processes that hold this node's GPUs, as listed by the driver's tool.
struct GpuUsers {
  std::string trouble = "";            // why the list could not be read; empty: it was read
  std::set<int64_t> old_workers = {};  // pids of exited workers that no other process has taken since
  std::set<int64_t> others = {};
};

class GpuRelease {
 public:
  enum class Answer {
    kAwaited,  // GPUs are still held; the question is repeated
    kFree,
    kHeld,  // for longer than the limit
  };

  // limit: zero if GPUs are not checked. driver_pids: the driver's pids are valid here.
  GpuRelease(absl::Duration limit, bool driver_pids) : limit_(limit), driver_pids_(driver_pids) {}

  void OnRoundOver() { may_be_held_ = limit_ > absl::ZeroDuration(); }
  bool may_be_held() const { return may_be_held_; }
  // The longest wait.
  absl::Duration limit() const { return driver_pids_ ? limit_ : std::min(limit_, kUnknownGpuUsers); }

  // Begins to wait, with the first question.
  void Begin(BootTime now, Effects* out);
  void OnTick(BootTime now, Effects* out);  // call while waiting
  // held: if kHeld, the processes that hold GPUs, for messages.
  Answer OnUsers(BootTime now, const GpuUsers& users, std::string* held, Effects* out);

 private:
  std::set<int64_t> Holders(const GpuUsers& users) const;
  void AssumeFree(const std::string& trouble, Effects* out);
  void AcceptStrangers(const std::set<int64_t>& pids, Effects* out);
  Answer Free();

  const absl::Duration limit_;
  const bool driver_pids_;
  // By workers of the last round. Stays true after kHeld, so that the next attempt asks again.
  bool may_be_held_ = false;
  bool said_it_cannot_list_ = false;  // the warning is given once
  std::set<int64_t> strangers_;       // pids that held GPUs for longer than kUnknownGpuUsers
  BootTime since_ = absl::InfinitePast();
  BootTime ask_at_ = absl::InfiniteFuture();  // infinite while an answer is pending
};

}  // namespace muster::host
