// The bytes of a status as they have come from the network. A status of two or three bytes for each message within
// it would make the parser build hundreds of thousands of objects, so its fields are counted before it is parsed.
// Pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

// In one status: fields and elements of lists, also those of messages within it. A real one has at most some
// 3,000: the ages of lost nodes, and the exclusions, of a job of 1,000 nodes.
inline constexpr size_t kMaxStatusFields = 8'192;
inline constexpr int kMaxStatusNesting = 16;  // messages within messages; a real status has 4

// A status of another protocol is read for what all protocols have in common alone (StatusHead).
// ResourceExhausted: it has too many fields, or too deep messages. InvalidArgument: it is no status.
absl::StatusOr<v1::AgentStatus> ReadStatus(std::string_view bytes);

}  // namespace muster::rendezvous
