// The world in the role of the agent's shell, and of the coordinator's shell inside the primary's agent.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/scripts.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLinkDelay = 100;
constexpr Micros kKillDelay = 500;
constexpr Micros kProbeMax = 20 * kMillisecond;
constexpr Micros kOpenMax = 20 * kMillisecond;
constexpr Micros kPortRetry = 50 * kMillisecond;
constexpr int kPortTakenPercent = 10;  // percentage of the deaths of an agent that contains the coordinator
constexpr Micros kPortTakenMax = 8 * kSecond;
constexpr Micros kNoticeAskedEvery = kSecond;
constexpr size_t kStrangersWords = 6'000;  // bytes
constexpr Micros kAloneTickMax = 100 * kMillisecond;

// How long another program holds the port after the death of the agent that had it. Drawn from a separate stream
// of random numbers, so that the other streams do not change.
Micros HowLongPortIsTaken(uint64_t seed, Micros now) {
  Prng prng(seed ^ static_cast<uint64_t>(now));
  return prng.Chance(kPortTakenPercent) ? prng.Between(0, kPortTakenMax) : 0;
}

}  // namespace

// What is left to do when an agent dies in the middle of its effects is not done.
void World::Drive(AgentProcess* agent) {
  agent->driver.emplace(&agent->core,
                        agent::AgentDriver::Shell{.clock = [this, agent] { return BootNow(*agent->machine); },
                                                  .carry_out =
                                                      [this, agent](const agent::Effect& effect) {
                                                        if (agent->alive) CarryOut(agent, effect);
                                                      },
                                                  .log =
                                                      [this, agent](const muster::Note& note) {
                                                        if (!agent->alive) return;
                                                        Note("agent", absl::StrCat(agent->name, ": ", note.text));
                                                      }});
}

void World::CarryOut(AgentProcess* agent, const agent::Effect& effect) {
  // Whether the primary's address is this machine's. No other process takes the port.
  if (std::holds_alternative<agent::FindPrimary>(effect)) {
    DeliverAfter(LookupTime(), agent,
                 [this, agent] { OnAgent(agent, &agent::AgentCore::OnPrimaryFound, agent->host->place == 0); });
    return;
  }
  if (std::holds_alternative<agent::ClaimPort>(effect)) {
    return OnAgent(agent, &agent::AgentCore::OnPortClaimed, false);
  }
  if (const auto* e = std::get_if<agent::SendToCoordinator>(&effect)) {
    if (agent->session != nullptr) SendUp(agent->session, e->status);
  } else if (const auto* e = std::get_if<agent::SendToHost>(&effect)) {
    HostProcess* host = agent->host;
    const Micros answered_for = agent->answered_for;
    DeliverAfter(kLinkDelay, host, [this, agent, host, answered_for, directive = e->directive] {
      // The link may still hold messages of an older agent; the core drops them.
      const bool newest = host->agent == agent;
      if (newest && !host->link_open) return;
      agent->has_spoken = true;
      if (newest && directive.has_memory()) host->memory = directive.memory();
      if (newest && answered_for > host->answered_for) conduct_.OnAnswer(host, answered_for);
      if (host->memory.has_verdict()) invariants_.OnVerdictStored(*host, host->memory.verdict());
      CollectEnded(host);
      OnHost(host, &host::HostCore::OnDirective, directive);
    });
  } else if (std::holds_alternative<agent::Connect>(effect)) {
    ConnectAgent(agent);
  } else if (std::holds_alternative<agent::Disconnect>(effect)) {
    ++agent->attempt;
    if (agent->session != nullptr) CloseAgentEnd(agent->session);
    agent->session = nullptr;
  } else if (const auto* e = std::get_if<agent::EndHost>(&effect)) {
    EndHost(agent, e->kill_first);
  } else if (const auto* e = std::get_if<agent::Probe>(&effect)) {
    ProbePredecessor(agent, e->predecessor);
  } else if (const auto* e = std::get_if<agent::ExitAgent>(&effect)) {
    ExitAgent(agent, absl::StrCat("exits ", e->exit_code, ": ", e->reason));
  }
}

Micros World::LookupTime() {
  const bool slow = scenario_.detours.name_lookup > 0 && !healed_;
  return slow ? prng_.Between(scenario_.detours.name_lookup * 3 / 4, scenario_.detours.name_lookup) : kMillisecond;
}

void World::ExitAgent(AgentProcess* agent, const std::string& why) {
  Note("agent", absl::StrCat(agent->name, " ", why));
  KillAgent(agent);
}

// A machine announces its end to each of its agents, with a delay; an agent asks once it has its configuration.
void World::Notice(AgentProcess* agent) {
  DeliverAfter(prng_.Between(0, kNoticeAskedEvery), agent, [this, agent] {
    if (!agent->core.configured()) return Notice(agent);
    OnAgent(agent, &agent::AgentCore::OnNotice, "its machine is about to go");
  });
}

void World::KillAgent(AgentProcess* agent) {
  if (!agent->alive) return;
  Note("death", absl::StrCat("agent ", agent->name, agent->home != nullptr ? " with the coordinator" : ""));
  agent->alive = false;
  agent->inbox.clear();
  ++agent->attempt;
  agent->session = nullptr;
  for (size_t i = 0; i < open_sessions_.size(); ++i) {
    if (open_sessions_[i]->agent == agent) CloseAgentEnd(open_sessions_[i]);
  }
  if (agent->home != nullptr) {
    const std::map<rendezvous::StreamId, Session*> sessions = agent->home->sessions;
    for (const auto& [stream, session] : sessions) CloseCoordinatorEnd(session);
    if (!healed_ && scenario_.faults.total_weight() > 0 && !scenario_.faults.only_agents_die) {
      agent->machine->port_taken_until = now() + HowLongPortIsTaken(scenario_.seed, now());
    }
  }
  HostProcess* host = agent->host;
  ExemptOrphans(*host);
  DeliverAfter(prng_.Between(kLinkDelay, 2 * kLinkDelay), host, [this, agent, host] {
    if (host->agent != agent || !host->link_open) return;
    host->link_open = false;
    OnHost(host, &host::HostCore::OnAgentClosed, agent->number);
  });
}

// ---- ending a dead or silent host

void World::EndHost(AgentProcess* agent, bool kill_first) {
  Note("agent", absl::StrCat(agent->name, " ends everything of its host", kill_first ? ", which is silent" : ""));
  HostProcess* host = agent->host;
  scheduler_.After(kKillDelay, [this, agent, host, kill_first] {
    if (kill_first) KillHost(host);
    WaitUntilSwept(agent);
  });
}

void World::WaitUntilSwept(AgentProcess* agent) {
  if (!agent->alive) return;
  if (!agent->host->alive) {
    ForkOnceMore(agent->host);
    KillMarked(agent->host, kMillisecond);
  }
  const bool done = !AnythingAlive(*agent->host);
  DeliverAfter(prng_.Between(kMillisecond, 10 * kMillisecond), agent, [this, agent, done] {
    if (!done) return WaitUntilSwept(agent);
    if (!healed_ && scenario_.troubles.not_swept_percent > 0 &&
        hardships_.Chance(scenario_.troubles.not_swept_percent)) {
      return OnAgent(agent, &agent::AgentCore::OnHostNotSwept, "pid 7");
    }
    agent->swept = true;
    conduct_.OnSwept(agent);
    OnAgent(agent, &agent::AgentCore::OnHostSwept);
  });
}

// Evidence of this machine about another host on it. Processes of other machines are invisible, so never "dead".
void World::ProbePredecessor(AgentProcess* agent, const v1::Predecessor& predecessor) {
  DeliverAfter(prng_.Between(kMillisecond, kProbeMax), agent, [this, agent, predecessor] {
    bool dead = false;
    for (const auto& host : hosts_) {
      if (host->id() != predecessor.host_id() || predecessor.boot_id() != agent->machine->boot_id) continue;
      dead = !AnythingAlive(*host);
      if (!host->alive) KillMarked(host.get(), kMillisecond);
    }
    Note("agent",
         absl::StrCat(agent->name, " probes ", predecessor.host_id(), ": ", dead ? "dead" : "not proved dead"));
    OnAgent(agent, &agent::AgentCore::OnProbed, predecessor.host_id(), dead);
  });
}

// ---- the coordinator

void World::MaybeOpenHome(AgentProcess* agent) {
  if (agent->home_planned || !agent->core.configured()) return;
  if (!agent->core.memory().served()) return;
  agent->home_planned = true;
  DeliverAfter(prng_.Between(kMillisecond, kOpenMax), agent, [this, agent] { OpenHome(agent); });
}

void World::OpenHome(AgentProcess* agent) {
  std::optional<rendezvous::PortHolder> holder = HolderOfPort(*agent);
  if (!holder) {
    agent->home = NewHome(agent, agent->host, agent->core.config());
    return;
  }
  const BootTime boot = BootNow(*agent->machine);
  const v1::NodeConfig& config = agent->core.config();
  if (agent->port_retry.SearchIsDue(boot)) agent->port_retry.SetHolder(boot, std::move(holder));
  const rendezvous::PortRetry::Next next =
      agent->port_retry.OnFailure(boot, absl::UnavailableError("the port is in use"),
                                  {.has_served = IsSet(agent->core.memory().epoch()),
                                   .lease = absl::Milliseconds(config.single_node() ? 0 : config.lease_ms()),
                                   .port = static_cast<int>(config.primary().port())});
  if (next.exit_code == 0) return DeliverAfter(kPortRetry, agent, [this, agent] { OpenHome(agent); });
  ++agent->attempt;
  agent->host->gave_up_port = true;
  OnAgent(agent, &agent::AgentCore::OnDisconnected, next.why, next.exit_code);
}

// The port is held by an earlier agent of this machine that is ending, or for a while by another program.
std::optional<rendezvous::PortHolder> World::HolderOfPort(const AgentProcess& agent) const {
  for (const auto& home : homes_) {
    if (home->owner->alive && home->owner->machine == agent.machine)
      return rendezvous::PortHolder{1, "muster-agent", true};
  }
  // A host that replaces the primary knows nothing of the job: it gives up soon, and the platform retries.
  const bool in_job = IsSet(agent.core.memory().epoch());
  if (in_job && now() < agent.machine->port_taken_until) return rendezvous::PortHolder{2, "curl", false, false};
  return std::nullopt;
}

CoordinatorHome* World::NewHome(Process* owner, HostProcess* primary, const v1::NodeConfig& config) {
  rendezvous::CoordinatorOptions options = rendezvous::OptionsFrom(config);
  if (scenario_.deferral.many_hosts > 0) {
    options.many_hosts = static_cast<size_t>(scenario_.deferral.many_hosts);
    options.decision_spacing = absl::Microseconds(scenario_.deferral.decision_spacing);
  }
  homes_.push_back(std::make_unique<CoordinatorHome>(owner, primary, std::move(options), BootNow(*owner->machine),
                                                     prng_.Next()));
  CoordinatorHome* home = homes_.back().get();
  home->id = static_cast<int>(homes_.size());
  home->born = now();
  Drive(home);
  Note("coordinator", absl::StrCat("c", home->id, " opens in ", owner->name));
  return home;
}

void World::StartAlone(Machine* machine) {
  alone_.push_back(std::make_unique<AloneProcess>());
  AloneProcess* alone = alone_.back().get();
  alone->machine = machine;
  alone->name = absl::StrCat("alone", alone_.size());
  alone->home = NewHome(alone, nullptr, MakeConfig(0, *machine));
  ScheduleTick(alone, prng_.Between(1, kAloneTickMax));
}

AloneProcess* World::alone() const {
  for (auto it = alone_.rbegin(); it != alone_.rend(); ++it) {
    if ((*it)->alive && (*it)->machine == alone_machine_) return it->get();
  }
  return nullptr;
}

Machine* World::MoveCoordinator() {
  MoveCoordinatorTo(NewMachine(-1));
  StartAlone(alone_machine_);
  return alone_machine_;
}

Machine* World::StartSecondCoordinator() {
  Machine* machine = NewMachine(-1);
  StartAlone(machine);
  return machine;
}

void World::EndSecondCoordinator(const Machine* machine) {
  for (size_t i = 0; i < alone_.size(); ++i) {
    if (alone_[i]->machine == machine) EndAlone(alone_[i].get(), false);
  }
}

void World::LeadNamesHome() {
  for (auto& machine : machines_) machine->name_leads_to = nullptr;
}

void World::MoveCoordinatorTo(Machine* machine) {
  Note("platform", absl::StrCat("the coordinator is now at m", machine->id));
  alone_machine_ = machine;
}

bool World::ServesOthers(const CoordinatorHome& home) const {
  return std::any_of(home.sessions.begin(), home.sessions.end(),
                     [&home](const auto& entry) { return entry.second->agent->host != home.host; });
}

void World::EndAlone(AloneProcess* alone, bool comes_again) {
  if (!alone->alive) return;
  Note("death", absl::StrCat(alone->name, comes_again ? "" : ", for good: the job is over"));
  alone->alive = false;
  alone->inbox.clear();
  const std::map<rendezvous::StreamId, Session*> sessions = alone->home->sessions;
  for (const auto& [stream, session] : sessions) CloseCoordinatorEnd(session);
  if (alone->machine != alone_machine_) return;  // its name now leads elsewhere
  alone_is_done_ = !comes_again;
  if (!comes_again) return;
  const Micros least = healed_ ? 0 : scenario_.faults.replace_low;
  scheduler_.After(prng_.Skewed(least + 1, healed_ ? kSecond : scenario_.faults.replace_high),
                   [this] { StartAlone(alone_machine_); });
}

void World::Drive(CoordinatorHome* home) {
  home->driver.emplace(&home->core, rendezvous::CoordinatorDriver::Shell{
                                        .clock = [this, home] { return BootNow(*home->owner->machine); },
                                        .carry_out =
                                            [this, home](const rendezvous::Effect& effect) {
                                              if (home->owner->machine->up) CarryOut(home, effect);
                                            },
                                        .log =
                                            [this, home](const muster::Note& note) {
                                              if (home->owner->machine->up)
                                                Note("coordinator", absl::StrCat("c", home->id, ": ", note.text));
                                            }});
}

void World::CarryOut(CoordinatorHome* home, const rendezvous::Effect& effect) {
  NoteRelease(home);
  if (const auto* e = std::get_if<rendezvous::SendDirective>(&effect)) {
    const auto it = home->sessions.find(e->stream);
    if (it != home->sessions.end()) SendDirective(home, it->second, e->directive);
  } else if (const auto* e = std::get_if<rendezvous::CloseStream>(&effect)) {
    const auto it = home->sessions.find(e->stream);
    if (it == home->sessions.end()) return;
    Session* session = it->second;
    Note("coordinator",
         absl::StrCat("c", home->id, " closes the stream of ", session->agent->name, ": ", e->reason));
    CloseCoordinatorEnd(session);
    if (scenario_.network.close_is_echoed) {
      DeliverAfter(100, home->owner,
                   [this, home, stream = e->stream] { OnHome(home, &rendezvous::Coordinator::OnClosed, stream); });
    }
  }
}

void World::NoteRelease(CoordinatorHome* home) {
  const bool releasing = home->core.state() == rendezvous::State::kReleasing;
  if (releasing && home->releasing_since < 0) home->releasing_since = now();
}

void World::SendDirective(CoordinatorHome* home, Session* session, const v1::Directive& directive) {
  const bool is_new = directive.has_run() && !invariants_.Knows(directive.run().id());
  // The platform must end an old primary that makes new rounds beside its replacement.
  if (is_new && home->host != nullptr && home->host->zombie) return PowerOff(home->owner->machine);
  HostProcess* host = session->agent->host;
  invariants_.OnDirectiveSent(*home, *host, directive, session->agent_open);
  policies_.OnDirectiveSent(*session, directive);
  conduct_.OnDirectiveSent(*session, directive);
  if (directive.has_release()) host->released = true;
  if (directive.has_refused()) host->refused = true;
  if (is_new) conduct_.OnNewRound(*home, directive.run());
  if (is_new) faults_->OnRound(directive.run().node_count());
  if (is_new) scripts_->OnRound(directive.run().node_count());
  if (directive.has_stop()) faults_->OnDrain(KeyOf(directive.stop().round()));
  if (directive.has_verdict()) conduct_.OnVerdict(*home, directive.verdict());
  if (directive.has_verdict()) faults_->OnVerdict();
  SendDown(session, directive);
}

// A stranger sends texts of the maximum length. The close of its stream is reported too, as a shell does.
void World::Knock() {
  CoordinatorHome* home = CurrentHome();
  if (home == nullptr || !home->owner->runs()) return;
  const rendezvous::StreamId stream = home->next_stream++;
  const v1::AgentStatus status = DrawStranger(*home);
  const rendezvous::State before = home->core.state();
  rendezvous::Effects effects;
  home->core.OnStatus(BootNow(*home->owner->machine), stream, status, &effects);
  invariants_.OnStranger(*home, before, stream, effects);
  DeliverAfter(prng_.Between(0, kSecond), home->owner,
               [this, home, stream] { OnHome(home, &rendezvous::Coordinator::OnClosed, stream); });
}

// A stranger may even have the name of a host of the job.
v1::AgentStatus World::DrawStranger(const CoordinatorHome& home) {
  v1::AgentStatus status;
  status.set_run_id("simulated");
  status.set_protocol(kProtocol);
  status.set_host_id("stranger");
  status.set_hostname(std::string(kStrangersWords, 'x'));
  status.set_version(std::string(kStrangersWords, 'v'));
  status.mutable_id()->set_agent_number(1);
  status.mutable_id()->set_seq(1);
  if (!home.sessions.empty() && prng_.Chance(50)) {
    status.set_host_id(home.sessions.begin()->second->agent->host->id());
  }
  status.mutable_epoch()->set_number(kStrangersEpoch);
  status.mutable_epoch()->set_random(1);
  status.set_cancelled(prng_.Chance(50));
  status.set_at_primary(prng_.Chance(50));
  if (prng_.Chance(50)) status.mutable_verdict()->set_exit_code(1);
  status.set_phase(v1::PHASE_READY);
  switch (prng_.Below(4)) {
    case 0:
      status.set_run_id(std::string(kStrangersWords, 'r'));
      break;
    case 1:
      status.set_protocol(kProtocol + 1);
      break;
    case 2:
      status.set_phase(static_cast<v1::Phase>(v1::Phase_MAX + 1));
      break;
    default:
      status.mutable_last()->set_restart_count(-1);
  }
  return status;
}

bool World::Attached(const CoordinatorHome& home, const HostProcess& host) const {
  return std::any_of(home.sessions.begin(), home.sessions.end(), [&](const auto& entry) {
    return entry.second->agent->host == &host && entry.second->agent_open && entry.second->agent->alive;
  });
}

}  // namespace muster::simulation
