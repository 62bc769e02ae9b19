#include "tests/simulation/liars.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "base/ranges.h"
#include "rendezvous/core/testimony.h"

namespace muster::simulation {
namespace {

constexpr uint64_t kStream = 0x11A25;  // of random numbers: other choices of a seed stay as they are
constexpr int kNewConnectionPercent = 10;

bool SomeoneKnowsARound(const CoordinatorHome& home) {
  const auto& hosts = home.core.job().hosts;
  return std::any_of(hosts.begin(), hosts.end(), [](const auto& entry) {
    return !absl::StartsWith(entry.first, "liar-") && entry.second.status.last().has_node_rank();
  });
}

// As old as may be, of the same losses and failures.
void DrawOldTimes(v1::Round* round) {
  round->set_age_ms(kMaxAge);
  for (int64_t& age : *round->mutable_loss_ages_ms()) age = kMaxAge;
  for (int64_t& age : *round->mutable_failure_ages_ms()) age = kMaxAge;
  for (v1::Exclusion& exclusion : *round->mutable_excluded()) exclusion.set_left_ms(-kMaxAge);
}

}  // namespace

Liars::Liars(Environment* env, Cluster* cluster, Invariants* invariants)
    : env_(env), cluster_(cluster), invariants_(invariants), prng_(env->scenario().seed ^ kStream) {
  for (size_t i = 0; i < liars_.size(); ++i) liars_[i].host_id = absl::StrCat("liar-", i);
}

void Liars::Lie() {
  CoordinatorHome* const home = cluster_->CurrentHome();
  if (home == nullptr || !home->owner->runs()) return;
  Liar& liar = liars_[prng_.Below(liars_.size())];
  if (liar.home != home || prng_.Chance(kNewConnectionPercent)) Connect(home, &liar);
  ++liar.seq;
  const v1::AgentStatus status = Draw(*home, liar);
  env_->Note("liar", absl::StrCat(liar.host_id, " -> c", home->id, " ", v1::Phase_Name(status.phase()), " last ",
                                  ToString(KeyOf(status.last().id())), " ", v1::Outcome_Name(status.outcome()),
                                  status.has_verdict() ? " verdict" : ""));
  const v1::RoundId before = home->core.greatest().id();
  home->Feed(&rendezvous::Coordinator::OnStatus, liar.stream, status);
  const v1::RoundId& after = home->core.greatest().id();
  if (!Same(before, after) && Same(after, status.last().id()) && !invariants_->Knows(after)) {
    invariants_->OnInventedRound(after);
  }
}

void Liars::Leave() {
  for (Liar& liar : liars_) {
    if (liar.home != nullptr) liar.home->Feed(&rendezvous::Coordinator::OnClosed, liar.stream);
    liar.home = nullptr;
  }
}

void Liars::Connect(CoordinatorHome* home, Liar* liar) {
  if (liar->home != nullptr) liar->home->Feed(&rendezvous::Coordinator::OnClosed, liar->stream);
  liar->home = home;
  liar->stream = home->next_stream++;
  ++liar->agent_number;
  liar->seq = 0;
}

v1::AgentStatus Liars::Draw(const CoordinatorHome& home, const Liar& liar) {
  v1::AgentStatus status;
  status.set_run_id("simulated");
  status.set_protocol(kProtocol);
  status.set_host_id(liar.host_id);
  status.set_hostname(liar.host_id);
  status.mutable_id()->set_agent_number(liar.agent_number);
  status.mutable_id()->set_seq(liar.seq);
  status.set_role(prng_.Chance(90) ? v1::ROLE_TRAINER : v1::ROLE_OBSERVER);
  status.set_slots(1);
  status.set_at_primary(prng_.Chance(5));
  *status.mutable_epoch() = *status.mutable_applied()->mutable_epoch() = home.core.epoch();
  status.mutable_applied()->set_seq(prng_.Below(1000));
  if (prng_.Chance(10)) status.mutable_epoch()->set_number(home.core.epoch().number() + 1);
  status.set_phase(static_cast<v1::Phase>(prng_.Between(v1::PHASE_READY, v1::PHASE_HOST_GONE)));
  status.set_live_workers(static_cast<int>(prng_.Below(2)));
  status.set_outcome(static_cast<v1::Outcome>(prng_.Below(v1::Outcome_ARRAYSIZE)));
  if (prng_.Chance(75)) *status.mutable_last() = DrawRound(home, liar);
  if (!SomeoneKnowsARound(home)) {
    DrawAsFirst(&status);
    return status;
  }
  if (home.core.job().greatest.owned) true_number_ = std::max(true_number_, home.core.greatest().id().number());
  if (prng_.Chance(25)) {
    status.mutable_verdict()->set_digest(1 + prng_.Below(3));
    status.mutable_verdict()->set_origin("muster");
  }
  if (home.core.verdict() && prng_.Chance(50)) Distort(*home.core.verdict(), status.mutable_verdict());
  return status;
}

// The result that all know already, but the other way round.
void Liars::Distort(const v1::Verdict& known, v1::Verdict* verdict) {
  *verdict = known;
  verdict->set_exit_code(known.exit_code() == 0 ? 1 : 0);
  verdict->set_brief(prng_.Chance(50));
}

// It comes before whoever knows the true round. The word of a lone witness of success is believed, and whoever
// names a round beyond the true one is taken for the only one that knows it (docs/security.md): so it names an
// older one, and no success.
void Liars::DrawAsFirst(v1::AgentStatus* status) {
  if (!status->has_last() || true_number_ < 2) return status->clear_last();
  status->mutable_last()->mutable_id()->set_number(1 + prng_.Below(true_number_ - 1));
  if (status->outcome() == v1::OUTCOME_SUCCEEDED) status->set_outcome(v1::OUTCOME_FAILED);
}

// The newest round, of which it claims any part, or a later one of its own.
v1::Round Liars::DrawRound(const CoordinatorHome& home, const Liar& liar) {
  v1::Round round = home.core.greatest();
  round.clear_node_rank();
  if (!IsSet(round.id()) || prng_.Chance(50)) {
    round.mutable_id()->set_number(round.id().number() + 1 + prng_.Below(2));
    *round.mutable_id()->mutable_epoch() = home.core.epoch();
    // Rounds of its own the coordinator knows; another coordinator's may be any.
    if (prng_.Chance(80)) round.mutable_id()->mutable_epoch()->set_random(prng_.Next());
    round.set_node_count(static_cast<int>(prng_.Between(1, env_->scenario().job.max_nodes)));
  }
  if (prng_.Chance(80))
    round.set_node_rank(static_cast<int>(prng_.Below(static_cast<uint64_t>(round.node_count()))));
  if (prng_.Chance(20)) DrawOldTimes(&round);
  if (prng_.Chance(50)) round.set_members(rendezvous::MembersDigest({{round.node_rank(), liar.host_id}}));
  return round;
}

}  // namespace muster::simulation
