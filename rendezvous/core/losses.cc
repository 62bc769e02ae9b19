// Lost hosts: when a host counts as lost, how the loss is described, and who gets its place.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "rendezvous/core/coordinator.h"

namespace muster::rendezvous {

// A host counts as lost when its stream has been closed for the reconnect grace, or silent for lease and margin,
// and no lease that this coordinator granted can still be running.
bool Coordinator::IsGone(BootTime now, const Host& host) const {
  if (host.status.phase() == v1::PHASE_HOST_GONE) return true;
  const bool attached = host.stream != 0;
  if (attached && !options_.leased()) return false;
  // After a pause of this process, statuses that arrived meanwhile are still unread.
  const BootTime deaf = attached ? std::max(host.silence_measured_from + options_.lease + options_.margin(),
                                            woke_at_ + options_.reconnect_grace)
                                 : host.closed_at + options_.reconnect_grace;
  return now > deaf && (now > host.lease_until || state_ == State::kReleasing);
}

void Coordinator::ExpireHosts(BootTime now, Effects* out) {
  std::vector<std::string> gone;
  for (const auto& [id, host] : hosts_) {
    if (IsGone(now, host)) gone.push_back(id);
  }
  const bool some_vanished = std::any_of(gone.begin(), gone.end(), [this](const std::string& id) {
    return CostsTheRound(hosts_.at(id)) && hosts_.at(id).status.phase() != v1::PHASE_HOST_GONE;
  });
  const StartedLast started = some_vanished ? WhoStartedLast() : StartedLast();
  size_t news = 0;
  for (const std::string& id : gone) {
    if (Lose(now, id, started, news < kMaxLossesNamed, out)) ++news;
  }
  if (news > kMaxLossesNamed) {
    Say(Severity::kWarning, absl::StrCat("and ", news - kMaxLossesNamed, " more nodes were lost"), out);
  }
}

bool Coordinator::CostsTheRound(const Host& host) const {
  return host.in_round && !host.succeeded && state_ != State::kVerdict && state_ != State::kReleasing;
}

// Handles one HOST_GONE without a decision over all hosts, because thousands may arrive within moments.
void Coordinator::LoseSwept(BootTime now, const std::string& id, Effects* out) {
  Lose(now, id, StartedLast(), true, out);
}

// Removes a lost host. `id` must not refer to a string inside the host, which is destroyed here. Returns true if
// the loss is worth a line in the log.
bool Coordinator::Lose(BootTime now, const std::string& id, const StartedLast& started, bool in_the_log,
                       Effects* out) {
  Host& host = hosts_[id];
  bool news = false;
  const bool swept = host.status.phase() == v1::PHASE_HOST_GONE;
  if (CostsTheRound(host)) {
    const std::string text =
        swept ? absl::StrCat(NameOf(host), " was lost: its main process died") : HowVanished(now, host, started);
    const absl::Duration ago = swept ? absl::Milliseconds(host.status.host_gone_ms()) : absl::ZeroDuration();
    NoteLoss(host.last_status_at - ago, text);
    // The first loss is logged as the cause of the drain.
    news = state_ == State::kRecovering || loss_text_ != text;
    if (news && in_the_log) {
      Say(Severity::kWarning, text, out, {.event = events::kNodeLost, .node_rank = host.round.node_rank()});
    }
  }
  if (!swept) {
    strayed_ |= IsTrainer(host);
    Forget(id, out);
    return news;
  }
  if (host.stream != 0) {
    // The agent exits once this coordinator has acknowledged its report. If that agent holds this coordinator, the
    // other nodes must have the farewell first.
    if (!BeginFarewell(now, host)) Send(now, host, out);
    streams_.erase(host.stream);
    host.stream = 0;
  }
  ForgetEnded(id, out);
  return news;
}

void Coordinator::NoteLoss(BootTime at, std::string text) {
  if (loss_at_ && *loss_at_ <= at) return;
  loss_at_ = at;
  loss_text_ = std::move(text);
}

// Dates the loss of a member that has been missing since this coordinator started: no later than the predecessor's
// last message, so that peers' failures count as echoes. The predecessor would have handled an earlier failure
// itself.
BootTime Coordinator::WhenLost(BootTime now) const {
  return predecessor_heard_at_ == absl::InfinitePast() ? now : predecessor_heard_at_;
}

// Describes the loss of a member that is attached but cannot continue.
std::string Coordinator::HowLost(const Host& host) const {
  switch (host.status.phase()) {
    case v1::PHASE_LEAVING:
      return absl::StrCat(NameOf(host), " was ", WhyLeft(host));
    case v1::PHASE_UNUSABLE:
      return absl::StrCat(NameOf(host), " is unusable: ", host.status.trouble());
    default:
      return absl::StrCat(NameOf(host), " was cut off: ", WhyLeaseEnded(host));
  }
}

// The primary's node always reaches the coordinator, so its lease depends on the answers of the other nodes.
std::string Coordinator::WhyLeaseEnded(const Host& host) {
  return host.status.at_primary() ? "its lease expired because no other node of the round answered"
                                  : "its lease expired";
}

Coordinator::StartedLast Coordinator::WhoStartedLast() const {
  StartedLast started;
  const auto note = [this](auto* last, const auto& key, const std::string& id, const Host& host) {
    const auto [it, first] = last->emplace(key, id);
    if (!first && host.joined_at > hosts_.at(it->second).joined_at) it->second = id;
  };
  for (const auto& [id, host] : hosts_) {
    if (host.stream == 0) continue;
    const std::string& name = host.status.hostname();
    note(&started.by_name, name, id, host);
    if (host.status.has_place()) {
      note(&started.by_place, host.status.place(), id, host);
    } else {
      note(&started.by_name_without_place, name, id, host);
    }
  }
  return started;
}

// The attached host with the same place, or else the same hostname, that started after this host's last status;
// nullptr: none.
const Coordinator::Host* Coordinator::StartedAgain(const Host& host, const StartedLast& started) const {
  const auto among = [&](const auto& last, const auto& key) -> const Host* {
    const auto id = last.find(key);
    if (id == last.end()) return nullptr;
    const auto other = hosts_.find(id->second);
    if (other == hosts_.end() || &other->second == &host) return nullptr;
    return other->second.stream != 0 && other->second.joined_at > host.last_status_at ? &other->second : nullptr;
  };
  const std::string& name = host.status.hostname();
  if (!host.status.has_place()) return among(started.by_name, name);
  const Host* const same_place = among(started.by_place, host.status.place());
  return same_place != nullptr ? same_place : among(started.by_name_without_place, name);
}

// Describes a loss that nobody reported, by the host's silence, its last status, and whether it was started again.
std::string Coordinator::HowVanished(BootTime now, const Host& host, const StartedLast& started) const {
  std::string text = absl::StrCat(NameOf(host), " was lost: no heartbeat for ",
                                  absl::FormatDuration(absl::Trunc(now - host.last_status_at, absl::Seconds(1))));
  if (const Host* again = StartedAgain(host, started)) {
    const bool same_kernel = again->status.boot_id() == host.status.boot_id();
    const bool same_container = same_kernel && again->status.pid_namespace() == host.status.pid_namespace();
    absl::StrAppend(
        &text,
        same_container ? "; its main process and agent died (restarted "
        : same_kernel  ? "; its container ended (a new one started "
                       : "; its machine ended (it or its replacement started ",
        absl::FormatDuration(absl::Trunc(again->joined_at - host.last_status_at, absl::Milliseconds(100))),
        " later)");
  }
  const bool told = host.status.has_failure() && Same(host.status.failure().round(), greatest_.id());
  if (told) absl::StrAppend(&text, "; it last reported that ", DescribeFailure(host.status.failure()));
  return text;
}

void Coordinator::ForgetEnded(const std::string& host_id, Effects* out) {
  const auto it = hosts_.find(host_id);
  if (it != hosts_.end() && it->second.in_round && it->second.succeeded) {
    succeeded_and_confirmed_dead_.insert(it->second.round.node_rank());
  }
  Forget(host_id, out);
}

void Coordinator::Forget(const std::string& host_id, Effects* out) {
  const auto it = hosts_.find(host_id);
  if (it == hosts_.end()) return;
  Host& host = it->second;
  if (host.stream != 0) {
    out->push_back(CloseStream{host.stream, "no heartbeat for too long"});
    streams_.erase(host.stream);
  }
  if (host.in_round && host.succeeded) succeeded_and_departed_.insert(host.round.node_rank());
  if (host.in_round && host.status.has_failure() && Same(host.status.failure().round(), greatest_.id())) {
    lost_failures_.push_back({host.status.failure(), host_id, host.failed_at});
  }
  progressed_ |= Progressed(host);
  progress_watched_ |= WatchesProgress(host);
  if (host.status.has_place()) GiveUpPlace(host.status.place(), host_id);
  hosts_.erase(it);
}

// Gives the place of an unusable node to a usable node that stands by for it, if there is one.
void Coordinator::PassPlaceOn(const Host& host) {
  const int place = host.status.place();
  for (auto it = contenders_.lower_bound({place, ""}); it != contenders_.end() && it->first == place; ++it) {
    const auto other = hosts_.find(it->second);
    if (other == hosts_.end() || other->second.stream == 0 || Unusable(other->second) || Leaving(other->second)) {
      continue;
    }
    holders_[place] = it->second;
    return;
  }
}

void Coordinator::NoteUse(const v1::AgentStatus& before, const v1::AgentStatus& status, Effects* out) const {
  const bool was = before.phase() == v1::PHASE_UNUSABLE, is = status.phase() == v1::PHASE_UNUSABLE;
  if (is && !was) Say(Severity::kWarning, WhyUnusable(status), out, {.event = events::kNodeUnusable});
  if (was && status.phase() == v1::PHASE_READY) {
    Say(Severity::kInfo, absl::StrCat(status.hostname(), " is usable again"), out, {.event = events::kNodeUsable});
  }
}

// A node that stood by for the place gets it at once. All nodes leave at the end of a job, so this must not look
// at all hosts.
void Coordinator::GiveUpPlace(int place, const std::string& host_id) {
  contenders_.erase({place, host_id});
  const auto holder = holders_.find(place);
  if (holder == holders_.end() || holder->second != host_id) return;
  const auto next = contenders_.lower_bound({place, ""});
  if (next != contenders_.end() && next->first == place) {
    holder->second = next->second;
  } else {
    holders_.erase(holder);
  }
}

}  // namespace muster::rendezvous
