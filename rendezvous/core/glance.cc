#include "rendezvous/core/glance.h"

#include "rendezvous/core/job.h"

namespace muster::rendezvous {

const Members& Glance::members() const {
  if (!members_) members_ = LookAtMembers(job);
  return *members_;
}

const std::vector<Candidate>& Glance::ready_nodes() const {
  if (!ready_nodes_) ready_nodes_ = ReadyCandidates(job);
  return *ready_nodes_;
}

const std::vector<Candidate>& Glance::candidates() const {
  if (!candidates_) candidates_ = WithoutSetAside(now, job, ready_nodes());
  return *candidates_;
}

bool Glance::all_are_here() const {
  return static_cast<int>(ready_nodes().size()) + job.CountCannotStart() >= job.options.max_nodes;
}

const Arriving& Glance::arriving() const {
  if (!arriving_) arriving_ = WhoArrives(now, job);
  return *arriving_;
}

const std::optional<StopReason>& Glance::why_stop() const {
  if (!why_stop_) why_stop_ = WhyStop(now, job);
  return *why_stop_;
}

bool Glance::is_drained() const {
  if (!is_drained_) is_drained_ = RoundIsDrained(now, job);
  return *is_drained_;
}

const RoundAccount& Glance::account() const {
  if (!account_) account_ = AccountOf(now, job);
  return *account_;
}

}  // namespace muster::rendezvous
