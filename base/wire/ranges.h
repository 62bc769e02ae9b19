// The range of every field of what agents and coordinators send each other. An admitted agent may send anything
// that protobuf can carry, and so may whatever answers at the coordinator's address. The cores count, add, store
// and print what they are sent, and rely on these limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster {

inline constexpr int kMaxNodes = 1'000'000;
inline constexpr int kMaxSlots = 65'536;                   // workers of one node
inline constexpr int kMaxCount = 1'000'000'000;            // of restarts, failures, losses
inline constexpr uint64_t kMaxNumber = uint64_t{1} << 62;  // of epochs and rounds
inline constexpr int kMaxExitCode = 255;
inline constexpr int kMaxSignal = 64;         // of Linux
inline constexpr int kMaxFailureAges = 1000;  // upper bound of --max-restarts with --restart-window
// Ages of lost nodes that are passed on to the next coordinator, the newest: they travel with each directive.
inline constexpr int kMaxLossAges = 1000;
inline constexpr size_t kMaxExcluded = 64;  // nodes excluded at the same time

inline constexpr int64_t kMaxAge = int64_t{100} * 366 * 24 * 3600 * 1000;  // milliseconds: a hundred years
inline constexpr int64_t kMaxShortText = 1024;  // bytes of a name, a version, an address or a hash
// Bytes of a text for people. A message has at most four times that.
inline constexpr int64_t kMaxLongText = 256 * 1024;
// Bytes of each text of a failure: twice what agents send.
inline constexpr int64_t kMaxFailureText = 8 * 1024;
inline constexpr int64_t kMaxFailuresSent = 16;  // failures in one message, beside its first; agents send 8
inline constexpr int64_t kMaxFactsSent = 1024;
// Events in one message: agents send half of that, coordinators 16.
inline constexpr int64_t kMaxEventsSent = 256;
inline constexpr int64_t kMaxAbsentSent = 16;  // nodes that one WAIT names; coordinators name 8
// Bytes of a whole failure, those within it included, and of a verdict. Agents send a quarter of that. The verdict
// that is made of them must fit into a message to every node, with a round and its exclusions; and an agent's
// status contains a verdict, a round, a failure of its own and the reason why its node cannot start. A message has
// at most 1 MiB (kMaxMessageBytes in rendezvous/transport).
inline constexpr size_t kMaxFailureBytes = 128 * 1024;
inline constexpr size_t kMaxVerdictBytes = 512 * 1024;
// Where the workers of a node stand: of one snapshot. Agents send half of that.
inline constexpr int64_t kMaxFramesSent = 64;   // of one worker
inline constexpr int64_t kMaxRanksSent = 1024;  // workers
inline constexpr int64_t kMaxStep = 1'000'000'000'000'000;
inline constexpr size_t kMaxSnapshotBytes = 64 * 1024;

// A field that is not set is 0 or empty, so each range contains that.
struct Range {
  int64_t least = 0;       // of a number
  int64_t most = 0;        // of a number; of a text: its length in bytes
  int64_t most_times = 1;  // of a list, how many it may hold
  bool is_limited = true;  // false: every value has a meaning, or the field has no bound of its own
};

// What the field's bound (proto/muster/v1/bounds.proto) means. Messages have none, but the fields in them, nor
// have enums and booleans, of which every value has a meaning or is refused by its name (admission.h).
Range RangeOf(const google::protobuf::FieldDescriptor& field);

// Describes the first field whose value no muster sends, "Round.node_count is -1, not 0 to 1000000", or the
// message that is larger than any of theirs; empty: there is none. The value of a text is not shown.
std::string OutOfRange(const v1::AgentStatus& status);
std::string OutOfRange(const v1::Directive& directive);

// An age, or a rest of time, as the fields of that kind take it. What others reported may have been at the end of
// the range already, and has grown since.
int64_t WireMilliseconds(absl::Duration time);

// Describes a contradiction within a round whose fields are in their ranges, as a clause; empty: there is none.
// Agents and coordinators check the same, since an agent would report to the next coordinator what it took from
// another one.
std::string WhyImpossible(const v1::Round& round);

}  // namespace muster
