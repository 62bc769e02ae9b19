#include "rendezvous/core/host.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/crypto/held.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {
namespace {

void KeepTextsLeftOut(v1::Failure* before, v1::Failure* now) {
  if (!now->texts_left_out() || before->texts_left_out()) return;
  if (now->texts_digest() == before->texts_digest()) MoveTexts(before, now);
}

bool IsActive(v1::Phase phase) {
  return phase == v1::PHASE_STARTING || phase == v1::PHASE_RUNNING || phase == v1::PHASE_STOPPING;
}

}  // namespace

std::string Foreign(const std::string& text) { return CutUtf8(OneLine(text), kMaxForeignText); }

// ---- Exchange -----------------------------------------------------------------------------------------------

bool BringsSuccess(const v1::AgentStatus& status) {
  return status.has_verdict() && status.verdict().exit_code() == 0;
}

void Exchange::NoteSent(uint64_t seq, BootTime now, int order) {
  last_sent = seq;
  order_sent = order;
  if (counts_from == 0) counts_from = seq;
  sent_.emplace_back(seq, now);
  if (sent_.size() > kMaxRememberedSends) sent_.pop_front();
}

void Exchange::NoteApplied(uint64_t seq) {
  if (events_seq != 0 && seq >= events_seq) {
    events_held = events_sent;
    events_seq = 0;
  }
  while (!sent_.empty() && sent_.front().first < seq) sent_.pop_front();
  if (!sent_.empty() && sent_.front().first == seq) echoed_sent_at = sent_.front().second;
}

void Exchange::BeginEpoch() {
  echoed_sent_at = absl::InfinitePast();
  counts_from = run_seq = stop_seq = release_seq = 0;
  events_seq = 0;
  order_sent = -1;
  sent_.clear();
}

// ---- what it reports ----------------------------------------------------------------------------------------

void Host::Store(const v1::AgentStatus& newest) {
  v1::AgentStatus before;
  before.Swap(&status);
  status = newest;
  status.set_hostname(Foreign(newest.hostname()));
  // These texts become parts of longer ones that go to every node, and nodes refuse a text that is too long
  // (base/wire/ranges.h).
  status.set_trouble(CutUtf8(newest.trouble(), kMaxTroubleText));
  status.set_preparing(CutUtf8(newest.preparing(), kMaxTroubleText));
  status.set_how_host_ended(CutUtf8(newest.how_host_ended(), kMaxTroubleText));
  if (newest.has_failure()) KeepTextsLeftOut(before.mutable_failure(), status.mutable_failure());
  if (newest.has_cannot_start()) {
    KeepTextsLeftOut(before.mutable_cannot_start(), status.mutable_cannot_start());
  }
}

// Facts arrive once in each session, so they are stored apart from the newest status.
void Host::TakeFacts() {
  facts.clear();
  const bool fixed = status.min_nodes() == status.max_nodes();
  facts["muster's version"] = status.version();
  facts["--nnodes"] = absl::StrCat(fixed ? "" : absl::StrCat(status.min_nodes(), ":"), status.max_nodes());
  for (const auto& [name, value] : status.facts()) {
    if (facts.size() >= kMaxFacts) break;
    facts.emplace(CutUtf8(name, kMaxFactBytes), CutUtf8(value, kMaxFactBytes));
  }
  status.clear_facts();
}

void Host::ForgetDetailsOfVerdict() {
  if (!status.has_verdict()) return;
  v1::Verdict kept;  // a message that is cleared keeps its memory
  kept.set_exit_code(status.verdict().exit_code());
  kept.set_digest(status.verdict().digest());
  *status.mutable_verdict() = std::move(kept);
}

// A delayed status makes its failure look later than it was. A node whose clock runs fast makes it look earlier,
// the more so the longer a drain lasts; so as much of the age is left out as its clock may be wrong. Then no
// estimate is too early, and the earliest one is kept.
void Host::NoteFailure(BootTime now) {
  if (!status.has_failure()) return;
  const v1::Failure& failure = status.failure();
  const absl::Duration age = absl::Milliseconds(std::max<int64_t>(0, failure.age_ms()));
  const BootTime at = now - (age - age / kClockError);
  failed_at = Same(failed_round, failure.round()) ? std::min(failed_at, at) : at;
  failed_round = failure.round();
}

void Host::NoteLossSign(BootTime when) { part.lost_at = std::min(part.lost_at, when); }

void Host::PostponeDeadlines(absl::Duration shift) {
  silence_measured_from += shift;
  closed_at += shift;
  lease_until += shift;
  exchange.run_sent_at += shift;
}

bool Host::IsIdle() const { return !IsActive(status.phase()) && status.live_workers() == 0; }

bool Host::RunsSomething() const { return !IsIdle() && !IsUnusable(); }

bool Host::HasAcknowledged(const v1::Verdict& verdict) const {
  const bool knows = status.has_verdict() && status.verdict().digest() == verdict.digest();
  return knows && (IsIdle() || IsUnusable());
}

bool Host::Follows(const v1::Epoch& epoch) const {
  return Same(status.applied().epoch(), epoch) && exchange.counts_from != 0;
}

bool Host::IsCurrent(const v1::Epoch& epoch) const {
  return Follows(epoch) && status.applied().seq() >= exchange.counts_from;
}

bool Host::HasAppliedRelease(const v1::Epoch& epoch) const {
  return exchange.release_seq != 0 && Follows(epoch) && status.applied().seq() >= exchange.release_seq;
}

// ---- texts --------------------------------------------------------------------------------------------------

bool Host::HasRank(int rank) const {
  const int first = part.round.first_rank();
  return part.in_round && rank >= first && rank < first + part.workers;
}

std::string Host::Name() const {
  return absl::StrCat("node ", part.round.node_rank(), " (", status.hostname(), ")");
}

std::string Host::WhyItLeft() const {
  const bool says = IsLeaving() && !status.trouble().empty();
  return says ? absl::StrCat("asked to leave: ", status.trouble()) : "asked to leave";
}

// With no live worker the node is not fit, and its report already contains its hostname; otherwise old workers
// cannot be ended.
std::string WhyUnusable(const v1::AgentStatus& status) {
  const std::string& why = status.trouble();
  if (why.empty()) return absl::StrCat(status.hostname(), " is unusable");
  return status.live_workers() == 0 ? why : absl::StrCat(status.hostname(), " is unusable: ", why);
}

}  // namespace muster::rendezvous
