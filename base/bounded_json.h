// JSON from outside, read with bounds. A document is first walked event by event, which needs no memory to speak
// of; only one that is valid, of one value, not too deep and without a key given twice becomes a tree.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace muster {

struct JsonLimits {
  size_t max_bytes = 1 << 20;
  int max_depth = 32;
};

// InvalidArgument says what was found, in the words that follow "is": "not JSON at byte 12, near '...'", or
// "nested more than 32 deep". Comments, trailing commas, a second value and invalid UTF-8 are not JSON.
absl::StatusOr<nlohmann::json> ParseBoundedJson(std::string_view text, const JsonLimits& limits);

}  // namespace muster
