#include "rendezvous/gate/gate_core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace muster::rendezvous {

// A visitor has three descriptors, one that waits has one.
GateLimits LimitsFor(size_t descriptors) {
  GateLimits limits;
  limits.visitors = std::clamp<size_t>(descriptors / 8, 1, limits.visitors);
  limits.visitors_of_source = std::clamp<size_t>(limits.visitors / 2, 1, limits.visitors_of_source);
  limits.waiting = std::clamp<size_t>(descriptors / 4, 1, limits.waiting);
  return limits;
}

void GateCore::OnAccepted(BootTime now, ConnectionId id, const std::string& source, GateEffects* out) {
  connections_.emplace(id, Connection{.source = source, .since = now});
  timed_.insert(id);
  Source& from = sources_[source];
  ++from.connections;
  CountWaiting(source, &from, id, true);
  if (waiting_ > limits_.waiting) CloseOldestOfFullest(now, out);
}

void GateCore::OnShortage(BootTime now, GateEffects* out) {
  if (waiting_ > 0) CloseOldestOfFullest(now, out);
}

void GateCore::OnSpoke(BootTime now, ConnectionId id, GateEffects* out) {
  const auto it = connections_.find(id);
  if (it == connections_.end() || it->second.state != State::kSilent) return;
  Enter(now, id, State::kSpoken);
  LetNextIn(now, out);
}

void GateCore::OnReady(BootTime now, ConnectionId id, bool proved, GateEffects* out) {
  const auto it = connections_.find(id);
  if (it == connections_.end() || it->second.state != State::kHandshake) return;
  Enter(now, id, proved ? State::kProved : State::kInside);
  LetNextIn(now, out);
}

void GateCore::OnAdmitted(BootTime now, ConnectionId id, GateEffects* out) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  if (it->second.state != State::kInside && it->second.state != State::kProved) return;
  Enter(now, id, State::kMember);
  timed_.erase(id);
  LetNextIn(now, out);
}

void GateCore::OnLeft(BootTime now, ConnectionId id, GateEffects* /*out*/) {
  const auto it = connections_.find(id);
  if (it == connections_.end() || it->second.state != State::kMember) return;
  Enter(now, id, State::kLeft);
  timed_.insert(id);
}

void GateCore::OnClosed(BootTime now, ConnectionId id, const std::string& refused, GateEffects* out) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  if (!refused.empty()) Tell(now, it->second.source, refused, out);
  Enter(now, id, State::kClosing);
  const auto source = sources_.find(it->second.source);
  timed_.erase(id);
  connections_.erase(it);
  if (--source->second.connections == 0 && !source->second.has_turn) sources_.erase(source);
  LetNextIn(now, out);
}

void GateCore::OnTick(BootTime now, GateEffects* out) {
  ForgetPause(now);
  for (const ConnectionId id : timed_) CloseLate(now, id, out);
  MakePlaces(now, out);
  LetNextIn(now, out);
}

// While this process was paused nobody could do anything about a limit.
void GateCore::ForgetPause(BootTime now) {
  const absl::Duration pause = now - last_tick_ - kLongestTick;
  last_tick_ = now;
  if (pause <= absl::ZeroDuration()) return;
  for (const ConnectionId id : timed_) connections_.at(id).since += pause;
}

absl::Duration GateCore::LimitOf(State state) const {
  switch (state) {
    case State::kSilent:
      return kSilenceLimit;
    case State::kSpoken:
      return kWaitLimit;
    case State::kHandshake:
      return kHandshakeLimit;
    case State::kInside:
    case State::kProved:
    case State::kLeft:
      return kAdmissionLimit;
    case State::kMember:
    case State::kClosing:
      break;
  }
  return absl::InfiniteDuration();
}

void GateCore::CloseLate(BootTime now, ConnectionId id, GateEffects* out) {
  const Connection& connection = connections_.at(id);
  const absl::Duration limit = LimitOf(connection.state);
  if (now - connection.since < limit) return;
  const std::string within = absl::StrCat(" within ", absl::FormatDuration(limit));
  if (connection.state == State::kHandshake)
    Tell(now, connection.source, "its handshake did not end" + within, out);
  const bool no_agent = connection.state == State::kInside || connection.state == State::kProved;
  if (no_agent) Tell(now, connection.source, "no agent attached" + within, out);
  Close(now, id, out);
}

// For each connection that waits for a place in vain, closes the oldest visitor that keeps it out, if that is
// slow.
void GateCore::MakePlaces(BootTime now, GateEffects* out) {
  if (spoken_ == 0) return;
  size_t wanted = visitors_ >= limits_.visitors ? spoken_ : 0;
  std::map<std::string, size_t> wanted_from;
  for (const ConnectionId id : timed_) {
    const Connection& visitor = connections_.at(id);
    if (!Visits(visitor.state) || now - visitor.since < kPressedLimit) continue;
    const Source& source = sources_.at(visitor.source);
    const bool full = source.visitors >= limits_.visitors_of_source;
    size_t& wanted_here = wanted_from.try_emplace(visitor.source, full ? source.spoken.size() : 0).first->second;
    if (wanted == 0 && wanted_here == 0) continue;
    wanted -= wanted > 0 ? 1 : 0;
    wanted_here -= wanted_here > 0 ? 1 : 0;
    Close(now, id, out);
  }
}

void GateCore::CloseOldestOfFullest(BootTime now, GateEffects* out) {
  Close(now, *sources_.at(by_waiting_.rbegin()->second).waiting.begin(), out);
}

// It counts no more from now on, though it is closed a little later: until then it stays in timed_, which callers
// are going through.
void GateCore::Close(BootTime now, ConnectionId id, GateEffects* out) {
  Enter(now, id, State::kClosing);
  out->emplace_back(CloseConnection{id});
}

void GateCore::Enter(BootTime now, ConnectionId id, State state) {
  Connection& connection = connections_.at(id);
  Source& source = sources_.at(connection.source);
  const State before = std::exchange(connection.state, state);
  connection.since = now;
  if (Waits(before) && !Waits(state)) CountWaiting(connection.source, &source, id, false);
  if (before == State::kSpoken && state != State::kSpoken) {
    source.spoken.erase(id);
    --spoken_;
  }
  if (state == State::kSpoken && before != State::kSpoken) {
    source.spoken.insert(id);
    ++spoken_;
    if (!std::exchange(source.has_turn, true)) turns_.push_back(connection.source);
  }
  if (Visits(before) && !Visits(state)) {
    --source.visitors;
    --visitors_;
  }
  if (!Visits(before) && Visits(state)) {
    ++source.visitors;
    ++visitors_;
  }
}

void GateCore::CountWaiting(const std::string& name, Source* source, ConnectionId id, bool waits) {
  by_waiting_.erase({source->waiting.size(), name});
  if (waits) {
    source->waiting.insert(id);
    ++waiting_;
  } else {
    source->waiting.erase(id);
    --waiting_;
  }
  if (!source->waiting.empty()) by_waiting_.insert({source->waiting.size(), name});
}

// One from each source in turn, so that a source with many does not keep others waiting.
void GateCore::LetNextIn(BootTime now, GateEffects* out) {
  size_t idle = 0;  // sources in a row that have no room of their own
  while (visitors_ < limits_.visitors && idle < turns_.size()) {
    const std::string name = std::move(turns_.front());
    turns_.pop_front();
    Source& source = sources_.at(name);
    if (!source.spoken.empty() && source.visitors < limits_.visitors_of_source) {
      const ConnectionId id = *source.spoken.rbegin();
      Enter(now, id, State::kHandshake);
      out->emplace_back(LetIn{id});
      idle = 0;
    } else {
      ++idle;
    }
    source.has_turn = !source.spoken.empty();
    if (source.has_turn) {
      turns_.push_back(name);
    } else if (source.connections == 0) {
      sources_.erase(name);
    }
  }
}

void GateCore::Tell(BootTime now, const std::string& source, const std::string& why, GateEffects* out) {
  if (now - told_since_ >= absl::Seconds(1)) {
    told_since_ = now;
    told_ = 0;
  }
  if (++told_ <= kMaxRefusalsTold) out->emplace_back(TellRefused{source, why});
}

}  // namespace muster::rendezvous
