#include "rendezvous/core/testimony.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crypto/digest.h"
#include "base/ids.h"
#include "rendezvous/core/gathering.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

bool IsGreatest(const Job& job, const v1::Round& round) {
  return Same(round.id(), job.greatest.id()) && round.members() == job.greatest.round.members();
}

// Its word is no better than silence: a dead host's agent heard of nothing since.
bool IsNoWitness(const Host& host) { return !host.IsTrainer() || host.IsGone() || !host.HadAPart(); }

// It had a part in a round, and what it knows cannot be if the greatest round is what others say it is.
bool ContradictsRound(const Job& job, const Host& host) {
  if (IsNoWitness(host) || !job.Follows(host) || job.Claims(host)) return false;
  const v1::Round& last = host.status.last();
  const int order = Compare(last.id(), job.greatest.id());
  return order < 0 || (order == 0 && (last.has_node_rank() || !IsGreatest(job, last)));
}

// The same for a success, which whoever carries it dates to this round.
bool ContradictsSuccess(const v1::RoundId& round, const Host& host) {
  const v1::AgentStatus& status = host.status;
  if (IsNoWitness(host) || BringsSuccess(status)) return false;
  if (Compare(status.last().id(), round) < 0) return true;
  return status.last().has_node_rank() && status.outcome() != v1::OUTCOME_SUCCEEDED;
}

// One node that contradicts is remembered, also while it is away, until it has heard of the round after all. A
// node that still runs another round proves more: no round begins while workers of another may run.
void HearContradictions(Job* job) {
  GreatestRound& round = job->greatest;
  const Host* const before = job->hosts.Find(round.contradicted_by);
  if (before != nullptr && !ContradictsRound(*job, *before)) round.contradicted_by.clear();
  for (const auto& [id, host] : std::as_const(job->hosts)) {
    if (!ContradictsRound(*job, host)) continue;
    if (round.contradicted_by.empty()) round.contradicted_by = id;
    if (host.RunsSomething()) return round.Doubt(absl::StrCat(host.status.hostname(), " runs another one"));
  }
}

// A whole job's nodes are here that came without knowing of any round or coordinator: it begins, or all of it was
// started again. Then to run again is the lesser harm.
bool NewNodesFill(const Job& job) {
  const std::vector<Candidate> ready = ReadyCandidates(job);
  const auto is_new = [&job](const Candidate& candidate) { return job.hosts.Find(candidate.host_id)->came_new; };
  return std::count_if(ready.begin(), ready.end(), is_new) >= job.options.max_nodes;
}

std::string NameOf(const Job& job, const std::string& host_id) {
  const Host* const host = job.hosts.Find(host_id);
  return host == nullptr ? "a node that has left" : host->status.hostname();
}

// By then every node has returned that may hold a lease of the predecessor.
BootTime AllHadTimeAt(const Job& job) {
  const Succession& succession = job.succession;
  return job.options.leased() ? succession.members_known_until() : succession.epoch_start() + kUnleasedReturn;
}

bool IsDue(BootTime now, const Job& job) {
  const absl::Duration unread = job.options.lease + job.options.margin();
  return now >= std::max(AllHadTimeAt(job), job.carried->since + unread);
}

}  // namespace

std::string MembersDigest(const std::map<int, std::string>& members) {
  std::string text;
  for (const auto& [rank, host_id] : members) absl::StrAppend(&text, rank, ":", host_id, "\n");
  return ShortHash(text);
}

void WeighRound(BootTime now, Job* job) {
  GreatestRound& round = job->greatest;
  if (!round.IsKnown() || round.is_ours || round.belief == Belief::kDoubted) return;
  if (!round.members_are_proved && static_cast<int>(round.members.size()) == round.node_count()) {
    round.members_are_proved = MembersDigest(round.members) == round.round.members();
    if (!round.members_are_proved) return round.Doubt("its members are not those that report to be");
  }
  if (round.belief == Belief::kBelieved) return;
  const Host* const own = job->OwnHost();
  if (own != nullptr && IsGreatest(*job, own->status.last())) {
    round.belief = Belief::kBelieved;
    return;
  }
  const bool all_had_time = now >= AllHadTimeAt(*job);
  if (job->options.in_agent && own == nullptr && !all_had_time) return;
  HearContradictions(job);
  if (round.belief == Belief::kDoubted || !all_had_time) return;
  if (round.AllSucceeded() && NewNodesFill(*job)) {
    round.Doubt("as many nodes as the job has are new and know nothing of it");
  } else if (round.contradicted_by.empty()) {
    round.belief = Belief::kBelieved;
  } else if (round.AllSucceeded()) {
    round.Doubt(absl::StrCat(NameOf(*job, round.contradicted_by), " knows nothing of it"));
  }
}

std::string WhoContradictsSuccess(const Job& job) {
  const std::string& host_id = job.carried->contradicted_by;
  return host_id.empty() ? "that a whole job's nodes are here and all new" : NameOf(job, host_id);
}

bool WeighsASuccess(const Job& job) { return job.carried && !job.verdict; }

Belief WeighSuccess(BootTime now, Job* job) {
  CarriedSuccess& carried = *job->carried;
  const Host* const before = job->hosts.Find(carried.contradicted_by);
  if (before != nullptr && !ContradictsSuccess(carried.round, *before)) carried.contradicted_by.clear();
  for (const auto& [id, host] : std::as_const(job->hosts)) {
    if (!ContradictsSuccess(carried.round, host)) continue;
    if (carried.contradicted_by.empty()) carried.contradicted_by = id;
    // It runs on what this coordinator has told it, so the job goes on in any case.
    if (host.RunsSomething() && job->Follows(host)) return Belief::kDoubted;
  }
  if (!IsDue(now, *job)) return Belief::kOpen;
  return carried.contradicted_by.empty() && !NewNodesFill(*job) ? Belief::kBelieved : Belief::kDoubted;
}

}  // namespace muster::rendezvous
