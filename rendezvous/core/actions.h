// What happens when a row of the table of states is taken (states.h). Each enters the row's next state.
#pragma once

#include "rendezvous/core/announcements.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/glance.h"
#include "rendezvous/core/random.h"

namespace muster::rendezvous {

struct Job;

// What actions change, and what they say and draw by.
struct Acting {
  Job* job;
  Announcements* announcements;
  Random* random;
};

using Action = void(const Glance& glance, const Acting& acting, Effects* out);

// Verdicts without a further round.
Action EndWithSuccess;
Action EndAsAsked;
Action EndBecauseOneCannotStart;
Action EndBecauseNobodyJoined;
Action EndBecauseTooFewCame;
Action EndAfterTheLastRound;

Action BeginGathering;
Action MakeRound;
Action ContinueRound;
Action StopRecoveredRound;    // a member cannot go on
Action StopForAbsentMembers;  // they did not return in time
Action StopRound;
Action GatherAgain;  // after a drain
Action Release;

}  // namespace muster::rendezvous
