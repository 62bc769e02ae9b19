// Parses JSON from outside within limits. A first pass checks the document event by event and needs almost no
// memory. A tree is built only if the document is valid, holds one value, is not nested too deeply and repeats no
// key.
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

// InvalidArgument describes the text so that it can follow "is": "not JSON at byte 12, near ...", or "nested more
// than 32 deep". Comments, trailing commas, a second value and invalid UTF-8 are not JSON.
absl::StatusOr<nlohmann::json> ParseBoundedJson(std::string_view text, const JsonLimits& limits);

}  // namespace muster
