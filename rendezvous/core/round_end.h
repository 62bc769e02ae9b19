// The end of a round, once it is drained: its root cause, what it costs, and whether the verdict follows.
#pragma once

#include <optional>
#include <string>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/budgets.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/root_cause.h"

namespace muster::rendezvous {

struct Job;

struct RoundAccount {
  RoundResult result;                // what the ledger counts, first of all how the round ended
  std::string what;                  // the root cause, as a sentence
  std::optional<v1::Failure> cause;  // the root cause among the workers' failures; nullopt: none failed
};

// Only for a round that is drained (RoundIsDrained in drain.h): before, failures may still be reported.
RoundAccount AccountOf(BootTime now, const Job& job);

// Once the round is drained: counts its losses and its cost in job->counts.
void CloseRound(BootTime now, Job* job, Effects* out);

// Whether the members of the round that were neither lost nor left are enough for another one.
bool RestSuffices(const Job& job);

// The verdict if a budget is used up, by job.counts, which hold this round already; nullopt: the next round
// follows.
std::optional<v1::Verdict> VerdictAfter(const Job& job, const RoundAccount& round);

// In state VERDICT: every known node has acknowledged it and runs nothing, or the time for that is over.
bool AwaitsNoAcknowledgement(BootTime now, const Job& job);

}  // namespace muster::rendezvous
