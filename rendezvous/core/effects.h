// What the coordinator core asks its shell to do, in the given order.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/core/note.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

using StreamId = uint64_t;  // assigned by the shell; never 0, never reused

// Set in the ids of streams within the coordinator's own process, and in no other's: what the agent at its end
// says of this process is true.
inline constexpr StreamId kLocalStreamBit = StreamId{1} << 63;
inline bool IsLocal(StreamId stream) { return (stream & kLocalStreamBit) != 0; }

struct SendDirective {
  StreamId stream = 0;
  v1::Directive directive;
};
struct CloseStream {
  StreamId stream = 0;
  std::string reason;
};
// The agent of this stream was admitted: its first status counts. Comes before any directive for it.
struct AdmitStream {
  StreamId stream = 0;
};
using Effect = std::variant<SendDirective, CloseStream, AdmitStream, Note>;
using Effects = std::vector<Effect>;

}  // namespace muster::rendezvous
