// How long the phases of this job's recoveries took, as counts for histograms (--http). It begins with this
// coordinator. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

enum class RecoveryPhase {
  kDetect,  // from the first trouble of a round to the order that ends it
  kDrain,   // until its workers have ended
  kGather,  // until the next round starts
  kStart,   // until one of its workers shows a sign of life; only where somebody looks for these
};
inline constexpr size_t kRecoveryPhases = 4;
inline constexpr int64_t kRecoveryBoundsMs[] = {10,     50,     100,    500,     1'000,    5'000,
                                                10'000, 30'000, 60'000, 300'000, 1'800'000};

class RecoveryTimes {
 public:
  void Add(RecoveryPhase phase, absl::Duration took);

  v1::RecoveryTimes ToMessage() const;

 private:
  struct Counts {
    std::array<int64_t, std::size(kRecoveryBoundsMs)> within = {};  // of each bound
    int64_t count = 0;
    absl::Duration sum = absl::ZeroDuration();
  };
  std::array<Counts, kRecoveryPhases> counts_ = {};
};

}  // namespace muster::rendezvous
