// Checks of time limits: the start of a round, the transfer of a place, unanswered connection attempts, and the
// dates of failures.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/conduct.h"

namespace muster::simulation {
namespace {

constexpr Micros kSlack = 700 * kMillisecond;       // a heartbeat, ticks on both sides
constexpr Micros kOneBreath = 1200 * kMillisecond;  // more than two heartbeats: a longer silence is an absence
constexpr int kManyDelays = 16;                     // as long as four slow messages
constexpr Micros kAttemptsWindow = 2 * kSecond;
constexpr size_t kAttemptsAllowed = 12;  // within it: their delays begin with 33 ms and double up to 333 ms
constexpr Micros kClocksDiffer = 30 * kMillisecond;

Micros Longer(Micros time) { return time + time / 50; }
Micros ToMicros(absl::Duration time) { return absl::ToInt64Microseconds(time); }

bool RanSince(const Process& process, Micros when) { return process.runs() && process.runs_since <= when; }

bool HasSession(const CoordinatorHome& home, const HostProcess& host) {
  return std::any_of(home.sessions.begin(), home.sessions.end(),
                     [&host](const auto& entry) { return entry.second->agent->host == &host; });
}

}  // namespace

void Conduct::OnDirectiveSent(const Session& session, const v1::Directive& directive) {
  if (directive.has_run()) OnRun(session, directive.run());
  if (directive.has_wait() && directive.wait().has_held_by()) {
    const int place = session.agent->core.config().place();
    OnHeldPlace(session, session.home->core.job().hosts.HolderOf(place)->status.host_id());
  }
}

// An attached member that does not start its round within the limit ends it. With a short lease the lease ends
// first.
void Conduct::OnRun(const Session& session, const v1::Round& round) {
  const Micros limit = ToMicros(rendezvous::kRunLimit);
  if (scenario_.limits.lease / 2 <= limit || !round.has_node_rank()) return;
  const CoordinatorHome* home = session.home;
  const HostProcess* host = session.agent->host;
  const RoundKey key = KeyOf(round.id());
  if (!told_.emplace(home->id, host->id(), key).second) return;
  CheckAt(Longer(limit) + kSlack, [this, home, host, key, since = env_->now(), epoch = home->core.epoch()] {
    const bool goes_on = home->core.state() == rendezvous::State::kRunning && Same(home->core.epoch(), epoch) &&
                         KeyOf(home->core.greatest().id()) == key;
    if (!goes_on || !RanSince(*home->owner, since) || !HasSession(*home, *host)) return;
    if (KeyOf(host->memory.last().id()) == key) return;
    Fail(9, absl::StrCat(host->id(), " has not taken up round ", ToString(key), ", and it goes on"));
  });
}

// A silent holder keeps its place for as long as its lease may last.
void Conduct::OnHeldPlace(const Session& session, const std::string& holder) {
  const CoordinatorHome& home = *session.home;
  Claim& claim = claims_[{home.id, session.agent->host->id()}];
  const Micros now = env_->now();
  if (claim.holder != holder || now > claim.told_at + kOneBreath) claim = {holder, now, -1};
  claim.told_at = now;
  const auto& hosts = cluster_->hosts();
  const auto it = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host->id() == holder; });
  if (it == hosts.end()) return;
  CheckProof(session, **it, &claim);
  const auto heard = attended_[home.id].find(holder);
  if (heard == attended_[home.id].end() || !RanSince(*home.owner, heard->second)) return;
  const Micros margin = kSecond + scenario_.limits.lease / 100;
  const Micros limit = Longer(scenario_.limits.lease + margin + scenario_.limits.reconnect_grace) + kSlack;
  if (now <= heard->second + limit) return;
  Fail(9, absl::StrCat("coordinator ", home.id, " keeps a place for ", holder, ", which it heard ",
                       (now - heard->second) / kMillisecond, " ms ago"));
}

// A standby on the machine of a dead holder proves its death and then gets the place.
void Conduct::CheckProof(const Session& session, const HostProcess& holder, Claim* claim) {
  const AgentProcess& agent = *session.agent;
  const bool lossy = scenario_.network.lossy();
  const bool provable = holder.machine == agent.machine && !lossy && !holder.AnythingAlive() &&
                        !HasSession(*session.home, holder) &&
                        !holder.split();  // of another container no pid proves anything
  if (!provable) {
    claim->proof_since = -1;
    return;
  }
  const Micros now = env_->now();
  if (claim->proof_since < 0) claim->proof_since = now;
  const Micros limit = ToMicros(agent::kProbeInterval) + 2 * kOneBreath + kManyDelays * scenario_.network.delay;
  if (now <= claim->proof_since + limit || !RanSince(agent, claim->proof_since)) return;
  if (!RanSince(*session.home->owner, claim->proof_since)) return;
  Fail(9, absl::StrCat("coordinator ", session.home->id, " keeps a place for ", holder.id(), ", of which ",
                       agent.name, " on the same machine finds nothing alive"));
}

// Only an answer makes a connection good: an agent whose stream is reset backs off like one that is refused.
void Conduct::OnConnect(AgentProcess* agent) {
  const Micros now = env_->now();
  std::deque<Micros>& attempts = agent->contact.attempts;
  attempts.push_back(now);
  while (attempts.front() + kAttemptsWindow < now || attempts.front() <= agent->contact.answered_at)
    attempts.pop_front();
  if (attempts.size() <= kAttemptsAllowed) return;
  Fail(9, absl::StrCat(agent->name, " connects ", attempts.size(), " times within ",
                       kAttemptsWindow / kMillisecond, " ms, and nobody has answered"));
}

// A host that may take part in the next round has no process of the last one, including those that the kernel
// holds.
void Conduct::OnHostStatus(const HostProcess& host, const v1::HostStatus& status) {
  if (status.phase() != v1::HOST_PHASE_IDLE || !IsSet(status.started())) return;
  for (const WorkerProcess* descendant : host.descendants) {
    if (descendant->dead) continue;
    return Fail(10, absl::StrCat(host.id(), " is idle, and pid ", descendant->pid, " of round ",
                                 ToString(descendant->round), " lives"));
  }
}

// If a worker has written down when it failed, that time counts, however late it ended and its host noticed.
void Conduct::OnFailureTold(const HostProcess& host, const v1::AgentStatus& status) {
  if (scenario_.workers.early_words_percent == 0 || !status.has_failure()) return;
  const v1::Failure& failure = status.failure();
  for (const WorkerProcess* worker : host.workers) {
    const WorkerProcess::Word& word = worker->word;
    if (word.at < 0 || worker->rank != failure.rank() || worker->round != KeyOf(failure.round())) continue;
    if (host.machine->stepped_at >= word.at) continue;
    const Micros claimed = env_->now() - failure.age_ms() * kMillisecond;
    const Micros tolerance = kClocksDiffer + (env_->now() - word.at) / 50;
    if (claimed >= word.at - tolerance && claimed <= word.latest + tolerance) continue;
    Fail(9, absl::StrCat(host.id(), " says that rank ", worker->rank, " failed ",
                         (claimed - word.at) / kMillisecond, " ms after it had written so"));
  }
}

}  // namespace muster::simulation
