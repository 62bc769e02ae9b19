#include "tests/simulation/agent_shell.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "tests/simulation/delays.h"

namespace muster::simulation {
namespace {

constexpr Micros kKillDelay = 500;
constexpr Micros kProbeMax = 20 * kMillisecond;
constexpr Micros kOpenMax = 20 * kMillisecond;
constexpr Micros kPortRetry = 50 * kMillisecond;
constexpr Micros kNoticeAskedEvery = kSecond;

}  // namespace

void AgentShell::Drive(AgentProcess* agent) {
  agent->on_tick = [this, agent] { Tick(agent); };
  agent->on_freeze = [this, agent] { workers_->ExemptOrphans(*agent->host); };
  agent->after_event = [this, agent] { MaybeOpenHome(agent); };
  // What is left to do when an agent dies in the middle of its effects is not done.
  agent->driver.emplace(&agent->core, agent::AgentDriver::Shell{
                                          .clock = [this, agent] { return agent->machine->BootAt(env_->now()); },
                                          .carry_out =
                                              [this, agent](const agent::Effect& effect) {
                                                if (agent->alive) CarryOut(agent, effect);
                                              },
                                          .log =
                                              [this, agent](const muster::Note& note) {
                                                if (!agent->alive) return;
                                                env_->Note("agent", absl::StrCat(agent->name, ": ", note.text));
                                              }});
}

void AgentShell::Tick(AgentProcess* agent) {
  if (agent->home != nullptr)
    agent->home->Tick(env_->scenario().people_ask, env_->scenario().people_order);  // first, as in the process
  const bool others = agent->home != nullptr && agent->home->ServesOthers();
  agent->Feed(&agent::AgentCore::OnServesOthers, others);
  agent->Feed(&agent::AgentCore::OnTick);
  checks_->conduct.AfterAgentTick(*agent);
}

void AgentShell::CarryOut(AgentProcess* agent, const agent::Effect& effect) {
  if (std::holds_alternative<agent::ClaimPort>(effect)) {
    const bool used = HolderOfPort(*agent).has_value();
    if (!used) agent->machine->candidate = agent;
    return agent->Feed(&agent::AgentCore::OnPortClaimed, used);
  }
  if (std::holds_alternative<agent::FreePort>(effect)) {
    agent->machine->candidate = nullptr;
    return;
  }
  if (const auto* e = std::get_if<agent::SendToCoordinator>(&effect)) {
    if (agent->session != nullptr) network_->SendUp(agent->session, e->status);
  } else if (const auto* e = std::get_if<agent::SendToHost>(&effect)) {
    SendToHost(agent, e->directive);
  } else if (std::holds_alternative<agent::Connect>(effect)) {
    network_->Connect(agent);
  } else if (std::holds_alternative<agent::Disconnect>(effect)) {
    ++agent->attempt;
    if (agent->session != nullptr) network_->CloseAgentEnd(agent->session);
    agent->session = nullptr;
  } else if (const auto* e = std::get_if<agent::EndHost>(&effect)) {
    EndHost(agent, e->kill_first);
  } else if (const auto* e = std::get_if<agent::Probe>(&effect)) {
    ProbePredecessor(agent, e->process);
  } else if (const auto* e = std::get_if<agent::ExitAgent>(&effect)) {
    ExitAgent(agent, absl::StrCat("exits ", e->exit_code, ": ", e->reason));
  }
}

void AgentShell::SendToHost(AgentProcess* agent, const v1::HostDirective& to_host) {
  HostProcess* host = agent->host;
  const Micros answered_for = agent->contact.answered_for;
  Micros& silence = host->contact.silence_before_exit;
  if (to_host.has_exit() && silence < 0)
    silence = env_->now() - std::max(host->born, host->contact.last_directive);
  execution_->DeliverAfter(kLinkDelay, host, [this, agent, host, answered_for, directive = to_host] {
    // The link may still hold messages of an older agent; the core drops them.
    const bool newest = host->agent == agent;
    if (newest && !host->link_open) return;
    agent->has_spoken = true;
    if (newest && directive.has_memory()) host->memory = directive.memory();
    if (newest && answered_for > host->contact.answered_for) checks_->conduct.OnAnswer(host, answered_for);
    if (host->memory.has_verdict()) checks_->invariants.OnVerdictStored(*host, host->memory.verdict());
    workers_->CollectEnded(host);
    host->Feed(&host::HostCore::OnDirective, directive);
  });
}

void AgentShell::ExitAgent(AgentProcess* agent, const std::string& why) {
  env_->Note("agent", absl::StrCat(agent->name, " ", why));
  deaths_->KillAgent(agent);
}

// A machine announces its end to each of its agents, with a delay; an agent asks once it has its configuration.
void AgentShell::Notice(AgentProcess* agent) {
  execution_->DeliverAfter(env_->prng().Between(0, kNoticeAskedEvery), agent, [this, agent] {
    if (!agent->core.configured()) return Notice(agent);
    agent->Feed(&agent::AgentCore::OnNotice, "its machine is about to go");
  });
}

// ---- ending a dead or silent host

void AgentShell::EndHost(AgentProcess* agent, bool kill_first) {
  env_->Note("agent",
             absl::StrCat(agent->name, " ends everything of its host", kill_first ? ", which is silent" : ""));
  if (agent->home != nullptr) agent->home->listens = false;
  HostProcess* host = agent->host;
  env_->scheduler().After(kKillDelay, [this, agent, host, kill_first] {
    if (kill_first) deaths_->KillHost(host);
    WaitUntilSwept(agent);
  });
}

void AgentShell::WaitUntilSwept(AgentProcess* agent) {
  if (!agent->alive) return;
  if (!agent->host->alive) {
    sweeps_->ForkOnceMore(agent->host);
    sweeps_->KillMarked(agent->host, kMillisecond);
  }
  const bool done = !agent->host->AnythingAlive();
  execution_->DeliverAfter(env_->prng().Between(kMillisecond, 10 * kMillisecond), agent, [this, agent, done] {
    if (!done) return WaitUntilSwept(agent);
    if (!env_->healed() && scenario_.troubles.not_swept_percent > 0 &&
        env_->hardships().Chance(scenario_.troubles.not_swept_percent)) {
      return agent->Feed(&agent::AgentCore::OnHostNotSwept, "pid 7");
    }
    agent->swept = true;
    checks_->conduct.OnSwept(agent);
    agent->Feed(&agent::AgentCore::OnHostSwept);
  });
}

// Evidence of this machine about another host on it. Processes of other machines are invisible, so never "dead".
void AgentShell::ProbePredecessor(AgentProcess* agent, const std::string& process) {
  execution_->DeliverAfter(env_->prng().Between(kMillisecond, kProbeMax), agent, [this, agent, process] {
    bool dead = false;
    for (const auto& host : cluster_->hosts()) {
      const bool is_here = host->machine == agent->machine && host->machine->boot_id == agent->machine->boot_id;
      if (host->id() != process || !is_here) continue;
      dead = !host->AnythingAlive();
      if (!host->alive) sweeps_->KillMarked(host.get(), kMillisecond);
    }
    env_->Note("agent", absl::StrCat(agent->name, " probes ", process, ": ", dead ? "dead" : "not proved dead"));
    agent->Feed(&agent::AgentCore::OnProbed, process, dead);
  });
}

// ---- the coordinator in the primary's agent

void AgentShell::MaybeOpenHome(AgentProcess* agent) {
  if (agent->home_planned || !agent->core.configured()) return;
  if (!agent->core.memory().served()) return;
  agent->home_planned = true;
  execution_->DeliverAfter(env_->prng().Between(kMillisecond, kOpenMax), agent,
                           [this, agent] { OpenHome(agent); });
}

void AgentShell::OpenHome(AgentProcess* agent) {
  std::optional<PortHolder> holder = HolderOfPort(*agent);
  if (!holder) {
    agent->home = coordinator_shell_->Open(agent, agent->host, agent->core.config());
    agent->host->keeps_port = !agent->host->split();
    return;
  }
  const BootTime boot = agent->machine->BootAt(env_->now());
  const v1::NodeConfig& config = agent->core.config();
  if (agent->port_retry.SearchIsDue(boot)) agent->port_retry.SetHolder(boot, std::move(holder));
  const rendezvous::PortRetry::Next next =
      agent->port_retry.OnFailure(boot, absl::UnavailableError("the port is in use"),
                                  {.has_served = IsSet(agent->core.memory().epoch()),
                                   .lease = absl::Milliseconds(config.single_node() ? 0 : config.lease_ms()),
                                   .port = static_cast<int>(config.primary().port())});
  if (next.exit_code == 0) return execution_->DeliverAfter(kPortRetry, agent, [this, agent] { OpenHome(agent); });
  ++agent->attempt;
  agent->host->fate.gave_up_port = true;
  agent->Feed(&agent::AgentCore::OnDisconnected, next.why, next.exit_code);
}

// The port is held by an earlier agent of this machine that is ending, by another host, or for a while by another
// program, unless the agent's own host keeps it.
std::optional<PortHolder> AgentShell::HolderOfPort(const AgentProcess& agent) const {
  const HostProcess* const keeper = cluster_->PortKeeperOn(agent.machine);
  if (keeper == agent.host) return std::nullopt;
  const AgentProcess* const candidate = cluster_->CandidateOn(agent.machine);
  const bool is_held = candidate != nullptr && candidate != &agent;
  if (keeper != nullptr || is_held || cluster_->HomeOn(agent.machine) != nullptr)
    return PortHolder{1, "muster-agent", true};
  // A host that replaces the primary knows nothing of the job: it gives up soon, and the platform retries.
  const bool in_job = IsSet(agent.core.memory().epoch());
  if (in_job && env_->now() < agent.machine->port_taken_until) return PortHolder{2, "curl", false, false};
  return std::nullopt;
}

}  // namespace muster::simulation
