// A log line that a core returns as an effect: the cores do not log themselves, the shell writes it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace muster {

enum class Severity { kDebug, kInfo, kWarning, kError };

// The event of a log line, for programs that read the log (--log-format json). The names are stable, because
// operators alert on them; docs/output.md lists them. Other lines have only a text.
namespace events {

inline constexpr char kRoundStarted[] = "round_started";
inline constexpr char kRoundStopping[] = "round_stopping";
inline constexpr char kRoundEnded[] = "round_ended";
inline constexpr char kVerdict[] = "verdict";
inline constexpr char kJobEnded[] = "job_ended";
inline constexpr char kFailureReport[] = "failure_report";
inline constexpr char kWorkerFailed[] = "worker_failed";
inline constexpr char kWorkersKilled[] = "workers_killed";
inline constexpr char kNodeLost[] = "node_lost";
inline constexpr char kNodeUnusable[] = "node_unusable";
inline constexpr char kNodeUsable[] = "node_usable";
inline constexpr char kNodeRefused[] = "node_refused";
inline constexpr char kNodeSetAside[] = "node_set_aside";
inline constexpr char kNodesDiffer[] = "nodes_differ";
inline constexpr char kTakeover[] = "takeover";
inline constexpr char kRecovered[] = "recovered";
inline constexpr char kFirstSign[] = "first_sign";
inline constexpr char kLeaving[] = "leaving";
inline constexpr char kLeaseEnded[] = "lease_ended";
inline constexpr char kCoordinatorLost[] = "coordinator_lost";
inline constexpr char kCoordinatorFound[] = "coordinator_found";
inline constexpr char kAgentLost[] = "agent_lost";
inline constexpr char kHostLost[] = "host_lost";
inline constexpr char kWaiting[] = "waiting";
inline constexpr char kStacks[] = "stacks";
inline constexpr char kHang[] = "hang";
inline constexpr char kStalled[] = "stalled";
inline constexpr char kRestartStorm[] = "restart_storm";
inline constexpr char kBudgetLow[] = "budget_low";
inline constexpr char kSparesExhausted[] = "spares_exhausted";
inline constexpr char kNodeSuspect[] = "node_suspect";
inline constexpr char kWaitingLong[] = "waiting_long";
inline constexpr char kSlowRanks[] = "slow_ranks";
inline constexpr char kOrdered[] = "ordered";

}  // namespace events

inline constexpr char kAllEvents[] = "all";  // in a list of their names: each of them

struct NoteSubject {
  const char* event = "";  // from namespace events; empty: none
  int64_t rank = -1;       // global rank of the worker that the line is about; -1: none
  int64_t node_rank = -1;  // rank of the node that the line is about; -1: none, or not known
  int64_t round = -1;      // number of the round that the line is about; -1: the one that the process knows
  // Name of the node's machine; empty: not known, or there is none. Only the job's events have it, not the log.
  std::string host = {};
};

struct Note {
  Severity severity = Severity::kInfo;
  std::string text;  // one line, no newline
  NoteSubject subject = {};
};

// Appends a note to the effects of a core, a vector of variants of which Note is one.
template <typename Effects>
void Say(Severity severity, std::string text, Effects* out, const NoteSubject& subject = {}) {
  out->push_back(Note{severity, std::move(text), subject});
}

}  // namespace muster
