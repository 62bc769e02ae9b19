// What a coordinator that ends with its node leaves to the one after it. A successor knows nothing: it takes every
// member of the round that is not back for one that holds a lease, the former primary first of all, and waits for
// that lease. But if only the main process of the primary's node died, its agent has ended all that it had
// started, and the coordinator in that agent lives for a moment more: it tells everybody, they keep it, and the
// successor hears it from them.
//
// Why that is enough. A round that the successor cannot see was made by a coordinator that lived in between. That
// one took the word itself, and then all who were told it follow its epoch and say so; or it waited for lease and
// margin, as whoever hears of any round or epoch does, and by then the word, which was given before it began, is
// too old; or it met only nodes that had never heard of this job, and none of them comes to the successor, which
// would say so: that all nodes but those here were replaced at once nobody could know.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {

// Whether `own`, the primary's host, which is gone, ends while its coordinator has something to say first.
bool Coordinator::BeginFarewell(BootTime now, const Host& own) {
  if (farewell_) {  // it has spoken again meanwhile
    if (farewell_->stream != own.stream) return false;
    farewell_->echo = own.status.id();
    return true;
  }
  const bool round_lives = state_ == State::kRunning || state_ == State::kDraining || state_ == State::kGathering;
  const bool made_here = round_owned_by_this_epoch_ && IsSet(greatest_.id()) && Same(greatest_.id().epoch(), epoch_);
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
  const bool made_for_it = Same(own.round.id(), greatest_.id());  // else it came back into it
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
    host.in_farewell_audience = IsTrainer(host);  // nobody who comes later, who could stand for one of them
    host.order_sent = -1;                   // at once
  }
  return true;
}

// The agent around us is let go when all have the word, or have had the time to.
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

// What we tell of the round has no such word: who brings one has it from the coordinator that gave it.
void Coordinator::LearnFarewell(Host& host) {
  const v1::Round& last = host.status.last();
  if (round_owned_by_this_epoch_ || !last.has_primary_ended() || !Same(last.id(), greatest_.id())) return;
  const absl::Duration age = absl::Milliseconds(last.primary_ended().age_ms());
  word_left_ = last.primary_ended();
  primary_ended_at_ = std::min(primary_ended_at_, host.last_status_at - age);
  host.told_by_predecessor |= age <= options_.lease;
}

// Of the primary that our predecessor ended with, where nobody has its rank; nullopt: there is no such word.
std::optional<std::string> Coordinator::HowPrimaryEnded() const {
  if (round_owned_by_this_epoch_ || !word_left_ || AccountedFor().count(word_left_->node_rank()) > 0) return std::nullopt;
  return absl::StrCat("node ", word_left_->node_rank(), " was lost: its main process died");
}

bool Coordinator::PrimaryIsKnownEnded() const {
  if (round_owned_by_this_epoch_ || !word_left_ || predecessors_differ_ || !Same(word_left_->by(), predecessor_)) return false;
  const auto told = std::count_if(hosts_.begin(), hosts_.end(), [this](const auto& entry) {
    const Host& host = entry.second;
    return host.told_by_predecessor && host.stream != 0 && Fresh(host);
  });
  return told >= word_left_->known_to();
}

}  // namespace muster::rendezvous
