// The state of a job as metrics, in Prometheus' text format 0.0.4 (docs/metrics.md). No label has a value for each
// rank or node, so that a large job has as many series as a small one. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

inline constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

// now: the moment of the view. began: when its coordinator did; the same each time. version: of muster.
std::string MetricsText(const v1::JobView& view, const std::string& version, absl::Time now, absl::Time began);

}  // namespace muster::rendezvous
