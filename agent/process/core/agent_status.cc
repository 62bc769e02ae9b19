// Builds the status for the coordinator. What it reports of rounds, orders and the verdict is read from the memory
// that the host has stored, not from this agent's own copy, so the host has confirmed all of it.
#include "agent/process/core/agent_core.h"
#include "agent/process/core/container_end.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"

namespace muster::agent {

void AgentCore::TellCoordinator(BootTime now, Effects* out) {
  // While it is open whether the host in another container has ended, nothing can be said of it.
  const bool open = config_.split() && host_watch_.link_closed() && !host_watch_.gone();
  if (!link_.up() || open) return;
  v1::AgentStatus status = MakeStatus();
  const std::string digest = Digest(status);
  AddMoments(now, &status);
  AddForThisSession(now, &status);
  sent_.Stamp(now, host_.agent_number(), digest, &status);
  out->push_back(SendToCoordinator{std::move(status)});
}

// Adds what the coordinator needs once in a session: to every status until a directive of this session has
// arrived.
void AgentCore::AddForThisSession(BootTime now, v1::AgentStatus* status) const {
  if (host_watch_.gone()) status->set_host_gone_ms(absl::ToInt64Milliseconds(host_watch_.EndedAgo(now)));
  if (sent_.SessionIsSeen()) return;
  *status->mutable_facts() = config_.facts();
  status->set_connect_ms(WireMilliseconds(absl::Ceil(link_.setup_time(), absl::Milliseconds(1))));
  const BootTime verdict_at = FromBootNanos(host_.memory().verdict_boot_ns());
  if (host_.memory().has_verdict()) status->set_verdict_age_ms(WireMilliseconds(now - verdict_at));
  if (IsSet(newest_.epoch()))
    status->set_coordinator_silent_ms(absl::ToInt64Milliseconds(now - link_.last_contact()));
}

void AgentCore::TellIfChanged(BootTime now, Effects* out) {
  if (link_.up() && Digest(MakeStatus()) != sent_.last_digest()) TellCoordinator(now, out);
}

// Everything whose change is worth sending at once. What changes with time alone, and with each answer to a
// status, is added by AddMoments.
v1::AgentStatus AgentCore::MakeStatus() const {
  v1::AgentStatus status;
  status.set_protocol(kProtocol);
  status.set_run_id(config_.run_id());
  status.set_host_id(host_.host_id());
  status.set_hostname(config_.hostname());
  status.set_version(config_.version());
  *status.mutable_whereabouts() = config_.whereabouts();
  status.set_role(config_.role());
  if (config_.has_place()) status.set_place(config_.place());
  status.set_place_is_hint(config_.place_is_hint());
  status.set_host_has_ended(host_watch_.ending());
  status.set_at_primary(memory_.served());
  status.set_min_nodes(config_.min_nodes());
  status.set_max_nodes(config_.max_nodes());
  status.set_slots(config_.slots());
  status.set_role_name(config_.role_name());
  status.set_watches_progress(config_.watches_progress());
  if (config_.has_cannot_start()) *status.mutable_cannot_start() = config_.cannot_start();

  const v1::Memory& stored = host_.memory();
  *status.mutable_epoch() = memory_.epoch();
  *status.mutable_applied()->mutable_epoch() = stored.applied().epoch();
  status.set_phase(PhaseOf(host_, host_watch_.gone()));
  const bool alive = host_.phase() != v1::HOST_PHASE_IDLE && !host_watch_.gone();
  status.set_live_workers(alive ? std::max(1, host_.workers_size()) : 0);
  DescribeRound(&status);
  if (host_.offer_port() != 0) {
    std::string host = config_.local_addr().empty() ? local_address_ : config_.local_addr();
    if (host.empty() && (config_.single_node() || config_.loopback_only())) host = "127.0.0.1";
    if (!host.empty()) {
      status.mutable_offer()->set_host(host);
      status.mutable_offer()->set_port(host_.offer_port());
    }
  }
  if (stored.has_verdict()) *status.mutable_verdict() = stored.verdict();
  status.set_predecessor_dead(probe_.dead());
  status.set_trouble(host_.leave().reason().empty() ? host_.trouble() : host_.leave().reason());
  if (host_watch_.gone()) status.set_how_host_ended(how_host_ended_);
  status.set_preparing(host_.preparing());
  status.set_cancelled(host_.leave().cancel());
  return status;
}

void AgentCore::DescribeRound(v1::AgentStatus* status) const {
  const v1::Memory& stored = host_.memory();
  if (!IsSet(stored.last().id())) return;
  v1::Round* last = status->mutable_last();
  *last = stored.last();
  last->clear_loss_ages_ms();
  last->clear_failure_ages_ms();
  last->clear_excluded();
  if (last->has_primary_ended()) last->mutable_primary_ended()->clear_age_ms();
  status->set_outcome(StartedLast(host_) ? host_.outcome() : v1::OUTCOME_TOLD);
  if (!StartedLast(host_)) return;
  status->set_progressed(host_.progressed());
  if (host_.has_snapshot()) *status->mutable_snapshot() = host_.snapshot();
  if (host_.has_failure()) *status->mutable_failure() = host_.failure();
}

void AgentCore::AddMoments(BootTime now, v1::AgentStatus* status) const {
  const v1::Memory& stored = host_.memory();
  *status->mutable_applied() = stored.applied();
  status->set_in_job_ms(absl::ToInt64Milliseconds(now - FromBootNanos(memory_.joined_boot_ns())));
  if (memory_.gathering_since_boot_ns() != 0) {
    status->set_gathering_ms(absl::ToInt64Milliseconds(now - FromBootNanos(memory_.gathering_since_boot_ns())));
  }
  if (!IsSet(stored.last().id())) return;
  AddAges(now, status->mutable_last());
  status->set_learned_silence_ms(host_.learned_silence_ms());
  if (!StartedLast(host_)) return;
  if (host_.has_quiet_ms()) status->set_quiet_ms(host_.quiet_ms());
  status->set_signs(host_.signs());
  *status->mutable_step_rates() = host_.step_rates();
  *status->mutable_touch_rates() = host_.touch_rates();
  if (status->has_failure())
    status->mutable_failure()->set_age_ms(absl::ToInt64Milliseconds(now - FromBootNanos(host_.failure_boot_ns())));
}

void AgentCore::AddAges(BootTime now, v1::Round* last) const {
  const v1::Memory& stored = host_.memory();
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

// A status with another digest has news. What a STOP changes is included, though the status does not show it.
std::string AgentCore::Digest(const v1::AgentStatus& status) const {
  return status.SerializeAsString() + host_.memory().stopped().SerializeAsString();
}

}  // namespace muster::agent
