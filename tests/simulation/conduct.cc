#include "tests/simulation/conduct.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/text/duration.h"
#include "base/wire/ids.h"
#include "tests/simulation/cluster.h"

namespace muster::simulation {
namespace {

constexpr absl::Duration kRounding = absl::Milliseconds(500);  // of a time in a message
constexpr Micros kSlack = 700 * kMillisecond;                  // a heartbeat, ticks on both sides, a kill
constexpr Micros kOneBreath = 1200 * kMillisecond;  // over two heartbeats: a longer silence is an absence

Micros Longer(Micros time) { return time + time / 50; }
Micros Shorter(Micros time) { return time - time / 50; }
Micros ToMicros(absl::Duration time) { return absl::ToInt64Microseconds(time); }

bool RanSince(const Process& process, Micros when) { return process.runs() && process.runs_since <= when; }

}  // namespace

void Conduct::CheckAt(Micros after, std::function<void()> check) {
  env_->scheduler().After(after, [this, check = std::move(check)] {
    if (!invariants_->violated()) check();
  });
}

// ---- time

void Conduct::OnFreeze(const Process& process) {
  if (scenario_.limits.lease == 0 || process.frozen != 1) return;
  for (const auto& host : cluster_->hosts()) {
    if (host.get() == &process) CheckSilentHost(host.get());
    if (host->agent == &process) CheckSilentAgent(host->agent);
  }
}

// After half a lease an agent ends a silent host with all of its workers.
void Conduct::CheckSilentHost(HostProcess* host) {
  AgentProcess* agent = host->agent;
  const Micros since = env_->now();
  if (agent == nullptr || !agent->runs() || !agent->core.configured()) return;
  CheckAt(Longer(scenario_.limits.lease / 2) + kSlack, [this, host, agent, since] {
    const bool silent = host->alive && host->frozen > 0 && host->frozen_since <= since && host->agent == agent;
    if (!silent || !RanSince(*agent, since) || agent->core.finished()) return;
    Fail(9,
         absl::StrCat(host->id(), " has been silent for more than half a lease, and its agent has not ended it"));
  });
}

// A silent agent is replaced, and the workers are stopped because nobody renews their lease. Before its first
// message an agent has more time: it may be looking up the primary's name.
void Conduct::CheckSilentAgent(AgentProcess* agent) {
  HostProcess* host = agent->host;
  const Micros since = env_->now();
  if (!host->runs()) return;
  const Micros first_word = agent->has_spoken ? 0 : ToMicros(host::kFirstWordLimit);
  CheckAt(Longer(std::max(scenario_.limits.lease / 2, first_word)) + kSlack, [this, host, agent, since] {
    const bool silent = agent->alive && agent->frozen > 0 && agent->frozen_since <= since;
    if (!silent || !RanSince(*host, since) || host->finish.has_value()) return;
    // In a container of its own the next agent comes when its sidecar has seen the end of this one.
    if (host->agent == agent && (host->link_open || !host->split())) {
      return Fail(9,
                  absl::StrCat(agent->name, " has been silent for more than half a lease, and is not replaced"));
    }
    for (const WorkerProcess* worker : host->workers) {
      if (worker->dead || worker->signalled || worker->spawned_at > since) continue;
      return Fail(9, absl::StrCat(host->id(), " has replaced a silent agent, and its workers run on"));
    }
  });
}

void Conduct::OnSpawn(HostProcess* host) {
  const Micros since = env_->now();
  for (WorkerProcess* worker : host->workers) worker->spawned_at = since;
  CheckAt(Longer(ToMicros(host::kStartLimit)) + kSlack, [this, host, since] {
    if (!RanSince(*host, since)) return;
    for (const WorkerProcess* worker : host->workers) {
      if (worker->dead || worker->executing || worker->signalled || worker->spawned_at != since) continue;
      return Fail(9, absl::StrCat(host->id(), ":", worker->local_rank,
                                  " has not started within a minute, and its ", "start has not failed"));
    }
  });
}

// SIGKILL follows the first signal within the longest grace of the job. A node may be asked to leave while the
// coordinator's order stops its workers.
void Conduct::OnSignal(HostProcess* host) {
  const Micros since = env_->now();
  const Micros before_deadline = scenario_.deadline.stop_before > 0 ? ToMicros(host::kLeastGrace) : 0;
  const Micros grace =
      scenario_.limits.shutdown_grace +
      std::max({scenario_.limits.termination_grace, scenario_.deadline.stop_before, before_deadline});
  CheckAt(Longer(grace) + kSlack, [this, host, since] {
    if (!RanSince(*host, since)) return;
    for (const WorkerProcess* worker : host->workers) {
      if (worker->dead || worker->kill_pending || worker->spawned_at > since) continue;
      return Fail(9, absl::StrCat(host->id(), ":", worker->local_rank, " was told to end, and lives beyond its ",
                                  "grace"));
    }
  });
}

// An agent that has swept its dead host reports to the coordinator and exits. The primary's agent contains the
// coordinator, which keeps it only for the farewell.
void Conduct::OnSwept(AgentProcess* agent) {
  const Micros since = env_->now();
  const bool at_primary =
      agent->home != nullptr && agent->session != nullptr && agent->session->home == agent->home;
  const Micros limit = ToMicros(at_primary ? rendezvous::kFarewellLimit : agent::kGoneLimit);
  CheckAt(Longer(limit) + kSlack, [this, agent, since, at_primary] {
    if (!RanSince(*agent, since) || agent->core.finished()) return;
    Fail(9, absl::StrCat(agent->name, at_primary ? ", the coordinator's," : "",
                         " outlives its host for longer than it may"));
  });
}

void Conduct::OnLine(const HostProcess& host, const Note& note) {
  const std::string_view event = note.subject.event;
  const BootTime now = host.machine->BootAt(env_->now());
  const auto promise = promised_.find(host.id());
  if (event == events::kLeaseEnded) lease_ended_.insert(host.id());
  if (event == events::kLeaving) {
    OnPromise(host, note);
  } else if (promise == promised_.end()) {
    return;
  } else if (absl::StartsWith(note.text, "second request to stop")) {
    promised_.erase(promise);
  } else if (event == events::kLeaseEnded) {
    // That of the primary needs the answers of another node, too, also while its agent is being replaced. A
    // coordinator that misses a member, or did until lately, cuts the time short.
    const bool is_primary = host.place == 0 && !scenario_.job.coordinator_alone;
    const bool serves = is_primary || (host.agent != nullptr && host.agent->home != nullptr);
    const auto missed_at = missed_one_at_.find(host.id());
    const bool missed_one =
        missed_at != missed_one_at_.end() && env_->now() - missed_at->second <= scenario_.limits.lease;
    if (IsAnswered(host) && !serves && !missed_one)
      Fail(11, absl::StrCat(host.id(), " is answered while it leaves, and its lease ends"));
    promised_.erase(promise);
  } else if (event == events::kWorkersKilled && now + kRounding < promise->second) {
    Fail(11, absl::StrCat(host.id(), " ends its workers ", absl::FormatDuration(promise->second - now),
                          " before the time that its log promised"));
  }
}

// "...; the workers have 25s to exit".
void Conduct::OnPromise(const HostProcess& host, const Note& note) {
  constexpr std::string_view kBefore = "; the workers have ";
  const size_t at = note.text.find(kBefore);
  if (at == std::string::npos) return;
  const size_t from = at + kBefore.size();
  const auto time = muster::ParseDuration(note.text.substr(from, note.text.find(' ', from) - from));
  if (!time.ok()) return Fail(11, absl::StrCat(host.id(), " promises no time: ", note.text));
  promised_[host.id()] = host.machine->BootAt(env_->now()) + *time;
  absl::Duration wanted = absl::Microseconds(scenario_.limits.termination_grace);
  if (host.options.stop_before) {
    const absl::Duration left = host.options.stop_before->deadline - host.machine->WallAt(env_->now());
    wanted = std::min(wanted, std::max(left - host::kDeadlineReserve, host::kLeastGrace));
  }
  const bool stopped_itself = host.fate.agents_struck > 0 || host.split() || host.contact.stopped_itself ||
                              lease_ended_.contains(host.id());
  if (*time + kRounding >= wanted || stopped_itself) return;
  Fail(11, absl::StrCat(host.id(), " promises ", absl::FormatDuration(*time), " instead of ",
                        absl::FormatDuration(wanted)));
}

// A node of the primary's machine that may serve does, as soon as the port there is free. Exempt are names that
// lead elsewhere for a time.
void Conduct::CheckSomebodyServes(const AgentProcess& agent) {
  Machine* const machine = agent.machine;
  const auto& detours = scenario_.detours;
  const bool may_lead_elsewhere =
      detours.another_job_percent + detours.refused_streams_percent + detours.stale_names_percent > 0;
  const HostProcess& host = *agent.host;
  const bool is_meant = machine == cluster_->NamedMachine() && agent.core.configured() && agent.alive &&
                        agent.core.config().serves() != v1::NodeConfig::SERVES_NO;
  const bool leaves = !host.alive || host.finish.has_value() || host.fate.asked_to_leave ||
                      host.fate.asked_to_cancel || host.memory.has_verdict() || host.fate.gave_up_port;
  if (scenario_.limits.lease == 0 || may_lead_elsewhere || !is_meant || leaves) return;
  const bool served = cluster_->HomeOn(machine) != nullptr || cluster_->CandidateOn(machine) != nullptr ||
                      cluster_->PortKeeperOn(machine) != nullptr;
  if (served) machine->served_at = env_->now();
  const Micros since = std::max({machine->served_at, machine->port_taken_until, agent.runs_since, host.born});
  const Micros limit =
      ToMicros(agent::kConnectLimit + absl::Seconds(1) + agent::kMaxReconnectDelay * 4 / 3) + kSlack;
  if (env_->now() <= since + Longer(limit)) return;
  Fail(9, absl::StrCat("nobody has served on m", machine->id, " for ", (env_->now() - since) / kMillisecond,
                       " ms, where ", host.id(), " may"));
}

// A connection that delivers nothing for half a lease is replaced by another one.
void Conduct::AfterAgentTick(const AgentProcess& agent) {
  CheckSomebodyServes(agent);
  if (scenario_.limits.lease == 0 || agent.session == nullptr || agent.swept || !agent.alive) return;
  const Micros heard = std::max({agent.contact.connected_at, agent.contact.answered_at, agent.runs_since});
  if (env_->now() < heard + Longer(scenario_.limits.lease / 2) + kSlack) return;
  Fail(9, absl::StrCat(agent.name, " has heard nothing for ", (env_->now() - heard) / kMillisecond,
                       " ms, and keeps its connection"));
}

// ---- leases

void Conduct::OnAnswer(HostProcess* host, Micros sent) {
  const Micros now = env_->now();
  if (now > host->contact.answered_at + kOneBreath) host->contact.answered_since = now;
  host->contact.answered_at = now;
  host->contact.answered_for = std::max(host->contact.answered_for, sent);
}

// An answer to a node that runs the current round extends its lease; a node in any other round gets a STOP. A
// verdict ends all rounds. The primary's own lease depends on the other members, which may be away.
void Conduct::OnLeaseEnded(const HostProcess& host) {
  const bool all_done = std::all_of(host.workers.begin(), host.workers.end(),
                                    [](const WorkerProcess* worker) { return worker->succeeded; });
  if (all_done && !host.workers.empty()) {
    return Fail(10, absl::StrCat(host.id(), " lets its lease end a round in which all its workers had exited 0"));
  }
  const bool serves = host.place == 0 && !scenario_.job.coordinator_alone;
  if (serves || host.fate.zombie || invariants_->verdict_announced()) return;
  const AgentProcess* agent = host.agent;
  if (agent == nullptr || agent->session == nullptr) return;
  // A coordinator that has just learned of a later round waits for its members; every other round ends meanwhile.
  if (!Same(agent->session->home->core.greatest().id(), host.core.started())) return;
  if (!IsAnswered(host)) return;
  Fail(10, absl::StrCat(host.id(), " lets its lease end, though it has been answered for ",
                        (env_->now() - host.contact.answered_since) / kMillisecond, " ms"));
}

// For long, and for a status that it has sent lately.
bool Conduct::IsAnswered(const HostProcess& host) const {
  const Micros now = env_->now();
  return now > host.contact.answered_since + 2 * kOneBreath && now < host.contact.answered_at + kOneBreath &&
         now <= host.contact.answered_for + scenario_.limits.lease / 2;
}

// ---- the end

void Conduct::OnStatus(const Session& session, const v1::AgentStatus& status) {
  if (status.cancelled()) cancelled_.insert(session.home->id);
  if (session.home->core.job().MembersUnseen() > 0) missed_one_at_[status.host_id()] = env_->now();
  if (status.phase() == v1::PHASE_SUCCEEDED) succeeded_[status.host_id()] = KeyOf(status.last().id());
  attended_[session.home->id][status.host_id()] = env_->now();
}

void Conduct::AfterStatus(const Session& session, const v1::AgentStatus& status) {
  const rendezvous::Coordinator& core = session.home->core;
  const bool lossy = scenario_.network.lossy();
  const bool newest = session.agent->host->agent == session.agent && session.coordinator_open && !lossy;
  const bool member = status.last().has_node_rank() && Same(status.last().id(), core.greatest().id());
  if (!newest || !member || core.state() != rendezvous::State::kRunning) return;
  // A node with an unkillable process, or one that leaves, has succeeded if its workers have.
  const bool cannot_go_on = status.phase() == v1::PHASE_UNUSABLE || status.phase() == v1::PHASE_LEAVING;
  const bool ends_it =
      status.phase() == v1::PHASE_FAILED || (cannot_go_on && status.outcome() != v1::OUTCOME_SUCCEEDED);
  if (!ends_it || succeeded_[status.host_id()] == KeyOf(status.last().id())) return;
  Fail(10, absl::StrCat(status.host_id(), " is ", muster::ToString(status.phase()), ", and round ",
                        muster::ToString(status.last().id()), " goes on"));
}

// Nodes that are still coming must hear why the job ends, and may know of a round.
void Conduct::OnVerdict(const CoordinatorHome& home, const v1::Verdict& verdict) {
  if (std::exchange(verdict_told_, true)) return;  // perhaps by another coordinator
  if (absl::StrContains(verdict.reason(), " node loss") && losses_ < scenario_.policy.max_node_losses) {
    return Fail(10, absl::StrCat("coordinator ", home.id, " ends the job after ", losses_ + 1,
                                 " losses of nodes; --max-node-losses is ", scenario_.policy.max_node_losses));
  }
  if (!verdict.root_cause().error_text().empty() && verdict.exit_code() == kExitNotFound &&
      static_cast<int>(attended_[home.id].size()) < scenario_.job.max_nodes &&
      env_->now() < home.born + Shorter(ToMicros(rendezvous::kLatecomers))) {
    Fail(10, absl::StrCat("coordinator ", home.id, " ends the job for a node that cannot start after ",
                          (env_->now() - home.born) / kMillisecond, " ms, though more may come"));
  }
}

void Conduct::OnNewRound(const CoordinatorHome& home, const v1::Round& round) {
  losses_ = std::max(losses_, round.loss_ages_ms_size());  // forgotten ones may be learned again
  if (home.core.job().asked_to_end_at) {
    Fail(10, absl::StrCat("coordinator ", home.id, " makes a round after it was asked to end"));
  }
  if (cancelled_.count(home.id) == 0) return;
  Fail(10, absl::StrCat("coordinator ", home.id, " makes round ", muster::ToString(round.id()),
                        " after it has heard of a Ctrl-C"));
}

// A node that has acknowledged the verdict and is not released finds no coordinator once the primary has gone.
void Conduct::OnFinish(const HostProcess& host, const host::Finish& finish) {
  const bool serves = host.place == 0 && !scenario_.job.coordinator_alone && !host.fate.zombie;
  if (!serves || !finish.verdict.has_value() || host.fate.asked_to_leave || host.fate.asked_to_cancel) return;
  const AgentProcess* agent = host.agent;
  if (agent == nullptr || agent->home == nullptr || agent->home->releasing_since < 0) return;
  const CoordinatorHome& home = *agent->home;
  const Micros limit = Shorter(ToMicros(rendezvous::kReleaseLimit)) - kSlack;
  if (env_->now() > home.releasing_since + limit) return;
  for (const auto& other : cluster_->hosts()) {
    const bool there = other->alive && !other->fate.zombie && !other->finish.has_value() && other.get() != &host;
    if (!there || other->fate.released || other->contact.heard_by != home.id || other->fate.asked_to_leave)
      continue;
    if (env_->now() > other->contact.last_status_at + Shorter(scenario_.limits.reconnect_grace)) continue;
    Fail(10, absl::StrCat(host.id(), ", the primary, goes before ", other->id(), " was released"));
  }
}

}  // namespace muster::simulation
