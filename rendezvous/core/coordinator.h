// The coordinator core: who is in the job, ranks, rounds, verdict.
//
// Pure: an event and the time in, effects out, to be carried out in the order given. No I/O, clock, thread or
// randomness of its own (the entropy is given). Lives on the loop thread of the process that holds it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/v1/rendezvous.pb.h"
#include "proto/base/note.h"
#include "proto/base/time.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kTick = absl::Milliseconds(100);  // OnTick is called at least this often

using StreamId = uint64_t;  // given by the shell, never 0, never used twice

// Effects.
struct SendDirective { StreamId stream = 0; v1::Directive directive; };
struct CloseStream { StreamId stream = 0; std::string reason; };
using Effect = std::variant<SendDirective, CloseStream, Note>;
using Effects = std::vector<Effect>;

struct CoordinatorOptions {
  std::string run_id;
  std::string version;
  int min_nodes = 1;
  int max_nodes = 1;
  std::vector<std::string> place_names;  // addresses by place; empty: places have no names
  int max_restarts = 0;
  int max_node_losses = 10;                           // within the window
  absl::Duration node_loss_window = absl::Hours(1);
  absl::Duration lease = absl::Seconds(10);           // zero: none (a single-node job)
  absl::Duration beat = absl::ZeroDuration();         // zero: chosen from the number of agents
  absl::Duration reconnect_grace = absl::Seconds(2);  // between a closed stream and a drain
  absl::Duration join_timeout = absl::Seconds(600);
  absl::Duration rejoin_timeout = absl::Seconds(1800);
  absl::Duration last_call = absl::Seconds(30);
  absl::Duration shutdown_grace = absl::Seconds(30);

  // Test-only: each plants one bug that the simulation must find. Empty in production.
  std::string planted_bug;
};

enum class State { kRecovering, kGathering, kRunning, kDraining, kVerdict, kReleasing, kDone };

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, BootTime now, uint64_t entropy);

  void OnStatus(BootTime now, StreamId stream, const v1::AgentStatus& status, Effects* out);
  void OnClosed(BootTime now, StreamId stream, Effects* out);
  void OnTick(BootTime now, Effects* out);

  State state() const;
};

}  // namespace muster::rendezvous
