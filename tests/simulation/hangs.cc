#include "tests/simulation/hangs.h"

#include <algorithm>
#include <csignal>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "rendezvous/core/hung_ranks.h"
#include "tests/simulation/delays.h"
#include "tests/simulation/endings.h"

namespace muster::simulation {
namespace {

constexpr Micros kLookEvery = 100 * kMillisecond;
constexpr Micros kSlack = 500 * kMillisecond;  // between a sign and the look that finds it, and back
constexpr Micros kSnapshotMax = 8 * kSecond;   // kSnapshotLimit of the real one
constexpr Micros kReportsTake = 3 * kSecond;   // heartbeats both ways, ticks, and counted gaps
constexpr int kEnoughToDiffer = 3;             // ranks: of two, either may be the reason
const char* const kWaits = "all_reduce";
const char* const kStands = "next";

Micros Longer(Micros time) { return time + time / 50; }  // tolerance for the drift between any two clocks
Micros Shorter(Micros time) { return time - time / 50; }

RankSnapshot Portray(const WorkerProcess& worker) {
  RankSnapshot snapshot;
  snapshot.rank = worker.rank;
  snapshot.pid = worker.pid;
  snapshot.ended = worker.dead;
  if (worker.dead) return snapshot;
  snapshot.state = worker.frozen > 0 ? 'T' : worker.stuck > 0 ? 'D' : 'S';
  const char* function = worker.is_reason ? kStands : kWaits;
  snapshot.python = {{"MainThread", true, {{function, "train.py", worker.is_reason ? 41 : 88}}}};
  return snapshot;
}

}  // namespace

bool Hangs::Goes(const WorkerProcess& worker) {
  return worker.executing && !worker.dead && worker.frozen == 0 && worker.stuck == 0 && !worker.hangs;
}

std::vector<WorkerProcess*> Hangs::MembersOf(const RoundKey& round) const {
  std::vector<WorkerProcess*> members;
  for (const auto& host : cluster_->hosts()) {
    for (WorkerProcess* worker : host->workers) {
      if (worker->round == round) members.push_back(worker);
    }
  }
  return members;
}

// A round that is not would only be ended after kWarmUpLimit; one that a member has not started, by that.
bool Hangs::IsWarm(const RoundKey& round) const {
  const std::vector<WorkerProcess*> members = MembersOf(round);
  if (members.empty() || std::ssize(members) < members.front()->world_size) return false;
  const bool all_go = std::all_of(members.begin(), members.end(), [](const WorkerProcess* worker) {
    return worker->host->alive && Goes(*worker);
  });
  const auto enough = static_cast<int>(2 * scenario_.hangs.timeout / kLookEvery);
  return all_go && std::any_of(members.begin(), members.end(), [enough](const WorkerProcess* worker) {
           return worker->host->shell.signs >= enough;
         });
}

void Hangs::Look(HostProcess* host) {
  if (scenario_.hangs.timeout == 0 || host->workers.empty()) return;
  const RoundKey key = host->workers.front()->round;
  RoundRecord& round = rounds_[key];
  const Micros now = env_->now();
  std::set<int> signs;
  for (const WorkerProcess* worker : host->workers) {
    if (Goes(*worker) && !worker->mute && now >= round.silent_until) signs.insert(worker->local_rank);
  }
  const std::vector<WorkerProcess*> members = MembersOf(key);
  const auto live =
      std::count_if(members.begin(), members.end(), [](const WorkerProcess* worker) { return !worker->dead; });
  if (!signs.empty() || live != round.live) NoteActive(live, &round);
  if (signs.empty()) return;
  ++host->shell.signs;
  Plan(key, &round);
  host->Feed(&host::HostCore::OnSigns, signs);
}

// The worker that ends may have been the one that showed signs for all.
void Hangs::NoteActive(int64_t live, RoundRecord* round) {
  if (round->active_at > 0) round->longest = std::max(round->longest, env_->now() - round->active_at);
  round->active_at = env_->now();
  round->live = live;
}

// Some rounds have a long silent phase and go on, some hang, once.
void Hangs::Plan(const RoundKey& key, RoundRecord* round) {
  if (round->planned) return;
  round->planned = true;
  Prng& prng = env_->hardships();
  const Micros within = std::max<Micros>(scenario_.workers.run_time, kSecond);
  if (prng.Chance(scenario_.hangs.phases_percent)) {
    env_->scheduler().After(prng.Between(1, within), [this, key] {
      rounds_[key].silent_until = env_->now() + env_->hardships().Between(1, scenario_.hangs.timeout * 8 / 10);
    });
  }
  if (prng.Chance(scenario_.hangs.percent))
    env_->scheduler().After(prng.Between(1, within), [this, key] { BeginHang(key); });
}

void Hangs::BeginHang(const RoundKey& key) {
  const std::vector<WorkerProcess*> members = MembersOf(key);
  if (env_->healed() || members.empty() || !IsWarm(key)) return;
  RoundRecord& round = rounds_[key];
  round.reason = members[env_->hardships().Below(members.size())];
  round.reason->is_reason = true;
  round.hangs_since = env_->now();
  for (WorkerProcess* worker : members) worker->hangs = true;
  env_->Note("worker", absl::StrCat("round ", ToString(key), " hangs by rank ", round.reason->rank));
  const Micros answers = absl::ToInt64Microseconds(rendezvous::kSnapshotAnswers + host::kHungGrace);
  env_->scheduler().After(Longer(scenario_.hangs.timeout + answers) + kReportsTake,
                          [this, key] { CheckEnded(key); });
}

bool Hangs::IsUndisturbed(const RoundKey& key) const {
  const RoundRecord& round = rounds_.at(key);
  if (env_->disturbed_at() >= round.hangs_since || scenario_.network.lossy()) return false;
  const std::vector<WorkerProcess*> members = MembersOf(key);
  return std::all_of(members.begin(), members.end(), [&](const WorkerProcess* worker) {
    const HostProcess& host = *worker->host;
    const AgentProcess* agent = host.agent;
    const bool runs = host.runs() && host.runs_since <= round.hangs_since && agent != nullptr && agent->runs() &&
                      agent->runs_since <= round.hangs_since;
    return runs && host.machine->cut_in + host.machine->cut_out == 0 && agent->session != nullptr;
  });
}

void Hangs::CheckEnded(const RoundKey& key) {
  const RoundRecord& round = rounds_.at(key);
  if (round.ended || round.reason->dead || round.reason->signalled || !IsUndisturbed(key)) return;
  checks_->invariants.Fail(11,
                           absl::StrCat("round ", ToString(key), " hangs since ", round.hangs_since, ", unseen"));
}

void Hangs::TakeSnapshot(HostProcess* host, int first_rank) {
  const Micros takes = env_->hardships().Skewed(10 * kMillisecond, kSnapshotMax);
  execution_->DeliverAfter(takes, host, [host, first_rank] {
    std::vector<RankSnapshot> snapshots;
    for (const WorkerProcess* worker : host->workers) {
      if (worker->rank - worker->local_rank == first_rank) snapshots.push_back(Portray(*worker));
    }
    host->Feed(&host::HostCore::OnSnapshot, snapshots);
  });
}

void Hangs::EndWorker(HostProcess* host, int local_rank) {
  WorkerProcess* worker = host->workers[static_cast<size_t>(local_rank)];
  RoundRecord& round = rounds_[worker->round];
  round.ended = true;
  env_->Note("host", absl::StrCat(host->name, " ends rank ", worker->rank, ", which hangs"));
  const bool told_apart = round.reason != nullptr && !round.reason->dead && worker->world_size >= kEnoughToDiffer;
  if (told_apart && worker != round.reason && IsUndisturbed(worker->round)) {
    checks_->invariants.Fail(
        11, absl::StrCat("rank ", worker->rank, " is ended, but the reason is rank ", round.reason->rank));
  }
  worker->hangs = true;  // it gets the signal before it can end by itself
  worker->pending_ending.reset();
  Scheduler& scheduler = env_->scheduler();
  scheduler.After(kKillDelayMax, [this, worker] { workers_->Die(worker, BySignal(SIGABRT), true); });
  scheduler.After(absl::ToInt64Microseconds(host::kHungGrace), [this, worker] {
    worker->frozen = 0;  // SIGKILL ends a stopped process
    workers_->Die(worker, BySignal(SIGKILL), true);
  });
}

void Hangs::OnDirectiveSent(const v1::Directive& directive) {
  if (!directive.has_hang()) return;
  const RoundKey key = KeyOf(directive.hang().round());
  checks_->invariants.OnSentence(key);
  const RoundRecord& round = rounds_[key];
  const Micros silent = std::max(round.longest, env_->now() - round.active_at) + kSlack;
  if (silent >= Shorter(scenario_.hangs.timeout)) return;
  checks_->invariants.Fail(
      11, absl::StrCat("rank ", directive.hang().rank(), " of round ", ToString(key), " is accused after at most ",
                       silent / kMillisecond, " ms of silence"));
}

}  // namespace muster::simulation
