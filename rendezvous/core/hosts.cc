#include "rendezvous/core/hosts.h"

#include "base/wire/ids.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

Host* Hosts::Find(const std::string& id) {
  const auto it = hosts_.find(id);
  return it == hosts_.end() ? nullptr : &it->second;
}

const Host* Hosts::Find(const std::string& id) const {
  const auto it = hosts_.find(id);
  return it == hosts_.end() ? nullptr : &it->second;
}

std::string Hosts::IdOf(StreamId stream) const {
  const auto it = streams_.find(stream);
  return it == streams_.end() ? "" : it->second;
}

void Hosts::Erase(const std::string& id) {
  const auto it = hosts_.find(id);
  if (it == hosts_.end()) return;
  Detach(&it->second);
  if (it->second.status.has_place()) GiveUpPlace(it->second.status.place(), id);
  hosts_.erase(it);
}

std::optional<StreamId> Hosts::Attach(BootTime now, StreamId stream, const v1::AgentStatus& status) {
  Host& host = hosts_[status.host_id()];
  if (host.stream == stream) return std::nullopt;
  const StreamId before = host.stream;
  Detach(&host);
  host.stream = stream;
  host.attached_at = now;
  host.exchange.order_sent = -1;
  host.exchange.events_held = host.exchange.events_seq = 0;
  streams_[stream] = status.host_id();
  if (status.has_place()) places_seen_.insert(status.place());
  return before;
}

void Hosts::Detach(Host* host) {
  if (host->stream != 0) streams_.erase(host->stream);
  host->stream = 0;
}

void Hosts::Forget(StreamId stream) { streams_.erase(stream); }

// ---- places -------------------------------------------------------------------------------------------------

void Hosts::Claim(const Host& host) {
  if (!host.status.has_place() || !host.IsTrainer()) return;
  const int place = host.status.place();
  contenders_.emplace(place, host.status.host_id());
  const auto holder = holders_.find(place);
  if (holder == holders_.end() || hosts_.count(holder->second) == 0) holders_[place] = host.status.host_id();
  if (const Host* owner = HolderOf(place); owner != nullptr && owner->IsUnusable()) PassPlaceOn(place);
}

// Gives the place of an unusable node to a usable node that stands by for it, if there is one.
void Hosts::PassPlaceOn(int place) {
  for (auto it = contenders_.lower_bound({place, ""}); it != contenders_.end() && it->first == place; ++it) {
    const Host* const other = Find(it->second);
    if (other == nullptr || !other->IsAttached() || other->IsUnusable() || other->IsLeaving()) continue;
    holders_[place] = it->second;
    return;
  }
}

void Hosts::GivePlaceTo(const v1::AgentStatus& status) {
  if (status.has_place()) holders_[status.place()] = status.host_id();
}

// A node that stood by for the place gets it at once. All nodes leave at the end of a job, so this must not look
// at all hosts.
void Hosts::GiveUpPlace(int place, const std::string& id) {
  contenders_.erase({place, id});
  const auto holder = holders_.find(place);
  if (holder == holders_.end() || holder->second != id) return;
  const auto next = contenders_.lower_bound({place, ""});
  if (next != contenders_.end() && next->first == place) {
    holder->second = next->second;
  } else {
    holders_.erase(holder);
  }
}

const Host* Hosts::HolderOf(int place) const {
  const auto it = holders_.find(place);
  return it == holders_.end() ? nullptr : Find(it->second);
}

bool Hosts::HoldsPlace(const Host& host) const {
  return !host.status.has_place() || HolderOf(host.status.place()) == &host;
}

// A replacement for a dead node stands by, too, until that node is confirmed dead or its lease has ended. Only a
// holder that still sends statuses well after the other node attached is alive.
const Host* Hosts::RivalOf(const Host& host) const {
  if (!host.IsAttached() || !host.status.has_place() || !host.IsTrainer()) return nullptr;
  const Host* const holder = HolderOf(host.status.place());
  if (holder == nullptr || holder == &host || !holder->IsAttached()) return nullptr;
  if (holder->IsLeaving() || holder->IsUnusable() || holder->status.host_has_ended()) return nullptr;
  return holder->last_status_at >= host.attached_at + kRivalAfter ? holder : nullptr;
}

std::vector<Hosts::Rivalry> Hosts::Rivalries() const {
  std::vector<Rivalry> rivalries;
  if (contenders_.size() == holders_.size()) return rivalries;  // the usual case, without a loop
  for (const auto& [place, id] : contenders_) {
    const Host* const other = Find(id);
    const Host* const holder = other == nullptr ? nullptr : RivalOf(*other);
    if (holder != nullptr) rivalries.push_back({holder, other});
  }
  return rivalries;
}

bool Hosts::IsVoidHint(const v1::AgentStatus& status) const {
  if (!status.place_is_hint() || !status.has_place()) return false;
  const Host* const known = Find(status.host_id());
  if (known != nullptr && known->hint_is_void) return true;
  return status.last().has_node_rank() && status.last().seat() != status.place();
}

void Hosts::VoidHint(const std::string& id) {
  Host& host = hosts_[id];
  GiveUpPlace(host.status.place(), id);
  host.status.clear_place();
  host.hint_is_void = true;
}

// ---- StartedLast --------------------------------------------------------------------------------------------

StartedLast::StartedLast(const Hosts& hosts) : hosts_(&hosts) {
  const auto note = [&hosts](auto* last, const auto& key, const std::string& id, const Host& host) {
    const auto [it, first] = last->emplace(key, id);
    if (!first && host.joined_at > hosts.Find(it->second)->joined_at) it->second = id;
  };
  for (const auto& [id, host] : hosts) {
    if (!host.IsAttached()) continue;
    const std::string& name = host.status.hostname();
    note(&by_name_, name, id, host);
    if (host.status.has_place()) {
      note(&by_place_, host.status.place(), id, host);
    } else {
      note(&by_name_without_place_, name, id, host);
    }
  }
}

const Host* StartedLast::After(const Host& host) const {
  const auto among = [&](const auto& last, const auto& key) -> const Host* {
    const auto id = last.find(key);
    const Host* const other = id == last.end() ? nullptr : hosts_->Find(id->second);
    if (other == nullptr || other == &host) return nullptr;
    return other->IsAttached() && other->joined_at > host.last_status_at ? other : nullptr;
  };
  const std::string& name = host.status.hostname();
  if (!host.status.has_place()) return among(by_name_, name);
  const Host* const same_place = among(by_place_, host.status.place());
  return same_place != nullptr ? same_place : among(by_name_without_place_, name);
}

}  // namespace muster::rendezvous
