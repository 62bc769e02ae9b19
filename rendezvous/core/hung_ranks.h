// What the members of a round report of a silence, and which rank must end for it. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "base/stacks/rank_snapshot.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/hang.h"
#include "rendezvous/core/root_cause.h"

namespace muster::rendezvous {

struct Host;
struct Job;

// freshness: how old the newest status of a member may be.
Silence SilenceOf(BootTime now, absl::Duration freshness, const Job& job);

std::string DescribeSilence(const Job& job);
// The round is silent, but it may still be: nothing is done.
std::string DescribeColdSilence(const Job& job);

// Whether all members that run workers have answered the open question.
bool AllHaveAnswered(const Job& job);

// Whether it is a member whose workers have not all ended.
bool RunsWorkers(const Host& host);

// By rank, from the answer of each member; nullptr: it has none.
using AnswerOf = std::function<const v1::NodeSnapshot*(const Host& host)>;
std::vector<RankSnapshot> RanksIn(const Job& job, const AnswerOf& answer_of);

// What they have answered, by rank.
std::vector<RankSnapshot> SnapshotsOf(const Job& job);

struct Finding {
  int rank = 0;                    // to end: the first suspect that lives, else the lowest rank that does
  bool is_sure = false;            // it is the only suspect, and no weak one
  std::string why;                 // a sentence
  std::vector<std::string> lines;  // for the log
};
Finding FindHung(const Job& job);

// What stands for the failure of the rank that was to end, where its node has reported none: it could not end it,
// or was lost. nullopt: no rank was to end.
std::optional<SeenFailure> FailureOfHang(const Job& job);

}  // namespace muster::rendezvous
