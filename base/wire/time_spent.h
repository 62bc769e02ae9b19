// Where the time of a job went, in words and as JSON. Pure.
#pragma once

#include <string>

#include "muster/v1/rendezvous.pb.h"
#include "nlohmann/json.hpp"

namespace muster {

// "4h1m: 3h40m in steps, 12m starting, 9m waiting for nodes": the kinds that took a second at least; and which
// steps were done again: "; round 4 went from step 1200 back to 1000".
std::string DescribeTime(const v1::TimeSpent& time);

// For programs (docs/status.md): seconds.
nlohmann::ordered_json TimeObject(const v1::TimeSpent& time);

}  // namespace muster
