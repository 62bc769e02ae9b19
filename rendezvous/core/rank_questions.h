// What people ask about single workers (`muster status --rank`): only the node that runs one is asked, and one
// answer serves everybody who asks within a second. Nothing is decided by it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

struct Host;

inline constexpr size_t kMaxRanksAsked = 16;  // at once; further ones wait until these are forgotten

class RankQuestions {
 public:
  struct Asked {
    uint64_t round = 0;  // whose worker it is about
    std::string host_id;
    int local_rank = 0;
    uint64_t number = 0;
    BootTime at = absl::InfinitePast();
    BootTime wanted_at = absl::InfinitePast();
    std::optional<v1::RankSnapshot> answer = {};
    BootTime answered_at = absl::InfinitePast();
  };

  // random: for the first number, since a predecessor has asked, too.
  explicit RankQuestions(uint64_t random) : numbers_((random >> 32) | kOfRanks) {}

  // Somebody wants to see this worker of this round, which that host runs. Returns whether that must be asked
  // anew.
  bool Want(BootTime now, uint64_t round, int rank, const Host& host);
  void Learn(BootTime now, const std::string& host_id, const v1::NodeSnapshot& answer);
  void OnTick(BootTime now);  // forgets what nobody wants any more

  const Asked* Of(int rank) const;  // nullptr: nobody asks for it
  // What this host is to answer about its workers of this round; nullptr: nothing, or it has.
  const Asked* For(const std::string& host_id, uint64_t round) const;

 private:
  // So that no number of these is one of a question to all (stack_question.h).
  static constexpr uint64_t kOfRanks = uint64_t{1} << 40;

  uint64_t numbers_;            // given so far
  std::map<int, Asked> asked_;  // by global rank
};

}  // namespace muster::rendezvous
