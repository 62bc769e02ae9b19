#include "tests/simulation/invariants.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/admission.h"
#include "tests/simulation/cluster.h"

namespace muster::simulation {
namespace {

constexpr size_t kLongestReason = 4096;  // bytes, of any reason in a directive

std::string ReasonOf(const v1::Directive& directive) {
  switch (directive.order_case()) {
    case v1::Directive::kWait:
      return directive.wait().reason();
    case v1::Directive::kStop:
      return directive.stop().cause();
    case v1::Directive::kVerdict:
      return directive.verdict().reason();
    case v1::Directive::kRefused:
      return directive.refused().reason();
    default:
      return "";
  }
}

int CodeOf(const host::Ending& ending) { return ending.by_signal ? 128 + ending.number : ending.number; }

}  // namespace

RoundKey KeyOf(const v1::RoundId& id) { return {id.number(), id.epoch().number(), id.epoch().random()}; }

std::string ToString(const RoundKey& key) {
  v1::RoundId id;
  id.set_number(key.number);
  id.mutable_epoch()->set_number(key.epoch_number);
  id.mutable_epoch()->set_random(key.epoch_random);
  return muster::ToString(id);
}

std::string WordsOf(const RoundKey& round, int rank) {
  return absl::StrCat("words of rank ", rank, " in round ", ToString(round));
}

void Invariants::Fail(int number, const std::string& what) {
  if (violated()) return;
  message_ = absl::StrCat("invariant ", number, ": ", what);
  env_->Note("VIOLATION", message_);
}

// ---- directives

void Invariants::OnDirectiveSent(const CoordinatorHome& home, const HostProcess& to,
                                 const v1::Directive& directive, bool arrives) {
  if (const size_t size = ReasonOf(directive).size(); size > kLongestReason) {
    return Fail(5, absl::StrCat(to.id(), " gets a reason of ", size, " bytes"));
  }
  if (const std::string why = OutOfRange(directive); !why.empty()) {
    return Fail(5, absl::StrCat(to.id(), " gets what no agent obeys: ", why));
  }
  if (directive.has_refused()) return CheckRefusal(home, to, directive.refused());  // it says nothing of the job
  if (directive.has_verdict() || directive.has_release()) CheckIsOfThisJob(home, to);
  CoordinatorRecord& record = coordinators_[home.id];
  const auto epoch = std::make_pair(directive.id().epoch().number(), directive.id().epoch().random());
  const auto before = std::make_pair(record.epoch_number, record.epoch_random);
  if (epoch < before) return Fail(3, absl::StrCat("coordinator ", home.id, " went back to an older epoch"));
  record.epoch_number = epoch.first;
  record.epoch_random = epoch.second;
  if (epoch.first >= kStrangersEpoch) {
    return Fail(5, absl::StrCat("coordinator ", home.id, " follows a stranger's epoch"));
  }
  switch (directive.order_case()) {
    case v1::Directive::kRun:
      return CheckRun(home, to, directive.run(), arrives);
    case v1::Directive::kStop:
      return CheckDrain(home, directive.stop().round());
    case v1::Directive::kVerdict:
      // If both verdicts are the same, it cannot be told, and does not matter.
      if (!record.announced && verdict_ && verdict_->code != directive.verdict().exit_code())
        LookWhetherRunAgain(home);
      CheckVerdictTold(home, directive.verdict(), !record.announced);
      if (!record.announced && directive.verdict().exit_code() == 0) CheckConcludedSuccess(home);
      if (!std::exchange(record.announced, true)) record.announced_at = env_->now();
      return;
    case v1::Directive::kRelease:  // before the verdict: of a leaving node
      if (record.announced && !record.released && to.alive && !to.fate.asked_to_leave) {
        record.released = true;
        CheckRelease(home);
      }
      return;
    default:
      return;
  }
}

void Invariants::CheckRefusal(const CoordinatorHome& home, const HostProcess& to, const v1::Refused& refused) {
  if (MayBeRefused(home, to) && refused.exit_code() == kExitNotFound) return;
  const BootTime concluded = home.core.job().concluded_at;
  const bool is_over = concluded != absl::InfiniteFuture();
  // The time of the way makes a node look younger than it is, if the connection was quicker.
  const bool has_sent = to.agent != nullptr && !to.agent->contact.sent_up.empty();
  const Micros way = has_sent ? env_->now() - to.agent->contact.sent_up.front().second : 0;
  const bool came_after = is_over && to.born + way >= home.owner->machine->TimeOfBoot(concluded);
  const bool knows_the_end = to.memory.has_verdict();  // the primary's new agent may not know yet that it does
  if (refused.later() && scenario_.job.run_id_may_repeat && (came_after || knows_the_end)) return;
  if (refused.reason() == rendezvous::kRunsStill && (MayGoOnWithoutANode() || OnlyItsAgentKnows(to)))
    return BeginAgain();
  if (refused.reason() == rendezvous::kIsOfTheFormerJob && OnlyItsAgentKnows(to)) return BeginAgain();
  Fail(5, absl::StrCat(to.id(), " was refused: ", refused.reason()));
}

// Invariant 12: a host that started after the verdict and has run nothing belongs to the next job of that run id.
// A coordinator that has learned the verdict from a node cannot know how old it is.
void Invariants::CheckIsOfThisJob(const CoordinatorHome& home, const HostProcess& to) {
  constexpr Micros kWay = 2 * kSecond;  // of a connection, and of a name that must be looked up first
  const bool ran_nothing = !IsSet(to.memory.last().id()) && !IsSet(to.memory.epoch());
  const CoordinatorRecord& coordinator = coordinators_[home.id];
  if (!scenario_.job.run_id_may_repeat || !coordinator.announced || !ran_nothing) return;
  if (to.born > coordinator.announced_at + kWay + scenario_.detours.name_lookup)
    Fail(12, absl::StrCat(to.id(), ", which started after the verdict, is given it"));
}

// Exempt by design: all nodes that know of a success were cut off for longer than their leases, and the others
// have gone on without them.
bool Invariants::MayGoOnWithoutANode() const {
  const JobShape& job = scenario_.job;
  return job.min_nodes < job.max_nodes || job.nodes > job.max_nodes || job.nodes == 1;
}

// Exempt: every main process that knew of the end was killed by a fault and has been replaced. The agent that
// has outlived one comes with its report after the new ones have begun the job again.
bool Invariants::OnlyItsAgentKnows(const HostProcess& host) const {
  return !host.alive && !cluster_->VerdictIsKnown();
}

void Invariants::BeginAgain() {
  std::set<std::string> know;
  for (const auto& host : cluster_->hosts()) {
    if (host->memory.has_verdict()) know.insert(host->id());
  }
  RunAgain(know);
}

// Allowed refusals of nodes that cannot start. The primary, which the others need, may be refused only if they can
// do nothing without its own node. A primary whose main process has died is needed no more once its replacement
// serves: that may refuse the agent which has outlived it.
bool Invariants::MayBeRefused(const CoordinatorHome& home, const HostProcess& host) const {
  const bool is_primary = host.place == 0 && !scenario_.job.coordinator_alone;
  const bool serves = is_primary && (host.alive || home.host == &host);
  const bool needed = scenario_.job.min_nodes == scenario_.job.max_nodes && scenario_.job.places != Places::kNone;
  return host.options.config.has_cannot_start() && (!serves || needed);
}

void Invariants::OnStranger(const CoordinatorHome& home, rendezvous::State before, rendezvous::StreamId stream,
                            const rendezvous::Effects& effects) {
  if (home.core.state() != before) return Fail(5, absl::StrCat("a stranger moves coordinator ", home.id));
  int refusals = 0;
  for (const rendezvous::Effect& effect : effects) {
    if (std::holds_alternative<muster::Note>(effect)) continue;
    const auto* const sent = std::get_if<rendezvous::SendDirective>(&effect);
    const bool refuses = sent != nullptr && sent->stream == stream && sent->directive.has_refused();
    if (!refuses) return Fail(5, absl::StrCat("a stranger moves coordinator ", home.id));
    ++refusals;
  }
  if (refusals != 1) Fail(5, absl::StrCat("coordinator ", home.id, " answers a stranger ", refusals, " times"));
}

void Invariants::CheckRun(const CoordinatorHome& home, const HostProcess& to, const v1::Round& round,
                          bool arrives) {
  const RoundKey key = KeyOf(round.id());
  CoordinatorRecord& coordinator = coordinators_[home.id];
  if (key < coordinator.greatest) {
    return Fail(3, absl::StrCat("coordinator ", home.id, " tells round ", ToString(key), " after round ",
                                ToString(coordinator.greatest)));
  }
  coordinator.greatest = key;
  const bool is_new = rounds_.find(key) == rounds_.end();
  if (is_new && !rounds_.empty() && key.number <= rounds_.rbegin()->first.number) forgot_ = true;
  if (is_new) CheckNewRound(home, key);
  RoundRecord& record = rounds_[key];
  if (is_new) {
    record.world_size = round.world_size();
    record.node_count = round.node_count();
    record.master = muster::ToString(round.master());
    record.restart_count = round.restart_count();
    record.failures = round.failures();
    record.losses = round.loss_ages_ms_size();
  }
  if (!round.has_node_rank()) return;
  CheckRanks(key, record, to, round);
  if (arrives) CheckCounts(key, record, hosts_[to.id()], to);
}

// Invariant 1: ranks are 0..world-1, each held once; no two nodes are told different sizes or master endpoints.
void Invariants::CheckRanks(const RoundKey& key, RoundRecord& record, const HostProcess& to,
                            const v1::Round& round) {
  const std::string where = absl::StrCat("round ", ToString(key), ", told to ", to.id(), ": ");
  const auto differs = [&](const char* what, const auto& now, const auto& before) {
    if (now != before) Fail(1, absl::StrCat(where, what, " is ", now, ", was told as ", before));
  };
  differs("world size", round.world_size(), record.world_size);
  differs("node count", round.node_count(), record.node_count);
  differs("master endpoint", muster::ToString(round.master()), record.master);
  differs("restart count", round.restart_count(), record.restart_count);
  if (round.node_rank() < 0 || round.node_rank() >= round.node_count()) {
    return Fail(1, absl::StrCat(where, "node rank ", round.node_rank(), " of ", round.node_count()));
  }
  if (round.node_count() < scenario_.job.min_nodes || round.node_count() > scenario_.job.max_nodes) {
    return Fail(1, absl::StrCat(where, round.node_count(), " nodes, not within MIN:MAX"));
  }
  if (round.node_count() % scenario_.job.node_unit != 0) {
    return Fail(1, absl::StrCat(where, round.node_count(), " nodes, no multiple of ", scenario_.job.node_unit));
  }
  if (round.world_size() != round.node_count() * scenario_.job.slots) {
    return Fail(1, absl::StrCat(where, "world size ", round.world_size(), " is not the sum of its nodes' slots"));
  }
  const auto [node, fresh_node] = record.host_by_node_rank.emplace(round.node_rank(), to.id());
  if (node->second != to.id()) {
    return Fail(1, absl::StrCat(where, "node rank ", round.node_rank(), " is held by ", node->second));
  }
  for (int rank = round.first_rank(); rank < round.first_rank() + scenario_.job.slots; ++rank) {
    if (rank < 0 || rank >= round.world_size()) {
      return Fail(1, absl::StrCat(where, "rank ", rank, " of ", round.world_size()));
    }
    const auto [held, fresh] = record.host_by_rank.emplace(rank, to.id());
    if (held->second != to.id()) return Fail(1, absl::StrCat(where, "rank ", rank, " is held by ", held->second));
  }
  const auto held = std::count_if(record.host_by_rank.begin(), record.host_by_rank.end(),
                                  [&](const auto& entry) { return entry.second == to.id(); });
  if (held != scenario_.job.slots) Fail(1, absl::StrCat(where, "this host holds ", held, " ranks"));
}

// Invariant 3: the counts never shrink nor pass their budgets, and any set of failures in one round costs one.
void Invariants::CheckCounts(const RoundKey& key, const RoundRecord& record, HostRecord& host,
                             const HostProcess& to) {
  const std::string where = absl::StrCat("round ", ToString(key), ", told to ", to.id(), ": ");
  if (record.failures > scenario_.policy.max_restarts && scenario_.policy.restart_window == 0) {
    return Fail(
        3, absl::StrCat(where, record.failures, " failures, --max-restarts is ", scenario_.policy.max_restarts));
  }
  if (record.losses > scenario_.policy.max_node_losses) {
    return Fail(
        3, absl::StrCat(where, record.losses, " losses, --max-node-losses is ", scenario_.policy.max_node_losses));
  }
  // If a job forgot its history, two histories may meet again: the greater of each count applies.
  if (record.failures + record.losses > record.restart_count && !forgot_) {
    return Fail(3, absl::StrCat(where, record.failures, " failures and ", record.losses, " losses in ",
                                record.restart_count, " restarts: a round was charged twice"));
  }
  if (static_cast<uint64_t>(record.restart_count) >= key.number) {
    return Fail(3, absl::StrCat(where, record.restart_count, " restarts before round number ", key.number));
  }
  const auto failed =
      std::count_if(rounds_.begin(), rounds_.end(), [](const auto& entry) { return entry.second.failed; });
  if (record.failures > failed) {
    return Fail(3, absl::StrCat(where, record.failures, " failures charged, but only ", failed,
                                " rounds had a worker that failed"));
  }
  if (key < host.greatest_told && !forgot_) {  // if it forgot, no status with that round had arrived: see OnSpawn
    return Fail(3, absl::StrCat(where, "after round ", ToString(host.greatest_told)));
  }
  if (key > host.greatest_told && host.greatest_told.number != 0 && !forgot_) {
    if (record.restart_count <= host.restart_count || record.failures < host.failures) {
      return Fail(3, absl::StrCat(where, "counts shrank: ", record.restart_count, " restarts after ",
                                  host.restart_count, ", ", record.failures, " failures after ", host.failures));
    }
  }
  host.greatest_told = key;
  host.restart_count = record.restart_count;
  host.failures = record.failures;
}

// ---- workers

void Invariants::OnSpawn(const HostProcess& host, const v1::Round& round) {
  const RoundKey key = KeyOf(round.id());
  HostRecord& record = hosts_[host.id()];
  if (!record.spawned.insert(key).second) {
    return Fail(2, absl::StrCat(host.id(), " starts round ", ToString(key), " a second time"));
  }
  if (key < record.greatest_spawned) {
    return Fail(3, absl::StrCat(host.id(), " starts round ", ToString(key), " after round ",
                                ToString(record.greatest_spawned)));
  }
  record.greatest_spawned = key;
  const auto it = rounds_.find(key);
  if (it == rounds_.end())
    return Fail(1, absl::StrCat(host.id(), " starts round ", ToString(key), " that nobody made"));
  CheckRanks(key, it->second, host, round);
}

// Invariant 2: no worker of a round executes while one of a later round runs anywhere.
void Invariants::OnExec(const WorkerProcess& worker) {
  ++executing_[worker.round];
  if (executing_.size() > 1) {
    Fail(2, absl::StrCat("workers of two rounds execute at once: ", ToString(executing_.begin()->first), " (",
                         executing_.begin()->second, ") and ", ToString(executing_.rbegin()->first), "; ",
                         worker.host->name, ":", worker.local_rank, " has just begun round ",
                         ToString(worker.round)));
  }
}

void Invariants::OnExempt(const WorkerProcess& worker) { CountEnd(worker); }

void Invariants::CountEnd(const WorkerProcess& worker) {
  const auto it = executing_.find(worker.round);
  if (--it->second == 0) executing_.erase(it);
}

void Invariants::OnDeath(const WorkerProcess& worker, const host::Ending& ending, bool by_itself) {
  if (worker.executing && !worker.exempt) CountEnd(worker);
  if (!by_itself || worker.parent != nullptr) return;
  RoundRecord& round = rounds_[worker.round];
  if (ending.ok()) {
    round.ok_ranks.insert(worker.rank);
  } else {
    round.failed = true;
    failure_codes_.insert(CodeOf(ending));
  }
}

void Invariants::OnSentence(const RoundKey& round) {
  rounds_[round].failed = true;
  for (const int signal : {SIGABRT, SIGKILL}) failure_codes_.insert(128 + signal);
  hung_ = true;
}

void Invariants::OnFailureWithoutExit(const WorkerProcess& worker, int exit_code) {
  rounds_[worker.round].failed = true;
  failure_codes_.insert(exit_code);
}

// Invariant 6: the death of an agent, or of a coordinator that is soon reached again, ends no worker.
void Invariants::OnSignal(const HostProcess& host, int signal) {
  if (!scenario_.faults.only_agents_die || verdict_announced_) return;
  Fail(6, absl::StrCat(host.id(), " signals its workers (", signal, ") though only agents have died"));
}

// Invariant 7: processes that outlive a wrapper which got our signal have the rest of the grace.
void Invariants::OnSparedKilled(const WorkerProcess& training) {
  Fail(7, absl::StrCat(training.host->id(), " kills pid ", training.pid,
                       " within the grace: its wrapper ended after our signal"));
}

// ---- the verdict and the end

// Invariant 4: 0 only if every worker of one round exited 0 by itself.
void Invariants::CheckSuccess(const std::string& where) {
  for (const auto& [key, round] : rounds_) {
    if (round.world_size > 0 && static_cast<int>(round.ok_ranks.size()) == round.world_size) return;
  }
  Fail(4, absl::StrCat(where, " 0, but in no round did every worker exit 0 by itself"));
}

// Exempt: the platform restarted the primary, or a separate coordinator, after the verdict, when all nodes that
// knew the verdict had ended or stay cut off. The job runs again from its start and reaches another verdict, which
// must be the same on all nodes but those.
void Invariants::LookWhetherRunAgain(const CoordinatorHome& home) {
  const Micros born = home.host == nullptr ? home.born : home.host->born;
  const bool serves = home.host == nullptr || home.host->place == 0;
  // A coordinator that was restarted earlier, but heard only its dead predecessor's agent until then, counts as
  // new.
  const bool new_here = born > announced_at_ ||
                        (home.host != nullptr && home.host != announced_by_ && !home.host->memory.has_verdict());
  if (!verdict_announced_ || !serves || !new_here) return;
  const auto heard = [&](const HostProcess& host) {
    return std::any_of(home.sessions.begin(), home.sessions.end(), [&](const auto& entry) {
      return entry.second->agent->host == &host && entry.second->first_heard >= 0;
    });
  };
  std::set<std::string> know;
  for (const auto& host : cluster_->hosts()) {
    if (!host->alive || host->fate.zombie || host->finish.has_value() || !host->memory.has_verdict()) continue;
    if (heard(*host)) return;
    know.insert(host->id());
  }
  RunAgain(know);
}

void Invariants::RunAgain(const std::set<std::string>& know) {
  env_->Note("platform", "the job is run again: nobody here knows its verdict any more");
  verdict_announced_ = verdict_seen_ = died_knowing_ = false;
  verdict_.reset();
  know_an_earlier_verdict_.insert(know.begin(), know.end());
}

// Invariant 4: texts are sent once but reach every node: a host that names a failed worker has its texts.
void Invariants::CheckWords(const std::string& where, const v1::Verdict& verdict) {
  if (verdict.origin() != "worker" || failure_codes_.count(verdict.exit_code()) == 0) return;
  const v1::Failure& cause = verdict.root_cause();
  const std::string words = WordsOf(KeyOf(cause.round()), cause.rank());
  const bool of_its_host = !cause.error_text().empty() && !absl::StartsWith(cause.error_text(), "words of ");
  if (cause.error_text() == words || of_its_host) return;
  Fail(4, absl::StrCat(where, ": of the root cause it has \"", cause.error_text(), "\", not \"", words, "\""));
}

void Invariants::CheckVerdictTold(const CoordinatorHome& home, const v1::Verdict& verdict, bool is_new) {
  if (!verdict_announced_) {
    announced_at_ = env_->now();
    announced_by_ = home.host;
  }
  const bool is_carried = std::exchange(verdict_announced_, true);
  if (verdict.exit_code() == 0) return CheckSuccess("the verdict is");
  if (verdict.origin() == "worker" && failure_codes_.count(verdict.exit_code()) == 0) {
    Fail(4, absl::StrCat("the verdict's code ", verdict.exit_code(), " is no failed worker's"));
  }
  if (!verdict.brief()) CheckWords("the verdict", verdict);
  // A node that comes after the verdict may have been in a round, and a later coordinator may hear of both at
  // once.
  if (is_new && !is_carried && verdict.exit_code() == kExitNotFound && verdict.origin() == "muster")
    CheckCannotStart(home);
  if (verdict.exit_code() == kExitCancelled && verdict.origin() == "muster") {
    const auto& hosts = cluster_->hosts();
    const bool asked =
        std::any_of(hosts.begin(), hosts.end(), [](const auto& h) { return h->fate.asked_to_cancel; });
    if (!asked) Fail(4, "the verdict is 130, but nobody cancelled the job");
  }
}

// Invariant 5: a node that cannot start ends a job only before its first round, as far as the coordinator knows.
void Invariants::CheckCannotStart(const CoordinatorHome& home) {
  for (const auto& [stream, session] : home.sessions) {
    const HostProcess& host = *session->agent->host;
    if (session->first_heard < 0 || !IsSet(host.memory.last().id())) continue;
    return Fail(5, absl::StrCat("a node that cannot start ends the job, but ", host.id(), " was in round ",
                                ToString(KeyOf(host.memory.last().id()))));
  }
}

// Invariant 4: nodes are released only when all remaining ones have acknowledged the verdict.
void Invariants::CheckRelease(const CoordinatorHome& home) {
  for (const auto& [stream, session] : home.sessions) {
    const HostProcess& host = *session->agent->host;
    const bool left = host.fate.zombie || !host.alive || host.fate.asked_to_leave || host.fate.refused ||
                      session->refused || host.finish.has_value() || session->agent != host.agent;
    const bool heard = session->last_heard >= 0 && env_->now() - session->last_heard < scenario_.limits.lease / 2;
    const bool came_later = home.releasing_since >= 0 && session->first_heard > home.releasing_since;
    if (left || !heard || came_later || host.memory.has_verdict()) continue;
    return Fail(4, absl::StrCat("coordinator ", home.id, " releases, but ", host.id(),
                                ", which attends, has not acknowledged the verdict"));
  }
}

void Invariants::OnFinish(const HostProcess& host, const host::Finish& finish) {
  if (host.fate.zombie) return;
  const std::string who = absl::StrCat(host.id(), " exits ", finish.exit_code, " (", finish.reason, ")");
  const bool observer = host.place >= scenario_.job.nodes;
  const bool left = (host.fate.asked_to_leave && finish.exit_code == kExitLeft) ||
                    (host.fate.asked_to_cancel && finish.exit_code == kExitCancelled);
  if (finish.exit_code == 0 && !observer) CheckSuccess(absl::StrCat(who, ":"));
  if (!finish.verdict.has_value()) {
    if (!left) CheckExitWithoutVerdict(host, finish, who);
    return;
  }
  CheckWords(who, *finish.verdict);
  const int code = finish.verdict->exit_code();
  if (finish.exit_code != code && !left && !(observer && finish.exit_code == 0)) {
    return Fail(4, absl::StrCat(who, ": the verdict's code is ", code));
  }
  if (know_an_earlier_verdict_.count(host.id()) != 0) {
    earlier_verdict_seen_ = true;
    return;
  }
  verdict_seen_ = true;
  CheckSameVerdict(absl::StrCat(who, ":"), host.id(), *finish.verdict);
}

// A verdict that reached no node does not count. An isolated primary that was replaced may reach its own verdict,
// which only its own node gets.
void Invariants::OnVerdictStored(const HostProcess& host, const v1::Verdict& verdict) {
  if (host.fate.zombie || know_an_earlier_verdict_.count(host.id()) != 0) return;
  CheckSameVerdict(absl::StrCat(host.id(), " is told:"), host.id(), verdict);
}

void Invariants::CheckSameVerdict(const std::string& where, const std::string& by, const v1::Verdict& verdict) {
  if (!verdict_) verdict_ = Verdict{verdict.exit_code(), verdict.origin(), by};
  if (verdict.exit_code() == verdict_->code && verdict.origin() == verdict_->origin) return;
  Fail(4, absl::StrCat(where, " verdict ", verdict.exit_code(), " of ", verdict.origin(), ", but ", verdict_->by,
                       " saw ", verdict_->code, " of ", verdict_->origin));
}

// Invariant 5: no node exits before the verdict except by signal, after the coordinator timeout, by a refusal, or
// with 70 after repeated deaths of its agents, or if all of them were frozen, or its first could not be started.
void Invariants::CheckExitWithoutVerdict(const HostProcess& host, const host::Finish& finish,
                                         const std::string& who) {
  const bool observer = host.place >= scenario_.job.nodes;
  const Micros silent_now = env_->now() - std::max(host.born, host.contact.last_directive);
  const Micros silence = std::max(silent_now, host.contact.silence_before_exit);
  const Micros limit = std::min(scenario_.limits.coordinator_timeout, scenario_.limits.join_timeout) * 9 / 10;
  if (host.fate.gave_up_port && finish.exit_code == kExitUnavailable) return;
  // A host in a container of its own decides some time before it ends; an agent may come meanwhile, and answers.
  constexpr Micros kFromDecisionToEnd = kSecond + 200 * kMillisecond;  // host::kLeaveReportLimit, and two ticks
  const bool agent_came_late = host.split() && !host.agent_starts.empty() &&
                               env_->now() - host.agent_starts.back() <= kFromDecisionToEnd &&
                               finish.reason.starts_with("no agent from the sidecar");
  if (finish.exit_code == kExitUnavailable || (observer && finish.exit_code == 0)) {
    if (silence >= limit || agent_came_late) return;
    return Fail(5, absl::StrCat(who, " without a verdict, though its coordinator was heard ",
                                silence / kMillisecond, " ms ago"));
  }
  if (host.fate.refused && finish.exit_code == kExitNotFound) return;
  if (host.fate.refused_elsewhere && finish.exit_code == kExitRefused) return;
  const bool agents_died =
      host.fate.agents_struck >= host::kMaxAgentRestarts && host.agent_starts.size() >= host::kMaxAgentRestarts;
  const bool had_no_agent = host.agent == nullptr && host.agent_starts.size() == 1 && host.fate.agents_struck == 1;
  const bool agents_were_silent = host.agent_starts.size() > 2 &&
                                  host.fate.agents_struck >= static_cast<int>(host.agent_starts.size()) &&
                                  finish.reason.starts_with("no agent has responded");
  if (finish.exit_code == kExitFault && (agents_died || agents_were_silent || had_no_agent)) return;
  Fail(5, absl::StrCat(who, " without a verdict"));
}

void Invariants::OnHostDeath(const HostProcess& host) {
  const bool exits_with_it = host.finish.has_value() && host.finish->verdict.has_value();
  if (!exits_with_it && host.memory.has_verdict()) died_knowing_ = true;
}

void Invariants::OnSettled() {
  // Exempt: the nodes that knew the verdict knew only an earlier one, or were killed by a fault before their exit.
  if (!verdict_seen_ && (earlier_verdict_seen_ || died_knowing_)) return;
  if (!verdict_seen_) return Fail(5, "every host has ended, and none with a verdict");
  // If a script stops a node for long the kernel's timer ends it, and not every node is replaced. And nodes that
  // are led elsewhere or cut off may be missing at the moment when a gathering ends.
  const Script script = scenario_.script.kind;
  const bool disturbs = script == Script::kFreezeWholeNode || script == Script::kWakeAfterExit ||
                        script == Script::kSplitNames || script == Script::kCutOffTogether;
  const bool undisturbed = scenario_.faults.total_weight() == 0 && scenario_.quiet_but_for_weights() &&
                           scenario_.unwelcome.cannot_start_percent == 0 && !disturbs;
  if ((scenario_.faults.only_agents_die || undisturbed) && scenario_.workers.fails_percent == 0 &&
      verdict_code() != 0 && !hung_) {
    Fail(5, absl::StrCat("nothing failed, but the verdict is ", verdict_code()));
  }
}

void Invariants::OnNotSettled() {
  std::string alive;
  for (const auto& host : cluster_->hosts()) {
    if (host->alive) absl::StrAppend(&alive, " ", host->id());
  }
  Fail(5, absl::StrCat("no end within the bound after faults had ended; still there:", alive));
}

}  // namespace muster::simulation
