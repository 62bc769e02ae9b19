// The coordinator's options, and the constants of its protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "base/wire/ranges.h"
#include "base/wire/takeover.h"

namespace muster::v1 {
class NodeConfig;
}

namespace muster::rendezvous {

inline constexpr absl::Duration kMinBeat = absl::Milliseconds(500);
inline constexpr int kBeatsPerSecond = 4000;  // from all agents together; beyond 2,000 agents the beat grows
// If events come later than this, this process itself was delayed, and it extends all deadlines.
inline constexpr absl::Duration kLateness = absl::Milliseconds(500);
// A long pause of this process delays the detection of lost hosts only if the last such pause is this long ago.
inline constexpr int kLeasesBetweenPauses = 10;
// From RUN to a status that has applied it: the host's limit of 60 s for starting workers, and a reserve.
inline constexpr absl::Duration kRunLimit = absl::Seconds(70);
// From the end of --shutdown-timeout to a node's word that its workers are gone, or that it has the verdict.
// An honest node needs far less, or reports that a process cannot be ended. One that sends heartbeats and nothing
// else is no longer waited for, once its lease, which is not renewed any more, has ended.
inline constexpr absl::Duration kStopLimit = absl::Minutes(2);
// The same for a node that was asked to leave: it may have --termination-grace or --stop-before of its own.
inline constexpr absl::Duration kLeaveLimit = absl::Hours(1);
// Time for nodes that are still starting to connect and hear why the job ends: because a node cannot start its
// program, or because the job was over before they connected.
inline constexpr absl::Duration kLatecomers = absl::Seconds(10);
inline constexpr absl::Duration kNoticeableWait = absl::Seconds(1);  // a longer wait is logged
inline constexpr absl::Duration kReleaseLimit = absl::Seconds(30);   // from RELEASE to the stream's close
inline constexpr absl::Duration kFarewellLimit = absl::Seconds(1);   // from a farewell to the last echo of it
inline constexpr absl::Duration kEchoWindow = absl::Seconds(1);      // an echo may come this long before its cause
inline constexpr absl::Duration kSameMoment = absl::Milliseconds(50);  // failures this close count as simultaneous
// Within this time all agents of the predecessor have reconnected: without a coordinator an agent tries at least
// twice in it.
inline constexpr absl::Duration kAgentsReturn = absl::Seconds(1);
// A separate coordinator that was asked to end serves nodes that run for that long: most likely they are asked to
// leave at about the same time.
inline constexpr absl::Duration kOthersAskedWithin = absl::Seconds(20);
// From a person's order to the last answer of the nodes that it is about.
inline constexpr absl::Duration kOrderAnswers = absl::Seconds(5);
inline constexpr int kMaxAbsentNamed = 8;
inline constexpr size_t kMaxLossesNamed = 8;    // simultaneous losses that are logged one by one; more are counted
inline constexpr int kMaxUnusableNamed = 3;     // in the reason for waiting; more are counted
inline constexpr size_t kMaxTroubleText = 512;  // bytes of what a node says of its state: why it is unusable, say
inline constexpr size_t kMaxForeignText = 128;  // bytes of a text from a node that may be a stranger
inline constexpr size_t kMaxRefusalsNamed = 3;  // refused nodes named in the reason for waiting
inline constexpr size_t kMaxRefusalsLogged = 64;  // of each kind (by token, by status), in kRefusalsLoggedAgain
inline constexpr absl::Duration kRefusalsLoggedAgain = absl::Minutes(10);
inline constexpr size_t kMaxRivalsTold = 64;  // logged nodes that claim a place which a live node holds
// The holder of a place is alive if it sends a status this long after another node claimed the place: by then a
// dead holder's last status has arrived.
inline constexpr absl::Duration kRivalAfter = absl::Seconds(1);
// Epoch and round numbers this far above its own are impossible for a coordinator that has a round: each is one
// restart, or one new coordinator.
inline constexpr uint64_t kMaxJump = uint64_t{1} << 20;
// With more hosts than this, decisions that are not urgent are made for many statuses at once, and at the earliest
// kDecisionSpacing times the number of hosts after the last decision: ten times what a decision costs.
inline constexpr size_t kManyHosts = 256;
inline constexpr absl::Duration kDecisionSpacing = absl::Microseconds(5);
inline constexpr size_t kMaxRememberedSends = 256;  // directives to one host whose sending time is kept

inline constexpr absl::Duration kFastFailure = absl::Minutes(1);  // a round that failed sooner failed fast
inline constexpr absl::Duration kMaxRestartDelay = absl::Minutes(1);
// Without a lease: time for the members of a running round to reconnect to a coordinator that was restarted.
inline constexpr absl::Duration kUnleasedReturn = absl::Seconds(10);
inline constexpr int kMaxIdleFailures = 3;  // restarts in a row without a touch of the progress file
// Without a progress file, a round that ran this long counts as progress.
inline constexpr absl::Duration kLongRound = absl::Minutes(5);

// What follows when a round does not go on (hang.h).
enum class OnHang {
  kRestart,  // within --max-restarts
  kStop,     // the job ends
  kReport,   // it is only said
};

// When new nodes join a running group of MIN:MAX nodes.
enum class ScaleUp {
  kImmediate,  // by a restart of the group, join_settle after the first new node is ready
  kOnRestart,  // at the next restart
  kNever,      // only as replacements of lost nodes
};

// Two machines' clocks may differ in rate by one part in this many.
inline constexpr int kClockError = 100;
inline constexpr absl::Duration kLeastMargin = absl::Seconds(1);  // of the coordinator's lease beyond the node's

struct CoordinatorOptions {
  std::string run_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int node_unit = 1;                           // the size of a round is a multiple of this; so are MIN and MAX
  std::vector<std::string> place_names;        // addresses by place; empty: places have no names
  bool run_id_may_repeat = false;              // the next job at this address may have the same one
  bool in_agent = false;                       // runs inside the primary's agent, whose own host attaches to it
  BootTime host_began = absl::InfinitePast();  // when that host was started
  int max_restarts = 0;
  int max_node_losses = 10;  // within the window
  absl::Duration node_loss_window = absl::Hours(1);
  absl::Duration restart_window = absl::InfiniteDuration();  // older failures do not count
  absl::Duration restart_delay = absl::ZeroDuration();  // after the second fast failure in a row; then doubled
  int max_membership_changes = 0;                       // in a row without progress; 0: unlimited
  int exclude_after = 0;  // rounds in a row with the same node as root cause; 0: never exclude
  absl::Duration exclude_for = absl::Hours(1);
  // Silence of all workers that is a hang; infinite: none is; nullopt: it is learned from the job.
  std::optional<absl::Duration> hang_timeout = absl::InfiniteDuration();
  std::optional<absl::Duration> start_timeout;  // the same before a round is warm; nullopt: see StallJudge
  OnHang on_hang = OnHang::kRestart;
  absl::Duration join_settle = absl::ZeroDuration();  // from the first new node's readiness to the restart for it
  ScaleUp scale_up = ScaleUp::kImmediate;
  absl::Duration lease = absl::Seconds(10);             // zero: none (a single-node job)
  absl::Duration beat = absl::ZeroDuration();           // heartbeat interval; zero: by the number of agents
  absl::Duration reconnect_grace = absl::Seconds(2);    // from a closed stream to a drain
  absl::Duration agents_return = absl::ZeroDuration();  // wait before a first round of nodes without places
  absl::Duration join_timeout = absl::Seconds(600);
  absl::Duration rejoin_timeout = absl::Seconds(1800);
  absl::Duration last_call = absl::Seconds(30);  // wait for more than MIN nodes, before the first round
  absl::Duration shutdown_grace = absl::Seconds(30);

  // Changed only by tests, to exercise deferred decisions with few hosts.
  size_t many_hosts = kManyHosts;
  absl::Duration decision_spacing = kDecisionSpacing;

  bool leased() const { return lease > absl::ZeroDuration(); }
  // How long a coordinator waits for the first node that joins.
  absl::Duration join_limit() const { return JoinLimit(join_timeout, lease); }
  bool fixed_size() const { return min_nodes == max_nodes; }
  // The coordinator lets a lease end this much later than the node itself does.
  absl::Duration margin() const { return leased() ? kLeastMargin + lease / kClockError : absl::ZeroDuration(); }
};

CoordinatorOptions OptionsFrom(const v1::NodeConfig& config);

}  // namespace muster::rendezvous
