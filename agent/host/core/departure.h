// Why and when this node leaves the job: on a signal, on a notice of its machine's end, or before its deadline
// (--stop-before). Once begun a departure is never taken back; a second request makes it immediate. Pure.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "agent/host/core/effects.h"
#include "agent/host/core/host_options.h"
#include "base/core/one_signal.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr absl::Duration kLeastGrace = absl::Seconds(1);  // minimum grace period before a deadline
// Between the end of the workers and a deadline.
inline constexpr absl::Duration kDeadlineReserve = absl::Seconds(1);
// No round is started in this time before --stop-before takes effect, or in the time of --stop-before if shorter.
inline constexpr absl::Duration kMaxUselessRound = absl::Minutes(1);

// What asks the node to leave.
struct LeaveRequest {
  int signal = SIGTERM;                         // for the workers; SIGINT cancels the whole job
  std::string reason = "";                      // empty: the signal is the reason
  absl::Duration grace = absl::ZeroDuration();  // of the workers
};

class Departure {
 public:
  explicit Departure(std::optional<StopBefore> stop_before) : stop_before_(std::move(stop_before)) {}

  bool begun() const { return leave_.has_value(); }
  const v1::Leave* leave() const { return leave_ ? &*leave_ : nullptr; }

  // workers_have: until SIGKILL, for the message; nullopt: there are no workers.
  void Begin(BootTime now, const LeaveRequest& request, std::optional<absl::Duration> workers_have, Effects* out);
  // The grace period of a stop: what is left of the departure's own, or `otherwise` if none has begun.
  absl::Duration GraceOr(BootTime now, absl::Duration otherwise) const;

  // What a signal that asks the node to leave means.
  enum class Meaning { kLeave, kConfirmation, kStopNow };
  Meaning OnSignal(BootTime now, int signal, Effects* out);

  // Reads the wall clock, which may be set at any moment. The request of a deadline that has come; at most once.
  std::optional<LeaveRequest> OnWallClock(BootTime now, absl::Time wall);
  // The request instead of a round that could not run for long before the deadline. nullopt: there is time.
  std::optional<LeaveRequest> InsteadOfRound(BootTime now, bool first_round) const;

  struct Others {
    bool serves = false;         // other nodes use the coordinator on this node
    bool makes_verdict = false;  // this node is the primary
    absl::Duration shutdown_grace = absl::ZeroDuration();
  };
  // Whether the host stays although its workers have ended, because its agent may still need it: to report the
  // departure, or to serve other nodes. idle_since: when the workers had ended. begun() must hold.
  bool AwaitsAgent(BootTime now, BootTime idle_since, const Others& others, Effects* out);

  // The exit of a node that leaves; begun() must hold, but for ExitInsteadOf, which else returns `job`.
  // Exit: without an order of the agent. ExitInsteadOf: replaces the ordered exit. ExitNow: after a second signal.
  v1::Exit Exit() const;
  v1::Exit ExitInsteadOf(const v1::Exit& job) const;
  v1::Exit ExitNow(int signal) const;

 private:
  int exit_code() const;
  std::string Why() const;
  bool StaysForOthers(BootTime now, bool serves_others, Effects* out);

  const std::optional<StopBefore> stop_before_;
  std::optional<v1::Leave> leave_;
  // When the first signal that means leave came. A departure that a notice began has none: the platform's own
  // SIGTERM follows the notice, and is no second request.
  std::optional<BootTime> signalled_;
  BootTime stop_at_ = absl::InfiniteFuture();  // of --stop-before, by the latest reading of the wall clock
  BootTime begun_at_ = absl::InfinitePast();
  BootTime grace_ends_ = absl::InfinitePast();
  bool said_why_it_stays_ = false;
};

}  // namespace muster::host
