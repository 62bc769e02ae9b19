// Entering a state: what the job then notes of itself, and the line in the log. Whether a state may be entered:
// states.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/state.h"

namespace muster::rendezvous {

struct Job;

// For the log of the coordinator's process, whose own node may be in an older round, or in none. -1: no round is
// known.
int64_t NumberOfRound(const Job& job);

// about: what the line is about; its event is the state's.
void Enter(State state, BootTime now, const std::string& why, Job* job, Effects* out,
           const NoteSubject& about = {});

// The job has this verdict from now on.
void Conclude(BootTime now, v1::Verdict verdict, Job* job, Effects* out);
// With a verdict of muster's own.
void ConcludeWith(BootTime now, int exit_code, const std::string& reason, Job* job, Effects* out);

}  // namespace muster::rendezvous
