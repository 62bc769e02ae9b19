// Texts that need not travel again, in either direction: those of a failure, and a verdict's details. They have
// many KiB, belong to every heartbeat until the next round or the end of the job, and come from thousands of nodes
// at once.
#include "base/held.h"

#include <utility>

#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {

namespace {

void KeepTextsLeftOut(v1::Failure* before, v1::Failure* now) {
  if (!now->texts_left_out() || before->texts_left_out()) return;
  if (now->texts_digest() == before->texts_digest()) MoveTexts(before, now);
}

}  // namespace

// Replaces the stored status by the newest one, but keeps the texts that this one leaves out.
void Coordinator::StoreStatus(const v1::AgentStatus& status, Host* host) const {
  v1::AgentStatus before;
  before.Swap(&host->status);
  host->status = status;
  host->status.set_hostname(Foreign(status.hostname()));
  if (status.has_failure()) KeepTextsLeftOut(before.mutable_failure(), host->status.mutable_failure());
  if (status.has_cannot_start()) {
    KeepTextsLeftOut(before.mutable_cannot_start(), host->status.mutable_cannot_start());
  }
}

// From this status, or from an earlier one of the same host whose texts this status leaves out.
std::string Coordinator::WhyItCannotStart(const v1::AgentStatus& status) const {
  const auto host = hosts_.find(status.host_id());
  const bool earlier = status.cannot_start().texts_left_out() && host != hosts_.end();
  const v1::Failure& failure = earlier ? host->second.status.cannot_start() : status.cannot_start();
  return failure.error_text().empty() ? "it cannot start its program" : Foreign(failure.error_text());
}

// A brief verdict is binding even if this coordinator does not hold its details. These may still come from another
// host.
void Coordinator::LearnVerdict(BootTime now, const v1::Verdict& verdict, Effects* out) {
  if (!verdict_) return Conclude(now, verdict, out);
  if (verdict_->brief() && !verdict.brief() && verdict_->digest() == verdict.digest()) verdict_ = verdict;
}

void Coordinator::SetHeldDigests(const Host& host, v1::Directive* directive) const {
  const v1::Failure& failure = host.status.failure();
  if (!failure.texts_left_out()) directive->set_held_failure_texts(failure.texts_digest());
  const v1::Failure& cannot_start = host.status.cannot_start();
  if (!cannot_start.texts_left_out()) directive->set_held_cannot_start_texts(cannot_start.texts_digest());
  if (verdict_ && !verdict_->brief()) directive->set_held_verdict(verdict_->digest());
}

v1::Verdict Coordinator::VerdictFor(const Host& host) const {
  const bool held = host.status.has_verdict() && host.status.verdict().digest() == verdict_->digest();
  return held ? Brief(*verdict_) : *verdict_;
}

}  // namespace muster::rendezvous
