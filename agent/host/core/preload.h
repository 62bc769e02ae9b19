// --preload: whether the workers of a round are forked from a Python that has imported their modules, and what is
// done about that process. The shell (agent/host/preload) runs it and reports what becomes of it.
//
// The first round waits until the modules are imported: its workers would spend that time on the same imports,
// each by itself. Later ones wait for nothing: without a ready preloader their workers start normally. A module
// that a forked worker would get wrong is left out, and that is said once; the others are imported anew.
//
// With `auto` the modules are those that a worker has imported: of an earlier job, else of the first round, whose
// workers are forked from a Python without modules. If some of an earlier job's must be left out, the first round
// does not wait for the new import. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/host/core/effects.h"
#include "agent/host/core/host_options.h"
#include "base/core/time.h"

namespace muster::host {

// For the import of all modules before the first round. An import of torch takes 1 to 3 s from the page cache, and
// 10 to 60 s from a cold or shared file system.
inline constexpr absl::Duration kFirstPreloadLimit = absl::Minutes(3);
// For any import; one that takes longer is taken for one that hangs.
inline constexpr absl::Duration kPreloadLimit = absl::Minutes(10);
inline constexpr absl::Duration kPreloadRetry = absl::Seconds(1);  // after it has ended; doubles each time
inline constexpr int kMaxPreloadDeaths = 5;  // without workers forked from it in between; then it is given up

// Rank 0 runs so much earlier than the others of a round that are forked. It opens the store at MASTER_PORT,
// within some 40 ms; torch's clients that come before it try again only after 250 to 750 ms
// (ExponentialBackoffWithJitter in torch/csrc/distributed/c10d). Those that import torch first are never so close.
inline constexpr absl::Duration kRankZeroHeadStart = absl::Milliseconds(50);

inline constexpr absl::Duration kLearnFor = absl::Minutes(2);  // from the first round's start, if it lasts so long

// What has become of the preloader, or of a request to fork workers from it.
struct PreloadNews {
  enum Kind {
    kReady,     // every module is imported
    kUnsafe,    // `module` must not be preloaded, because of `why`; the preloader has ended
    kUnusable,  // no attempt will be better: no CPython 3.9 or later, say
    kEnded,     // by itself
    kForked,    // the workers of a round
    // The workers of a round were not forked, and started normally:
    kStale,    // a file has changed since its import; a new preloader will do
    kRefused,  // what was imported is wrong for these workers, and will be for the next
    kFailed,   // no answer in time
    kLearned,  // answer to ReadLearned: `names`
  };
  Kind kind = kReady;
  std::string why = "";     // end of a sentence
  std::string module = "";  // of kUnsafe
  std::vector<std::string> names = {};
  absl::Duration took = absl::ZeroDuration();
};

class Preload {
 public:
  explicit Preload(PreloadOptions options);

  void Begin(BootTime now, Effects* out);  // the node is fit for a round; only the first call has an effect
  // True: the first round need not wait any more.
  [[nodiscard]] bool OnTick(BootTime now, Effects* out);
  [[nodiscard]] bool OnNews(BootTime now, const PreloadNews& news, Effects* out);
  void OnRoundOver(bool succeeded, Effects* out);
  void End(Effects* out);  // no round will follow

  bool ready() const { return state_ == State::kReady; }
  bool learns() const { return options_.learns && modules_.empty(); }
  bool holds() const { return holds_; }  // the first round must wait
  std::string Holds() const;             // what it waits for, as part of a sentence; empty: nothing

 private:
  enum class State {
    kOff,
    kStarting,
    kReady,
    kPausing,  // until the next attempt
  };
  void Start(BootTime now, Effects* out);
  bool OnReady(const PreloadNews& news, Effects* out);
  bool OnUnsafe(BootTime now, const PreloadNews& news, Effects* out);
  void OnForked(BootTime now);
  void OnLearned(BootTime now, const std::vector<std::string>& names, Effects* out);
  void LeaveOut(const std::string& module);
  std::string Modules() const;  // for people
  // how: "has ended" or "was ended".
  bool OnEnded(BootTime now, const std::string& how, const std::string& why, Effects* out);
  bool GiveUp(const std::string& why, Effects* out);
  bool StopHolding();

  const PreloadOptions options_;
  std::vector<std::string> modules_;  // those that are left
  State state_ = State::kOff;
  bool has_begun_ = false;
  bool has_said_that_it_learns_ = false;
  bool holds_;
  BootTime holds_until_ = absl::InfiniteFuture();
  BootTime started_at_ = absl::InfinitePast();
  BootTime retry_at_ = absl::InfiniteFuture();
  BootTime learned_at_ = absl::InfiniteFuture();  // when they are read
  bool keeps_ = false;                            // what was learned is complete: worth keeping for the next job
  int deaths_ = 0;
};

}  // namespace muster::host
