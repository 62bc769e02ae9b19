// Which statuses the coordinator takes in: those of its own job, in its own protocol, with values that an agent
// sends.
#pragma once

#include <optional>
#include <string>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

struct Job;

struct Refusal {
  std::string reason;         // one line, with what to do; for the log and the nodes of this job
  int exit_code = 0;          // of the refused node
  std::string told = reason;  // to the refused node: a stranger learns no name of this job
  bool later = false;         // it is to try again: the next coordinator at this address is its own
};

// The success is an earlier round's: what it finished has been written over since.
inline constexpr char kRunsStill[] = "reports that the job has succeeded while its round still runs";
inline constexpr char kIsOfTheNextJob[] = "the job at this address is ending; waiting for the next one";
inline constexpr char kIsOfTheFormerJob[] = "this node's job has ended; the next one runs at this address";
inline constexpr char kNeverStarted[] = "reports a round of this coordinator's that was never started";

// Why the node of this status is refused; nullopt: it is not.
std::optional<Refusal> WhyRefused(BootTime now, const Job& job, StreamId stream, const v1::AgentStatus& status);

}  // namespace muster::rendezvous
