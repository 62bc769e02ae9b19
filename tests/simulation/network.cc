#include "tests/simulation/network.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "tests/simulation/delays.h"

namespace muster::simulation {
namespace {

constexpr Micros kConnectLimit = 5 * kSecond;
constexpr Micros kBacklogLook = 5 * kMillisecond;
constexpr Micros kRetransmitMax = 300 * kMillisecond;  // after a path is open again

std::string DescribeOrder(const v1::Directive& d) {
  switch (d.order_case()) {
    case v1::Directive::kWait:
      return absl::StrCat("WAIT", d.wait().reason().empty() ? "" : " ", d.wait().reason());
    case v1::Directive::kRun:
      return absl::StrCat("RUN ", muster::ToString(d.run().id()), " rank ", d.run().node_rank());
    case v1::Directive::kStop:
      return absl::StrCat("STOP ", muster::ToString(d.stop().round()), " ", d.stop().cause());
    case v1::Directive::kVerdict:
      return absl::StrCat("VERDICT ", d.verdict().exit_code());
    case v1::Directive::kRelease:
      return absl::StrCat("RELEASE ", d.release().exit_code());
    case v1::Directive::kRefused:
      return absl::StrCat("REFUSED ", d.refused().reason());
    default:
      return "(no order)";
  }
}

bool ServesItself(const AgentProcess& agent) { return agent.core.configured() && agent.core.memory().served(); }

std::string Describe(const v1::DirectiveId& id) {
  return absl::StrCat(muster::ToString(id.epoch()), "#", id.seq());
}

}  // namespace

bool Network::Blocked(const Machine& from, const Machine& to) const {
  if (&from == &to) return false;
  return !from.up || !to.up || from.cut_out > 0 || to.cut_in > 0 || from.island != to.island;
}

void Network::Connect(AgentProcess* agent) {
  const uint64_t attempt = ++agent->attempt;
  checks_->conduct.OnConnect(agent);
  if (agent->session != nullptr) CloseAgentEnd(agent->session);
  agent->session = nullptr;
  execution_->DeliverAfter(kConnectLimit, agent,
                           [agent, attempt] { agent->LoseConnection(attempt, "no answer"); });
  const bool own = ServesItself(*agent);
  Machine* others = cluster_->NamedMachine();
  if (agent->machine->name_leads_to != nullptr) others = agent->machine->name_leads_to;
  Machine* target = own ? agent->machine : others;
  const bool near = own || target == agent->machine;
  const Micros delay = near ? kLoopbackDelay : env_->prng().Exponential(scenario_.network.delay) + kLoopbackDelay;
  if (!own && detours_.Take(agent, attempt, delay)) return;
  env_->scheduler().After(delay, [this, agent, attempt, target, delay] { Reach(agent, attempt, target, delay); });
}

void Network::Reach(AgentProcess* agent, uint64_t attempt, Machine* target, Micros delay) {
  if (agent->attempt != attempt || Blocked(*agent->machine, *target) || Blocked(*target, *agent->machine)) return;
  const bool serves = ServesItself(*agent);
  // An address that is translated on the way leads no machine back to itself.
  const bool near = target == agent->machine && !scenario_.job.address_is_nobodys;
  const bool leads_there = serves || near || target != agent->machine;
  CoordinatorHome* home = serves ? agent->home : cluster_->HomeOn(target);
  if (leads_there && home != nullptr && home->owner->machine == target) {
    return execution_->Deliver(home->owner, [this, agent, attempt, home] { Accept(agent, attempt, home); });
  }
  if (leads_there && PortIsHeldFor(agent, target)) {  // the connection waits in the kernel
    env_->scheduler().After(kBacklogLook,
                            [this, agent, attempt, target, delay] { Reach(agent, attempt, target, delay); });
    return;
  }
  execution_->DeliverAfter(delay, agent, [agent, attempt, near] {
    if (agent->attempt != attempt) return;
    agent->LoseConnection(attempt, "connection refused");
    agent->Feed(&agent::AgentCore::OnUnanswered, near, near);
  });
}

// By a candidate, which serves once it is reached, or by a host whose next agent will.
bool Network::PortIsHeldFor(AgentProcess* agent, Machine* target) {
  AgentProcess* const candidate = cluster_->CandidateOn(target);
  if (candidate != nullptr) {
    execution_->Deliver(candidate, [candidate] { candidate->Feed(&agent::AgentCore::OnReached); });
    return true;
  }
  const HostProcess* const keeper = cluster_->PortKeeperOn(target);
  return keeper != nullptr && keeper != agent->host;
}

void Network::Accept(AgentProcess* agent, uint64_t attempt, CoordinatorHome* home) {
  if (agent->attempt != attempt || !agent->alive) return;
  Session* session = cluster_->NewSession(agent, home);
  open_sessions_.push_back(session);
  PathsChanged();
  Transmit(
      session, false,
      [this, agent, attempt, session] {
        if (agent->attempt != attempt) return CloseAgentEnd(session);
        ++agent->attempt;
        agent->session = session;
        agent->contact.connected_at = env_->now();
        const std::string address = agent->machine->address;
        agent->Feed(&agent::AgentCore::OnConnected, address);
      },
      false);
}

// ---- documents

void Network::SendUp(Session* session, const v1::AgentStatus& status) {
  if (!session->agent_open) return;
  if (env_->traces()) {
    env_->Note("status",
               absl::StrCat(session->agent->name, " -> c", session->home->id, " ", status.id().agent_number(), "#",
                            status.id().seq(), " ", muster::ToString(status.phase()), " last ",
                            muster::ToString(status.last().id()), " ", v1::Outcome_Name(status.outcome()),
                            " applied ", Describe(status.applied()), status.has_verdict() ? " verdict" : ""));
  }
  checks_->conduct.OnFailureTold(*session->agent->host, status);
  session->agent->contact.sent_up.emplace_back(status.id().seq(), env_->now());
  Transmit(
      session, true, [this, session, status] { ArriveAtCoordinator(session, status); }, true);
}

void Network::ArriveAtCoordinator(Session* session, const v1::AgentStatus& status) {
  if (!session->coordinator_open) return;
  session->last_heard = env_->now();
  if (session->first_heard < 0) session->first_heard = env_->now();
  CoordinatorHome* home = session->home;
  checks_->invariants.OnStatusHeard(*home, status);
  checks_->policies.OnStatus(*session, status);
  checks_->conduct.OnStatus(*session, status);
  session->agent->host->contact.heard_by = status.has_verdict() ? home->id : 0;
  session->agent->host->contact.last_status_at = env_->now();
  home->Feed(&rendezvous::Coordinator::OnStatus, session->stream, status);
  checks_->policies.AfterStatus(*home);
  checks_->conduct.AfterStatus(*session, status);
}

void Network::SendDown(Session* session, const v1::Directive& directive) {
  if (!session->coordinator_open) return;
  if (env_->traces()) {
    env_->Note("directive",
               absl::StrCat("c", session->home->id, " -> ", session->agent->name, " ", Describe(directive.id()),
                            " echo ", directive.echo().agent_number(), "#", directive.echo().seq(),
                            directive.has_lease() ? " lease " : " ", DescribeOrder(directive)));
  }
  Transmit(
      session, false, [this, session, directive] { ArriveAtAgent(session, directive); }, true);
}

void Network::ArriveAtAgent(Session* session, const v1::Directive& directive) {
  AgentProcess* agent = session->agent;
  if (agent->session != session) return;
  const v1::DirectiveId before = agent->core.memory().applied();
  agent->Feed(&agent::AgentCore::OnDirective, directive);
  // A repeated document is no sign of life.
  if (Compare(agent->core.memory().applied(), before) == 0) return;
  agent->host->contact.last_directive = agent->contact.answered_at = env_->now();
  while (!agent->contact.sent_up.empty() && agent->contact.sent_up.front().first <= directive.echo().seq()) {
    agent->contact.answered_for = agent->contact.sent_up.front().second;
    agent->contact.sent_up.pop_front();
  }
}

// Sends an action to the other end; document: may be lost, repeated or overtaken if the scenario says so.
void Network::Transmit(Session* session, bool up, Scheduler::Action action, bool document) {
  Session::Way& way = up ? session->up : session->down;
  const Machine& from = up ? *session->agent->machine : *session->home->owner->machine;
  const Machine& to = up ? *session->home->owner->machine : *session->agent->machine;
  Process* receiver = up ? static_cast<Process*>(session->home->owner) : session->agent;
  const bool lossy = document && !env_->healed() && &from != &to;
  if (lossy && env_->prng().Chance(scenario_.network.drop_percent)) return;
  if (Blocked(from, to)) {
    way.stalled.push_back(std::move(action));
    return;
  }
  const Micros delay =
      &from == &to ? kLoopbackDelay : kLoopbackDelay + env_->prng().Exponential(scenario_.network.delay);
  if (lossy && env_->prng().Chance(scenario_.network.repeat_percent)) {
    execution_->DeliverAfter(delay + env_->prng().Exponential(kSecond), receiver, action);
  }
  if (lossy && env_->prng().Chance(scenario_.network.reorder_percent)) {
    execution_->DeliverAfter(delay + env_->prng().Exponential(200 * kMillisecond), receiver, std::move(action));
    return;
  }
  const Micros arrival = std::max(env_->now() + delay, way.last_arrival + 1);
  way.last_arrival = arrival;
  execution_->DeliverAfter(arrival - env_->now(), receiver, std::move(action));
}

// ---- closing

void Network::CloseAgentEnd(Session* session) {
  if (!session->agent_open) return;
  session->agent_open = false;
  Transmit(
      session, true, [this, session] { CloseArrivesAtCoordinator(session); }, false);
}

void Network::CloseArrivesAtCoordinator(Session* session) {
  if (!session->coordinator_open) return;
  session->coordinator_open = false;
  CoordinatorHome* home = session->home;
  home->sessions.erase(session->stream);
  home->Feed(&rendezvous::Coordinator::OnClosed, session->stream);
}

void Network::CloseCoordinatorEnd(Session* session) {
  if (!session->coordinator_open) return;
  session->coordinator_open = false;
  session->home->sessions.erase(session->stream);
  Transmit(
      session, false, [this, session] { CloseArrivesAtAgent(session, "closed by the coordinator"); }, false);
}

void Network::CloseAllOf(const AgentProcess& agent) {
  for (size_t i = 0; i < open_sessions_.size(); ++i) {
    if (open_sessions_[i]->agent == &agent) CloseAgentEnd(open_sessions_[i]);
  }
}

void Network::CloseAllOf(const CoordinatorHome& home) {
  const std::map<rendezvous::StreamId, Session*> sessions = home.sessions;
  for (const auto& [stream, session] : sessions) CloseCoordinatorEnd(session);
}

void Network::CloseArrivesAtAgent(Session* session, const char* why) {
  if (!session->agent_open) return;
  session->agent_open = false;
  AgentProcess* agent = session->agent;
  if (agent->session != session) return;
  agent->session = nullptr;
  ++agent->attempt;
  agent->Feed(&agent::AgentCore::OnDisconnected, why, 0);
}

// Both ends learn of the close, each at its own time; documents under way may be lost.
void Network::ResetSession(AgentProcess* agent) {
  Session* session = agent->session;
  if (session == nullptr) return;
  env_->Note("network", absl::StrCat("resets the connection of ", agent->name));
  execution_->DeliverAfter(env_->prng().Exponential(scenario_.network.delay), agent,
                           [this, session] { CloseArrivesAtAgent(session, "connection reset"); });
  execution_->DeliverAfter(env_->prng().Exponential(scenario_.network.delay), session->home->owner,
                           [this, session] { CloseArrivesAtCoordinator(session); });
}

void Network::CloseAtCoordinatorOnly(AgentProcess* agent) {
  Session* session = agent->session;
  if (session == nullptr || session->home->owner->machine == agent->machine) return;
  env_->Note("network", absl::StrCat("the coordinator sees ", agent->name, " close"));
  execution_->Deliver(session->home->owner, [this, session] { CloseArrivesAtCoordinator(session); });
}

// ---- cuts

void Network::Cut(Machine* machine, bool out, bool in, Micros for_how_long) {
  env_->Note("network", absl::StrCat("cuts m", machine->id, out ? " outwards" : "", in ? " inwards" : "", " for ",
                                     for_how_long / kMillisecond, " ms"));
  machine->cut_out += out ? 1 : 0;
  machine->cut_in += in ? 1 : 0;
  PathsChanged();
  env_->scheduler().After(for_how_long, [this, machine, out, in] {
    if (env_->healed()) return;
    machine->cut_out = std::max(0, machine->cut_out - (out ? 1 : 0));
    machine->cut_in = std::max(0, machine->cut_in - (in ? 1 : 0));
    env_->Note("network", absl::StrCat("mends m", machine->id));
    PathsChanged();
  });
}

void Network::Mend(Machine* machine) {
  machine->cut_out = machine->cut_in = 0;
  env_->Note("network", absl::StrCat("mends m", machine->id));
  PathsChanged();
}

void Network::MendAll() {
  for (const auto& machine : cluster_->machines()) machine->cut_in = machine->cut_out = machine->island = 0;
  PathsChanged();
}

void Network::MoveTo(int island, const std::vector<Machine*>& machines) {
  for (Machine* machine : machines) {
    env_->Note("network", absl::StrCat("moves m", machine->id, " to island ", island));
    machine->island = island;
  }
  PathsChanged();
}

void Network::PathsChanged() {
  std::erase_if(open_sessions_, [](Session* s) {
    return !s->agent_open && !s->coordinator_open && s->up.stalled.empty() && s->down.stalled.empty();
  });
  for (Session* session : open_sessions_) {
    const Machine& a = *session->agent->machine;
    const Machine& c = *session->home->owner->machine;
    const bool up_blocked = Blocked(a, c);
    const bool down_blocked = Blocked(c, a);
    for (const bool up : {true, false}) {
      Session::Way& way = up ? session->up : session->down;
      if ((up ? up_blocked : down_blocked) || way.stalled.empty()) continue;
      way.last_arrival = std::max(way.last_arrival, env_->now() + env_->prng().Between(0, kRetransmitMax));
      std::deque<Scheduler::Action> stalled = std::move(way.stalled);
      way.stalled.clear();
      for (Scheduler::Action& action : stalled) Transmit(session, up, std::move(action), false);
    }
    if (!up_blocked && !down_blocked) {
      session->blocked_since = -1;
    } else if (session->blocked_since < 0) {
      session->blocked_since = env_->now();
      TransportTimer(session, env_->now());
    }
  }
}

// Keepalive on both sides: longer than lease and margin; each end has its own timer.
void Network::TransportTimer(Session* session, Micros blocked_since) {
  const Micros least = scenario_.limits.lease + scenario_.limits.lease / 50 + 2 * kSecond;
  execution_->DeliverAfter(least + env_->prng().Between(0, 10 * kSecond), session->agent,
                           [this, session, blocked_since] {
                             if (session->blocked_since == blocked_since)
                               CloseArrivesAtAgent(session, "keepalive timed out");
                           });
  execution_->DeliverAfter(least + env_->prng().Between(0, 10 * kSecond), session->home->owner,
                           [this, session, blocked_since] {
                             if (session->blocked_since == blocked_since) CloseArrivesAtCoordinator(session);
                           });
}

}  // namespace muster::simulation
