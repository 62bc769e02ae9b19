// How long nodes wait for each other, and for workers to end.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/sources.h"
#include "base/text/duration.h"
#include "base/wire/takeover.h"
#include "cli/plan/parts.h"

namespace muster::cli {

absl::StatusOr<PlanLines> PlanTimes(const PlanInput& in, v1::NodeConfig* config) {
  using absl::ToInt64Milliseconds;
  const TimeSettings& s = in.settings.times;
  PlanLines plan;
  // The nodes of muster local start together, although they look like those of a platform.
  const absl::Duration of_platform = in.is_of_local() ? absl::ZeroDuration() : in.platform().join_timeout;
  config->set_join_timeout_ms(
      ToInt64Milliseconds(of_platform == absl::ZeroDuration()
                              ? plan.Pick("join-timeout", s.join_timeout, kJoinTimeout)
                              : plan.Pick("join-timeout", s.join_timeout, of_platform, {in.platform().label})));
  config->set_last_call_ms(ToInt64Milliseconds(plan.Pick("last-call-timeout", s.last_call_timeout,
                                                         in.membership.on_platform ? kPlatformLastCall : kLastCall,
                                                         {in.PlatformOrDefault()})));
  // Lost nodes and a lost primary are awaited for a shorter time where the platform replaces none.
  const discovery::Traits& source = discovery::TraitsOf(in.membership.view.source);
  const auto wait = [&](const char* name, const Given<absl::Duration>& given, absl::Duration otherwise) {
    return ToInt64Milliseconds(source.replaces_no_node ? plan.Pick(name, given, kNoReplacementWait, {source.label})
                                                       : plan.Pick(name, given, otherwise));
  };
  config->set_rejoin_timeout_ms(wait("rejoin-timeout", s.rejoin_timeout, kRejoinTimeout));
  config->set_coordinator_timeout_ms(wait("coordinator-timeout", s.coordinator_timeout, kCoordinatorTimeout));
  if (config->start_timeout_ms() != 0 && config->hang_timeout_ms() == 0) {
    plan.notes.emplace_back("--start-timeout has no effect, because --hang-timeout is off");
  }
  const absl::Duration lease = plan.Pick("lease", s.lease, muster::LeaseForNodes(in.membership.max_nodes));
  config->set_lease_ms(in.membership.single_node ? 0 : ToInt64Milliseconds(lease));
  // 0: the coordinator chooses.
  config->set_beat_ms(ToInt64Milliseconds(plan.Pick(
      "heartbeat-interval", s.heartbeat_interval, absl::ZeroDuration(), {.shown = "depends on the job's size"})));
  const absl::Duration grace =
      plan.Pick("reconnect-grace", s.reconnect_grace, std::min(kReconnectGrace, lease / 2));
  config->set_reconnect_grace_ms(ToInt64Milliseconds(grace));
  config->set_shutdown_grace_ms(ToInt64Milliseconds(plan.Pick("shutdown-timeout", s.shutdown_timeout)));
  if (s.heartbeat_interval && s.heartbeat_interval->value * kLeastBeatsPerLease > lease) {
    return Fault(*s.heartbeat_interval,
                 absl::StrCat("must be at most ", muster::FormatDuration(lease / kLeastBeatsPerLease), " (1/",
                              kLeastBeatsPerLease, " of --lease ", muster::FormatDuration(lease), ")"));
  }
  if (s.reconnect_grace && grace >= lease) {
    return Fault(*s.reconnect_grace, "must be less than --lease " + muster::FormatDuration(lease));
  }
  return plan;
}

}  // namespace muster::cli
