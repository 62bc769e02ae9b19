// Which of a coordinator's notes are events of the job, and what is known of each beside its text. Pure.
#pragma once

#include <cstddef>

#include "base/core/time.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

struct Job;

// Lives as long as one event of the core is handled: at its end the notes that were said meanwhile are in the
// job's book. All three must outlive it.
class Recording {
 public:
  Recording(BootTime now, Job* job, const Effects* said)
      : now_(now), job_(job), said_(said), from_(said->size()) {}
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  const BootTime now_;
  Job* const job_;
  const Effects* const said_;
  const size_t from_;
};

}  // namespace muster::rendezvous
