// The job at one moment, for people and tools: `muster status` and what else shows it. Nothing else looks into the
// core. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

struct Host;
struct Job;

inline constexpr int kMaxMissingShown = 64;
inline constexpr int kMaxOddShown = 32;
inline constexpr size_t kMaxDetailedBytes =
    2 * 1024 * 1024;  // of a view: beyond it nodes have no texts but their names
// A member's status is late when it is this many beats old.
inline constexpr int kLateBeats = 3;

// What is left of the restarts.
v1::Budgets BudgetsLeft(BootTime now, const Job& job);
// A sentence for each that is used up.
std::vector<std::string> UsedUpBudgets(const v1::Budgets& left);
// The silence of all workers, if it is odd; empty: it is not.
std::string DescribeOddSilence(BootTime now, const Job& job);
// Waits, while a round runs, for the rank of a node that is lost.
bool IsSpare(BootTime now, const Job& job, const Host& host);

// Without what only the process knows: protocol, version.
v1::JobView Snapshot(BootTime now, const Job& job);

}  // namespace muster::rendezvous
