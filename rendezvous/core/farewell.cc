// The farewell: what a coordinator that ends with its node hands to the next one.
//
// A successor knows nothing. It assumes that every member of the round that has not reconnected holds a lease, the
// former primary first of all, and waits for that lease. But if only the main process of the primary's node died,
// its agent has ended everything that it had started, and the coordinator in that agent lives for a moment longer.
// It tells all nodes that the primary has ended (PrimaryEnded), they keep this, and the successor hears it from
// them.
//
// Why this is safe: a round that the successor cannot see was made by a coordinator that lived in between, and
// there are three cases.
// - That coordinator used the farewell itself. Then all nodes that received the farewell follow its epoch and
//   report it.
// - It waited for lease and margin, as every coordinator does that hears of any round or epoch. Then the farewell,
//   which was given before that wait began, is too old.
// - It met only nodes that had never heard of this job. If one of those reached the successor, it would report
//   that epoch. If none does, all nodes but the attached ones were replaced at once, which no coordinator could
//   detect.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {

// Called when `own` reports HOST_GONE. True if it is the primary's host and a farewell is due, or under way,
// before its agent may exit.
bool Coordinator::BeginFarewell(BootTime now, const Host& own) {
  if (farewell_) {  // the agent has repeated its status
    if (farewell_->stream != own.stream) return false;
    farewell_->echo = own.status.id();
    return true;
  }
  const bool round_lives = state_ == State::kRunning || state_ == State::kDraining || state_ == State::kGathering;
  const bool made_here =
      round_owned_by_this_epoch_ && IsSet(greatest_.id()) && Same(greatest_.id().epoch(), epoch_);
  if (!own.status.at_primary() || !options_.leased() || options_.primary_by_port || !round_lives || !made_here ||
      !WasMember(own) || own.succeeded || strayed_) {
    return false;
  }
  int known_to = 0;
  for (auto& [id, host] : hosts_) {
    if (&host == &own || !IsTrainer(host)) continue;
    if (host.stream == 0) return false;
    ++known_to;
  }
  if (known_to == 0) return false;
  Farewell farewell;
  const bool made_for_it =
      Same(own.round.id(), greatest_.id());  // else it rejoined the round and reports its rank
  farewell.word.set_node_rank(made_for_it ? own.round.node_rank() : own.status.last().node_rank());
  *farewell.word.mutable_by() = epoch_;
  farewell.word.set_known_to(known_to);
  farewell.stream = own.stream;
  farewell.echo = own.status.id();
  farewell.before = seq_;
  farewell.since = now;
  farewell.ended_at = own.last_status_at - absl::Milliseconds(own.status.host_gone_ms());
  farewell_ = farewell;
  for (auto& [id, host] : hosts_) {
    // Nodes that attach later are left out: otherwise one could be counted in place of a node of this audience.
    host.in_farewell_audience = IsTrainer(host);
    host.order_sent = -1;  // send at once
  }
  return true;
}

// Releases the agent of this process when the whole audience has the farewell, or after kFarewellLimit.
void Coordinator::EndFarewell(BootTime now, Effects* out) {
  if (!farewell_ || farewell_->stream == 0) return;
  const bool all_know = std::all_of(hosts_.begin(), hosts_.end(), [this](const auto& entry) {
    const Host& host = entry.second;
    return !host.in_farewell_audience || (Fresh(host) && host.status.applied().seq() > farewell_->before);
  });
  if (!all_know && now < farewell_->since + kFarewellLimit) return;
  v1::Directive directive = NextDirective(farewell_->echo);
  directive.mutable_release()->set_exit_code(kExitLeft);
  out->push_back(SendDirective{farewell_->stream, std::move(directive)});
  farewell_->stream = 0;
}

// This coordinator never passes a predecessor's farewell on, so a node that reports one has it from that
// predecessor.
void Coordinator::LearnFarewell(Host& host) {
  const v1::Round& last = host.status.last();
  if (round_owned_by_this_epoch_ || !last.has_primary_ended() || !Same(last.id(), greatest_.id())) return;
  const absl::Duration age = absl::Milliseconds(last.primary_ended().age_ms());
  word_left_ = last.primary_ended();
  primary_ended_at_ = std::min(primary_ended_at_, host.last_status_at - age);
  host.told_by_predecessor |= age <= options_.lease;
}

// Describes the end of the predecessor's node; nullopt: there was no farewell, or that node's rank is accounted
// for.
std::optional<std::string> Coordinator::HowPrimaryEnded() const {
  if (round_owned_by_this_epoch_ || !word_left_ || AccountedFor().count(word_left_->node_rank()) > 0) {
    return std::nullopt;
  }
  return absl::StrCat("node ", word_left_->node_rank(), " was lost: its main process died");
}

// True if the farewell is valid and its whole audience is back: the former primary's lease need not be waited for.
bool Coordinator::PrimaryIsKnownEnded() const {
  if (round_owned_by_this_epoch_ || !word_left_ || predecessors_differ_ || !Same(word_left_->by(), predecessor_)) {
    return false;
  }
  const auto told = std::count_if(hosts_.begin(), hosts_.end(), [this](const auto& entry) {
    const Host& host = entry.second;
    return host.told_by_predecessor && host.stream != 0 && Fresh(host);
  });
  return told >= word_left_->known_to();
}

}  // namespace muster::rendezvous
