// The network between agents and the coordinator: connections delay, stall while a path is cut, close with or
// without notice to the other end, and in some worlds lose, repeat and reorder whole documents.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLoopbackDelay = 50;
constexpr Micros kConnectLimit = 5 * kSecond;
constexpr Micros kRetransmitMax = 300 * kMillisecond;  // after a path is open again

std::string DescribeOrder(const v1::Directive& d) {
  switch (d.order_case()) {
    case v1::Directive::kWait:
      return absl::StrCat("WAIT ", d.wait().reason());
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

std::string Describe(const v1::DirectiveId& id) {
  return absl::StrCat(muster::ToString(id.epoch()), "#", id.seq());
}

}  // namespace

bool World::Blocked(const Machine& from, const Machine& to) const {
  if (&from == &to) return false;
  return !from.up || !to.up || from.cut_out > 0 || to.cut_in > 0;
}

void World::ConnectAgent(AgentProcess* agent) {
  const uint64_t attempt = ++agent->attempt;
  conduct_.OnConnect(agent);
  if (agent->session != nullptr) CloseAgentEnd(agent->session);
  agent->session = nullptr;
  DeliverAfter(kConnectLimit, agent, [this, agent, attempt] { FailAttempt(agent, attempt, "no answer"); });
  const bool own = agent->core.configured() && agent->core.memory().served();
  Machine* others = alone_machine_ != nullptr ? alone_machine_ : places_[0].machine;
  if (agent->machine->name_leads_to != nullptr) others = agent->machine->name_leads_to;
  Machine* target = own ? agent->machine : others;
  const bool near = own || target == agent->machine;
  const Micros delay = near ? kLoopbackDelay : prng_.Exponential(scenario_.network.delay) + kLoopbackDelay;
  if (!own && IsLedAstray(agent, attempt, delay)) return;
  scheduler_.After(delay, [this, agent, attempt, own, target, delay] {
    if (agent->attempt != attempt || Blocked(*agent->machine, *target) || Blocked(*target, *agent->machine))
      return;
    CoordinatorHome* home = own ? agent->home : HomeOn(target);
    if (home == nullptr || home->owner->machine != target) {
      DeliverAfter(delay, agent, [this, agent, attempt] { FailAttempt(agent, attempt, "connection refused"); });
      return;
    }
    Deliver(home->owner, [this, agent, attempt, home] { Accept(agent, attempt, home); });
  });
}

void World::FailAttempt(AgentProcess* agent, uint64_t attempt, const char* why) {
  if (agent->attempt != attempt) return;
  ++agent->attempt;
  OnAgent(agent, &agent::AgentCore::OnDisconnected, why, 0);
}

void World::Accept(AgentProcess* agent, uint64_t attempt, CoordinatorHome* home) {
  if (agent->attempt != attempt || !agent->alive) return;
  sessions_.push_back(std::make_unique<Session>());
  Session* session = sessions_.back().get();
  session->agent = agent;
  session->home = home;
  session->stream = home->next_stream++;
  home->sessions[session->stream] = session;
  open_sessions_.push_back(session);
  PathsChanged();
  Transmit(
      session, false,
      [this, agent, attempt, session] {
        if (agent->attempt != attempt) return CloseAgentEnd(session);
        ++agent->attempt;
        agent->session = session;
        agent->connected_at = now();
        const std::string address = agent->machine->address;
        OnAgent(agent, &agent::AgentCore::OnConnected, address);
      },
      false);
}

// ---- documents

void World::SendUp(Session* session, const v1::AgentStatus& status) {
  if (!session->agent_open) return;
  if (trace_.on()) {
    Note("status", absl::StrCat(session->agent->name, " -> c", session->home->id, " ", status.id().agent_number(),
                                "#", status.id().seq(), " ", muster::ToString(status.phase()), " last ",
                                muster::ToString(status.last().id()), " ", v1::Outcome_Name(status.outcome()),
                                " applied ", Describe(status.applied()), status.has_verdict() ? " verdict" : ""));
  }
  conduct_.OnFailureTold(*session->agent->host, status);
  session->agent->sent_up.emplace_back(status.id().seq(), now());
  Transmit(
      session, true, [this, session, status] { ArriveAtCoordinator(session, status); }, true);
}

void World::ArriveAtCoordinator(Session* session, const v1::AgentStatus& status) {
  if (!session->coordinator_open) return;
  session->last_heard = now();
  if (session->first_heard < 0) session->first_heard = now();
  CoordinatorHome* home = session->home;
  invariants_.OnStatusHeard(*home, status);
  policies_.OnStatus(*session, status);
  conduct_.OnStatus(*session, status);
  session->agent->host->heard_by = status.has_verdict() ? home->id : 0;
  session->agent->host->last_status_at = now();
  OnHome(home, &rendezvous::Coordinator::OnStatus, session->stream, status);
  policies_.AfterStatus(*home);
  conduct_.AfterStatus(*session, status);
}

void World::SendDown(Session* session, const v1::Directive& directive) {
  if (!session->coordinator_open) return;
  if (trace_.on()) {
    Note("directive",
         absl::StrCat("c", session->home->id, " -> ", session->agent->name, " ", Describe(directive.id()),
                      " echo ", directive.echo().agent_number(), "#", directive.echo().seq(),
                      directive.has_lease() ? " lease " : " ", DescribeOrder(directive)));
  }
  AgentProcess* agent = session->agent;
  Transmit(
      session, false,
      [this, session, agent, directive] {
        if (agent->session != session) return;
        const v1::DirectiveId before = agent->core.memory().applied();
        OnAgent(agent, &agent::AgentCore::OnDirective, directive);
        // A repeated document is no sign of life.
        if (Compare(agent->core.memory().applied(), before) == 0) return;
        agent->host->last_directive = agent->answered_at = now();
        while (!agent->sent_up.empty() && agent->sent_up.front().first <= directive.echo().seq()) {
          agent->answered_for = agent->sent_up.front().second;
          agent->sent_up.pop_front();
        }
      },
      true);
}

// Sends an action to the other end; document: may be lost, repeated or overtaken if the scenario says so.
void World::Transmit(Session* session, bool up, Scheduler::Action action, bool document) {
  Session::Way& way = up ? session->up : session->down;
  const Machine& from = up ? *session->agent->machine : *session->home->owner->machine;
  const Machine& to = up ? *session->home->owner->machine : *session->agent->machine;
  Process* receiver = up ? static_cast<Process*>(session->home->owner) : session->agent;
  const bool lossy = document && !healed_ && &from != &to;
  if (lossy && prng_.Chance(scenario_.network.drop_percent)) return;
  if (Blocked(from, to)) {
    way.stalled.push_back(std::move(action));
    return;
  }
  const Micros delay = &from == &to ? kLoopbackDelay : kLoopbackDelay + prng_.Exponential(scenario_.network.delay);
  if (lossy && prng_.Chance(scenario_.network.repeat_percent)) {
    DeliverAfter(delay + prng_.Exponential(kSecond), receiver, action);
  }
  if (lossy && prng_.Chance(scenario_.network.reorder_percent)) {
    DeliverAfter(delay + prng_.Exponential(200 * kMillisecond), receiver, std::move(action));
    return;
  }
  const Micros arrival = std::max(now() + delay, way.last_arrival + 1);
  way.last_arrival = arrival;
  DeliverAfter(arrival - now(), receiver, std::move(action));
}

// ---- closing

void World::CloseAgentEnd(Session* session) {
  if (!session->agent_open) return;
  session->agent_open = false;
  Transmit(
      session, true, [this, session] { CloseArrivesAtCoordinator(session); }, false);
}

void World::CloseArrivesAtCoordinator(Session* session) {
  if (!session->coordinator_open) return;
  session->coordinator_open = false;
  CoordinatorHome* home = session->home;
  home->sessions.erase(session->stream);
  OnHome(home, &rendezvous::Coordinator::OnClosed, session->stream);
}

void World::CloseCoordinatorEnd(Session* session) {
  if (!session->coordinator_open) return;
  session->coordinator_open = false;
  session->home->sessions.erase(session->stream);
  Transmit(
      session, false, [this, session] { CloseArrivesAtAgent(session, "closed by the coordinator"); }, false);
}

void World::CloseArrivesAtAgent(Session* session, const char* why) {
  if (!session->agent_open) return;
  session->agent_open = false;
  AgentProcess* agent = session->agent;
  if (agent->session != session) return;
  agent->session = nullptr;
  ++agent->attempt;
  OnAgent(agent, &agent::AgentCore::OnDisconnected, why, 0);
}

// Both ends learn of the close, each at its own time; documents under way may be lost.
void World::ResetSession(AgentProcess* agent) {
  Session* session = agent->session;
  if (session == nullptr) return;
  Note("network", absl::StrCat("resets the connection of ", agent->name));
  DeliverAfter(prng_.Exponential(scenario_.network.delay), agent,
               [this, session] { CloseArrivesAtAgent(session, "connection reset"); });
  DeliverAfter(prng_.Exponential(scenario_.network.delay), session->home->owner,
               [this, session] { CloseArrivesAtCoordinator(session); });
}

void World::CloseAtCoordinatorOnly(AgentProcess* agent) {
  Session* session = agent->session;
  if (session == nullptr || session->home->owner->machine == agent->machine) return;
  Note("network", absl::StrCat("the coordinator sees ", agent->name, " close"));
  Deliver(session->home->owner, [this, session] { CloseArrivesAtCoordinator(session); });
}

// ---- cuts

void World::Cut(Machine* machine, bool out, bool in, Micros for_how_long) {
  Note("network", absl::StrCat("cuts m", machine->id, out ? " outwards" : "", in ? " inwards" : "", " for ",
                               for_how_long / kMillisecond, " ms"));
  machine->cut_out += out ? 1 : 0;
  machine->cut_in += in ? 1 : 0;
  PathsChanged();
  scheduler_.After(for_how_long, [this, machine, out, in] {
    if (healed_) return;
    machine->cut_out = std::max(0, machine->cut_out - (out ? 1 : 0));
    machine->cut_in = std::max(0, machine->cut_in - (in ? 1 : 0));
    Note("network", absl::StrCat("mends m", machine->id));
    PathsChanged();
  });
}

void World::Mend(Machine* machine) {
  machine->cut_out = machine->cut_in = 0;
  Note("network", absl::StrCat("mends m", machine->id));
  PathsChanged();
}

void World::PathsChanged() {
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
      way.last_arrival = std::max(way.last_arrival, now() + prng_.Between(0, kRetransmitMax));
      std::deque<Scheduler::Action> stalled = std::move(way.stalled);
      way.stalled.clear();
      for (Scheduler::Action& action : stalled) Transmit(session, up, std::move(action), false);
    }
    if (!up_blocked && !down_blocked) {
      session->blocked_since = -1;
    } else if (session->blocked_since < 0) {
      session->blocked_since = now();
      TransportTimer(session, now());
    }
  }
}

// Keepalive on both sides: longer than lease and margin; each end has its own timer.
void World::TransportTimer(Session* session, Micros blocked_since) {
  const Micros least = scenario_.limits.lease + scenario_.limits.lease / 50 + 2 * kSecond;
  DeliverAfter(least + prng_.Between(0, 10 * kSecond), session->agent, [this, session, blocked_since] {
    if (session->blocked_since == blocked_since) CloseArrivesAtAgent(session, "keepalive timed out");
  });
  DeliverAfter(least + prng_.Between(0, 10 * kSecond), session->home->owner, [this, session, blocked_since] {
    if (session->blocked_since == blocked_since) CloseArrivesAtCoordinator(session);
  });
}

}  // namespace muster::simulation
