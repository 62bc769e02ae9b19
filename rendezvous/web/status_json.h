// The state of a job for programs (docs/status.md): one object. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

// now: the moment of the view. Times are RFC 3339.
std::string StatusJson(const v1::JobView& view, absl::Time now);
std::string EndJson(const v1::JobEnd& end);

}  // namespace muster::rendezvous
