// A job's events for programs (docs/events.md): one object each, in one line. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

// Which time the event has: what the coordinator says, or else by its age at the moment `now`.
absl::Time TimeOf(const v1::Event& event, absl::Time now);
// now: the moment at which the event has its age. Without a newline.
std::string EventJson(const v1::Event& event, const std::string& run_id, absl::Time now);

}  // namespace muster::rendezvous
