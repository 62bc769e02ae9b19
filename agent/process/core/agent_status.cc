#include "agent/process/core/agent_status.h"

#include <algorithm>

#include "base/wire/ids.h"
#include "base/wire/ranges.h"

namespace muster::agent {
namespace {

void DescribeRound(const v1::HostStatus& host, v1::AgentStatus* status) {
  const v1::Memory& stored = host.memory();
  if (!IsSet(stored.last().id())) return;
  v1::Round* last = status->mutable_last();
  *last = stored.last();
  last->clear_loss_ages_ms();
  last->clear_failure_ages_ms();
  last->clear_excluded();
  if (last->has_primary_ended()) last->mutable_primary_ended()->clear_age_ms();
  status->set_outcome(StartedLast(host) ? host.outcome() : v1::OUTCOME_TOLD);
  if (!StartedLast(host)) return;
  status->set_progressed(host.progressed());
  if (host.has_snapshot()) *status->mutable_snapshot() = host.snapshot();
  if (host.has_stacks()) *status->mutable_stacks() = host.stacks();
  if (host.has_signalled()) *status->mutable_signalled() = host.signalled();
  if (host.has_failure()) *status->mutable_failure() = host.failure();
}

void AddAges(BootTime now, const v1::Memory& stored, v1::Round* last) {
  const absl::Duration since_told = now - FromBootNanos(stored.last_told_boot_ns());
  last->set_age_ms(WireMilliseconds(since_told));
  const auto later = [since_told](int64_t ms) { return WireMilliseconds(absl::Milliseconds(ms) + since_told); };
  for (const int64_t age : stored.last().loss_ages_ms()) last->add_loss_ages_ms(later(age));
  for (const int64_t age : stored.last().failure_ages_ms()) last->add_failure_ages_ms(later(age));
  *last->mutable_excluded() = stored.last().excluded();
  for (v1::Exclusion& exclusion : *last->mutable_excluded()) exclusion.set_left_ms(-later(-exclusion.left_ms()));
  if (last->has_primary_ended()) {
    const absl::Duration age = now - FromBootNanos(stored.primary_ended_boot_ns());
    last->mutable_primary_ended()->set_age_ms(WireMilliseconds(absl::Ceil(age, absl::Milliseconds(1))));
  }
}

}  // namespace

bool StartedLast(const v1::HostStatus& host) {
  return IsSet(host.started()) && Same(host.started(), host.memory().last().id());
}

v1::Phase PhaseOf(const v1::HostStatus& host, bool host_gone) {
  if (host_gone) return v1::PHASE_HOST_GONE;
  if (host.leave().signal() != 0) return v1::PHASE_LEAVING;
  const bool failed = host.outcome() == v1::OUTCOME_FAILED;
  const bool succeeded = host.outcome() == v1::OUTCOME_SUCCEEDED;
  switch (host.phase()) {
    case v1::HOST_PHASE_STUCK:
      return v1::PHASE_UNUSABLE;
    case v1::HOST_PHASE_STARTING:
      return v1::PHASE_STARTING;
    case v1::HOST_PHASE_RUNNING:
      return v1::PHASE_RUNNING;
    case v1::HOST_PHASE_STOPPING:
      if (failed) return v1::PHASE_FAILED;
      return succeeded ? v1::PHASE_RUNNING : v1::PHASE_STOPPING;  // sweeping up after the workers
    default:
      break;
  }
  const bool stopped = Compare(host.memory().stopped(), host.started()) >= 0;
  if (StartedLast(host) && !stopped && failed) return v1::PHASE_FAILED;
  if (StartedLast(host) && !stopped && succeeded) return v1::PHASE_SUCCEEDED;
  return host.unfit() ? v1::PHASE_UNUSABLE : v1::PHASE_READY;
}

v1::AgentStatus MakeStatus(const NodeRecord& node, const HostWatch& watch, const std::string& local_address,
                           const std::string& dead_predecessor) {
  const v1::NodeConfig& config = node.config;
  const v1::HostStatus& host = node.host;
  v1::AgentStatus status;
  status.set_protocol(kProtocol);
  status.set_run_id(config.run_id());
  status.set_host_id(host.host_id());
  status.set_hostname(config.hostname());
  status.set_version(config.version());
  *status.mutable_whereabouts() = config.whereabouts();
  status.set_role(config.role());
  if (config.has_place()) status.set_place(config.place());
  status.set_place_is_hint(config.place_is_hint());
  status.set_host_has_ended(watch.ending());
  status.set_at_primary(node.serves());
  status.set_min_nodes(config.min_nodes());
  status.set_max_nodes(config.max_nodes());
  status.set_slots(config.slots());
  status.set_role_name(config.role_name());
  status.set_watches_progress(config.watches_progress());
  if (config.has_cannot_start()) *status.mutable_cannot_start() = config.cannot_start();

  const v1::Memory& stored = host.memory();
  *status.mutable_epoch() = node.memory.epoch();
  *status.mutable_applied()->mutable_epoch() = stored.applied().epoch();
  status.set_phase(PhaseOf(host, watch.gone()));
  const bool alive = host.phase() != v1::HOST_PHASE_IDLE && !watch.gone();
  status.set_live_workers(alive ? std::max(1, host.workers_size()) : 0);
  DescribeRound(host, &status);
  if (host.offer_port() != 0) {
    std::string address = config.local_addr().empty() ? local_address : config.local_addr();
    if (address.empty() && (config.single_node() || config.loopback_only())) address = "127.0.0.1";
    status.mutable_offer()->set_host(address);
    status.mutable_offer()->set_port(host.offer_port());
  }
  if (stored.has_verdict()) *status.mutable_verdict() = stored.verdict();
  status.set_predecessor_dead(dead_predecessor);
  status.set_trouble(host.leave().reason().empty() ? host.trouble() : host.leave().reason());
  if (watch.gone()) status.set_how_host_ended(watch.how_ended());
  status.set_preparing(host.preparing());
  status.set_cancelled(host.leave().cancel());
  return status;
}

// What a STOP changes is included, though the status does not show it.
std::string DigestOf(const v1::AgentStatus& status, const v1::HostStatus& host) {
  return status.SerializeAsString() + host.memory().stopped().SerializeAsString();
}

void AddMoments(BootTime now, const NodeRecord& node, v1::AgentStatus* status) {
  const v1::HostStatus& host = node.host;
  const v1::Memory& stored = host.memory();
  *status->mutable_applied() = stored.applied();
  status->set_in_job_ms(absl::ToInt64Milliseconds(now - FromBootNanos(node.memory.joined_boot_ns())));
  if (node.memory.gathering_since_boot_ns() != 0) {
    status->set_gathering_ms(
        absl::ToInt64Milliseconds(now - FromBootNanos(node.memory.gathering_since_boot_ns())));
  }
  if (!IsSet(stored.last().id())) return;
  AddAges(now, stored, status->mutable_last());
  status->set_learned_silence_ms(host.learned_silence_ms());
  if (!StartedLast(host)) return;
  if (host.has_quiet_ms()) status->set_quiet_ms(host.quiet_ms());
  status->set_signs(host.signs());
  *status->mutable_step_rates() = host.step_rates();
  *status->mutable_touch_rates() = host.touch_rates();
  *status->mutable_steps() = host.steps();
  if (host.progress_boot_ns() != 0)
    status->set_progress_file_ms(WireMilliseconds(now - FromBootNanos(host.progress_boot_ns())));
  if (status->has_failure())
    status->mutable_failure()->set_age_ms(absl::ToInt64Milliseconds(now - FromBootNanos(host.failure_boot_ns())));
}

}  // namespace muster::agent
