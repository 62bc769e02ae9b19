// What a host need not repeat, and need not be told again: a failure's texts and a verdict's details. Both are
// many KiB, stay in every beat until the next round or the end, and come from thousands of nodes at once.
#include "proto/base/held.h"

#include <utility>

#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {

// The newest status takes the place of the one before, but the texts that it leaves out stay.
void Coordinator::StoreStatus(const v1::AgentStatus& status, Host* host) const {
  v1::Failure before;
  if (host->status.has_failure()) before.Swap(host->status.mutable_failure());
  host->status = status;
  host->status.set_hostname(Foreign(status.hostname()));
  const v1::Failure& failure = host->status.failure();
  if (!failure.texts_left_out() || before.texts_left_out()) return;
  if (failure.texts_digest() != before.texts_digest()) return;
  MoveTexts(&before, host->status.mutable_failure());
}

// One that came in brief, to a coordinator that does not hold it, is as binding as any other. Its details may
// still come from another host.
void Coordinator::LearnVerdict(BootTime now, const v1::Verdict& verdict, Effects* out) {
  if (!verdict_) return Conclude(now, verdict, out);
  if (verdict_->brief() && !verdict.brief() && verdict_->digest() == verdict.digest()) verdict_ = verdict;
}

void Coordinator::SetHeldDigests(const Host& host, v1::Directive* directive) const {
  const v1::Failure& failure = host.status.failure();
  if (!failure.texts_left_out()) directive->set_held_failure_texts(failure.texts_digest());
  if (verdict_ && !verdict_->brief()) directive->set_held_verdict(verdict_->digest());
}

v1::Verdict Coordinator::VerdictFor(const Host& host) const {
  const bool held = host.status.has_verdict() && host.status.verdict().digest() == verdict_->digest();
  return held ? Brief(*verdict_) : *verdict_;
}

}  // namespace muster::rendezvous
