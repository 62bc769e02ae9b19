// What a coordinator is started with, and the constants of its protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster::v1 {
class NodeConfig;
}

namespace muster::rendezvous {

inline constexpr absl::Duration kTick = absl::Milliseconds(100);  // OnTick is called at least this often
inline constexpr absl::Duration kMinBeat = absl::Milliseconds(500);
inline constexpr int kBeatsPerSecond = 4000;  // that all agents together may send: the beat grows beyond 2,000
inline constexpr absl::Duration kLateness = absl::Milliseconds(500);  // beyond it we were late ourselves
inline constexpr int kLeasesBetweenPauses = 10;  // of this process, after which nobody is taken for dead at once
inline constexpr absl::Duration kRunLimit = absl::Seconds(70);  // RUN to applied: the host's minute and a reserve
// For nodes that are still on their way, to hear why the job ends: of a node that cannot start, or of a job that
// was over before they came.
inline constexpr absl::Duration kLatecomers = absl::Seconds(10);
inline constexpr absl::Duration kNoticeableWait = absl::Seconds(1);  // a longer wait is logged
inline constexpr absl::Duration kReleaseLimit = absl::Seconds(30);   // RELEASE to the stream's close
inline constexpr absl::Duration kFarewellLimit = absl::Seconds(1);   // a coordinator's last word to its echoes
inline constexpr absl::Duration kEchoWindow = absl::Seconds(1);  // failures this soon before a loss are its echo
inline constexpr absl::Duration kSameMoment = absl::Milliseconds(50);  // within it a signal beats an exit code
// Within it whoever followed our predecessor is back: an agent without a coordinator tries at least twice in it.
inline constexpr absl::Duration kAgentsReturn = absl::Seconds(1);
inline constexpr int kMaxAbsentNamed = 8;
inline constexpr size_t kMaxLossesNamed =
    8;  // in the log, of members that are lost at one moment; more are counted
inline constexpr int kMaxUnusableNamed = 3;       // in the reason for waiting; more are counted
inline constexpr size_t kMaxTroubleText = 512;    // bytes of why a node is unusable
inline constexpr int kMaxOtherFailures = 8;       // in a verdict, beside the root cause; more are counted
inline constexpr size_t kMaxBriefText = 256;      // bytes of what each of them said
inline constexpr size_t kMaxForeignText = 128;    // bytes of a word of somebody who may be a stranger
inline constexpr size_t kMaxRefusalsNamed = 3;    // of nodes that were turned away while others wait for them
inline constexpr size_t kMaxRefusalsLogged = 64;  // in the life of a coordinator, with a token and without one
inline constexpr size_t kMaxRivalsTold = 64;      // nodes that claim a place which a living one holds
// A holder of a place that speaks so long after another node claimed it is alive: what a dead one said last is
// here.
inline constexpr absl::Duration kRivalAfter = absl::Seconds(1);
inline constexpr int kMaxNodes = 1'000'000;
inline constexpr int kMaxSlots = 65'536;                   // workers of one node
inline constexpr int kMaxCount = 1'000'000'000;            // of restarts, failures, losses
inline constexpr uint64_t kMaxNumber = uint64_t{1} << 62;  // of epochs and rounds
inline constexpr size_t kManyHosts = 256;  // beyond it what is no emergency is decided for many statuses at once
inline constexpr absl::Duration kDecisionSpacing =
    absl::Microseconds(5);                          // then, for each host: ten times its cost
inline constexpr size_t kMaxRememberedSends = 256;  // directives of one host whose sending time is known

inline constexpr absl::Duration kFastFailure =
    absl::Minutes(1);  // a round that failed sooner than this failed fast
inline constexpr absl::Duration kMaxRestartDelay = absl::Minutes(1);
// Without a lease: for the members of a running round to answer a coordinator that has just started.
inline constexpr absl::Duration kUnleasedReturn = absl::Seconds(10);
inline constexpr int kMaxIdleFailures = 3;  // restarts in a row without a touch of the progress file
inline constexpr absl::Duration kLongRound = absl::Minutes(5);  // is progress where no progress file is watched
inline constexpr int kMaxFailureAges = 1000;  // that are remembered: the bound of --max-restarts with a window
inline constexpr size_t kMaxExcluded = 64;    // nodes set aside at a time

// When nodes that come to a running group of MIN:MAX are taken in.
enum class ScaleUp {
  kImmediate,  // once the arrivals have settled: the group is restarted for them
  kOnRestart,  // with the next restart
  kNever,      // only in the place of nodes that were lost
};

struct CoordinatorOptions {
  std::string run_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int node_unit = 1;                     // a round has a multiple of so many nodes; MIN and MAX are such
  std::vector<std::string> place_names;  // addresses by place; empty: places have no names
  // The primary is the node that could listen: who finds the port taken when it starts is a member for good. So it
  // is let go as soon as its node has ended.
  bool primary_by_port = false;
  bool in_agent = false;  // a part of the primary's agent, whose own host attaches to it
  int max_restarts = 0;
  int max_node_losses = 10;  // within the window
  absl::Duration node_loss_window = absl::Hours(1);
  absl::Duration restart_window = absl::InfiniteDuration();  // failures before it are forgotten
  absl::Duration restart_delay = absl::ZeroDuration();       // of the second fast failure in a row; then doubled
  int max_membership_changes = 0;                            // in a row without progress; 0: any number
  int exclude_after = 0;                                     // failures in a row by one node; 0: never
  absl::Duration exclude_for = absl::Hours(1);
  absl::Duration join_settle = absl::ZeroDuration();  // from a new node's readiness to the restart for it
  ScaleUp scale_up = ScaleUp::kImmediate;
  absl::Duration lease = absl::Seconds(10);             // zero: none (a single-node job)
  absl::Duration beat = absl::ZeroDuration();           // zero: chosen from the number of agents
  absl::Duration reconnect_grace = absl::Seconds(2);    // between a closed stream and a drain
  absl::Duration agents_return = absl::ZeroDuration();  // before a first round of nodes without places
  absl::Duration join_timeout = absl::Seconds(600);
  absl::Duration rejoin_timeout = absl::Seconds(1800);
  absl::Duration last_call = absl::Seconds(30);  // after MIN is reached, for the first round
  absl::Duration shutdown_grace = absl::Seconds(30);

  // Set otherwise only by tests, so that deferred decisions are exercised by few hosts, too.
  size_t many_hosts = kManyHosts;
  absl::Duration decision_spacing = kDecisionSpacing;

  // Test-only: each plants one bug that the simulation must find. Empty in production.
  std::string planted_bug;

  bool planted(const char* bug) const { return planted_bug == bug; }

  bool leased() const { return lease > absl::ZeroDuration(); }
  bool fixed_size() const { return min_nodes == max_nodes; }
  // How much later than the node itself the coordinator takes a lease to end.
  absl::Duration margin() const { return leased() ? absl::Seconds(1) + lease / 100 : absl::ZeroDuration(); }
};

// As the first node's flags have it.
CoordinatorOptions OptionsFrom(const v1::NodeConfig& config);

}  // namespace muster::rendezvous
