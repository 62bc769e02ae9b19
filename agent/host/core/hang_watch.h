// What a host does about hangs: it counts for how long its workers show no sign of life, takes the snapshots of
// them that the coordinator, a person or a SIGUSR2 asks for, and ends the worker that the coordinator names. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/core/effects.h"
#include "agent/host/core/ending.h"
#include "agent/host/core/idle_clock.h"
#include "base/stacks/rank_snapshot.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

// A sentence is carried out so much later if a sign came while the snapshot was taken. The flight recorders of
// NCCL answer with a line of output, which is no sign, but no other one can be told from it.
inline constexpr absl::Duration kSecondThought = absl::Seconds(8);

class HangWatch {
 public:
  // timeout_ms: as in NodeConfig.hang_timeout_ms; 0: signs of life are not looked for at all.
  explicit HangWatch(int64_t timeout_ms);

  void BeginRound(BootTime now, const v1::Round& round, int workers);
  void EndRound();
  void OnTick(BootTime now, Effects* out);
  void OnSigns(const std::set<int>& local_ranks);
  void OnSuspended(bool suspended) { clock_.OnSuspended(suspended); }
  // A worker's first process has ended. Returns how it counts: one that was to be ended has failed, whatever its
  // own ending says.
  Ending OnEnded(int local_rank, Ending ending);

  void AskedBySignal(Effects* out);
  // is_stopping: muster ends the workers of the round already.
  void OnDirective(BootTime now, const v1::HostDirective& directive, bool is_stopping, Effects* out);
  // Answer to TakeSnapshot. Returns whether the agent must hear of it.
  bool OnSnapshot(std::vector<RankSnapshot> ranks, Effects* out);

  void Describe(v1::HostStatus* status) const;

 private:
  struct Sentence {
    int local_rank = 0;
    bool is_sure = false;
    std::string why;
  };

  // What people ask: of all workers of this node, or of one.
  struct PeoplesQuestion {
    uint64_t number = 0;      // 0: they ask nothing
    std::optional<int> only;  // local rank
  };

  void Take(bool with_recorders, std::optional<int> only, Effects* out);
  void TakeForPeople(const PeoplesQuestion& question, Effects* out);
  void TakeAgainIfAsked(Effects* out);
  bool AnswerPeople(const std::vector<RankSnapshot>& ranks);
  void EndHung(const v1::Hang& hang, Effects* out);

  const int64_t timeout_ms_;
  IdleClock clock_;
  v1::RoundId round_;
  int first_rank_ = 0;
  std::set<int> stragglers_;        // local ranks of which it was said in this round
  bool is_taken_ = false;           // an answer to TakeSnapshot is awaited
  bool with_recorders_ = false;     // as in that TakeSnapshot
  std::optional<int> only_;         // the same
  v1::RoundId taken_of_;            // whose workers it is about
  bool by_signal_ = false;          // it is for the log of this node
  uint64_t asked_ = 0;              // the coordinator's number; 0: it asks nothing
  bool signs_since_asked_ = false;  // after the snapshot: then nothing hangs any more
  bool signs_in_snapshot_ = false;  // while it was taken
  std::optional<BootTime> due_;     // when the sentence will be carried out; nullopt: none is put off
  v1::NodeSnapshot snapshot_;       // the answer to that number, once it is there
  PeoplesQuestion people_ask_;
  v1::NodeSnapshot stacks_;                        // the answer to that one
  std::optional<Sentence> sentence_;               // carried out in this round
  absl::Duration learned_ = absl::ZeroDuration();  // the longest silence that ended by itself, as coordinators say
};

}  // namespace muster::host
