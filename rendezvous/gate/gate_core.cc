#include "rendezvous/gate/gate_core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"

namespace muster::rendezvous {
namespace {

// How many places are wanted by connections that wait, of one kind of places, and not yet found.
class Wanted {
 public:
  Wanted(const BySource* places, size_t limit, size_t limit_of_source)
      : places_(places), full_(places->size() >= limit), limit_of_source_(limit_of_source) {}

  // Whether one in a place of this source must leave it. here, in_all: how many of this source, and of all, want
  // a place.
  bool Take(const std::string& source, size_t here, size_t in_all) {
    const bool source_full = places_->SizeOf(source) + taken_[source] >= limit_of_source_;
    size_t& taken = taken_[source];
    const bool wanted_here = source_full && taken < here;
    if (!wanted_here && !(full_ && taken_in_all_ < in_all)) return false;
    ++taken;
    ++taken_in_all_;
    return true;
  }

 private:
  const BySource* const places_;
  const bool full_;
  const size_t limit_of_source_;
  size_t taken_in_all_ = 0;
  std::map<std::string, size_t> taken_;  // of each source; `places_` has them no more
};

}  // namespace

// A visitor or guest has three descriptors, one that waits has one.
GateLimits LimitsFor(size_t descriptors) {
  GateLimits limits;
  limits.visitors = std::clamp<size_t>(descriptors / 12, 1, limits.visitors);
  limits.visitors_of_source = std::clamp<size_t>(limits.visitors / 2, 1, limits.visitors_of_source);
  limits.guests = std::clamp<size_t>(descriptors / 12, 1, limits.guests);
  limits.guests_of_source = std::clamp<size_t>(limits.guests / 2, 1, limits.guests_of_source);
  limits.waiting = std::clamp<size_t>(descriptors / 6, 1, limits.waiting);
  return limits;
}

void GateCore::OnAccepted(BootTime now, ConnectionId id, const std::string& source, GateEffects* out) {
  connections_.emplace(id, Connection{.source = source, .since = now});
  timed_.insert(id);
  unnamed_.Add(source, id);
  if (waiting() <= limits_.waiting) return;
  NoteFlood(now, out);
  Close(now, FirstToGo(), out);
}

// Among those that wait, one that names the job's key goes last.
ConnectionId GateCore::FirstToGo() const { return (unnamed_.empty() ? named_.ids : unnamed_).OldestOfFullest(); }

// Closes one connection: whose agent has left, since after a cut those hold most descriptors; else one that waits
// to be let in; else one that is slow.
void GateCore::OnShortage(BootTime now, GateEffects* out) {
  const auto left = std::find_if(timed_.begin(), timed_.end(),
                                 [&](ConnectionId id) { return connections_.at(id).state == State::kLeft; });
  if (left != timed_.end()) return Close(now, *left, out);
  if (waiting() > 0) return Close(now, FirstToGo(), out);
  const auto slow = std::find_if(timed_.begin(), timed_.end(),
                                 [&](ConnectionId id) { return IsSlow(now, connections_.at(id)); });
  if (slow != timed_.end()) Close(now, *slow, out);
}

void GateCore::OnSpoke(BootTime now, ConnectionId id, bool named, GateEffects* out) {
  const auto it = connections_.find(id);
  if (it == connections_.end() || it->second.state != State::kSilent) return;
  Enter(now, id, named ? State::kNamed : State::kSpoken);
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
  let_ins_.GiveBack();
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
  timed_.erase(id);
  connections_.erase(it);
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
    case State::kNamed:
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

bool GateCore::IsSlow(BootTime now, const Connection& connection) {
  const BySource* const count = CountOf(connection.state);
  return (count == &visitors_ && now - connection.since >= kPressedLimit) ||
         (count == &guests_ && now - connection.since >= kPressedGuestLimit);
}

// For each connection that waits for a place in vain, closes the oldest one that keeps it out, if that is slow.
// Strangers are no guests: they cannot fill the places of guests, and cost none while there is room.
void GateCore::MakePlaces(BootTime now, GateEffects* out) {
  const size_t waiting = spoken_.ids.size() + named_.ids.size();
  if (waiting == 0) return;
  Wanted visitors(&visitors_, limits_.visitors, limits_.visitors_of_source);
  Wanted guests(&guests_, limits_.guests, limits_.guests_of_source);
  for (const ConnectionId id : timed_) {
    const Connection& connection = connections_.at(id);
    if (!IsSlow(now, connection)) continue;
    Wanted& wanted = CountOf(connection.state) == &visitors_ ? visitors : guests;
    const size_t here = spoken_.ids.SizeOf(connection.source) + named_.ids.SizeOf(connection.source);
    if (wanted.Take(connection.source, here, waiting)) Close(now, id, out);
  }
}

// The connection counts no more from now on, though it is closed a little later: until then it stays in timed_,
// which callers are going through.
void GateCore::Close(BootTime now, ConnectionId id, GateEffects* out) {
  Enter(now, id, State::kClosing);
  out->emplace_back(CloseConnection{id});
}

// Null: they are not counted.
BySource* GateCore::CountOf(State state) {
  switch (state) {
    case State::kSilent:
    case State::kSpoken:
      return &unnamed_;
    case State::kHandshake:
    case State::kInside:
      return &visitors_;
    case State::kProved:
      return &guests_;
    case State::kNamed:  // its line counts them
    case State::kMember:
    // After a cut all members come back at once, while their old connections are still here.
    case State::kLeft:
    case State::kClosing:
      break;
  }
  return nullptr;
}

GateCore::Line* GateCore::LineOf(State state) {
  if (state == State::kNamed) return &named_;
  return state == State::kSpoken ? &spoken_ : nullptr;
}

void GateCore::Enter(BootTime now, ConnectionId id, State state) {
  Connection& connection = connections_.at(id);
  const std::string& source = connection.source;
  if (BySource* const before = CountOf(connection.state)) before->Remove(source, id);
  if (Line* const before = LineOf(connection.state)) before->ids.Remove(source, id);
  connection.state = state;
  connection.since = now;
  if (BySource* const after = CountOf(state)) after->Add(source, id);
  Line* const line = LineOf(state);
  if (line == nullptr) return;
  line->ids.Add(source, id);
  if (line->have_a_turn.insert(source).second) line->turns.push_back({.source = source});
}

bool GateCore::HasRoom() const { return visitors_.size() < limits_.visitors && guests_.size() < limits_.guests; }

bool GateCore::HasRoom(const std::string& source) const {
  return visitors_.SizeOf(source) < limits_.visitors_of_source &&
         guests_.SizeOf(source) < limits_.guests_of_source;
}

void GateCore::LetNextIn(BootTime now, GateEffects* out) {
  LetInFrom(&named_, now, out);
  LetInFrom(&spoken_, now, out);
  if (!spoken_.ids.empty() && !let_ins_.Has(now)) NoteFlood(now, out);
}

// One from each source in turn, so that a source with many does not keep others waiting.
void GateCore::LetInFrom(Line* line, BootTime now, GateEffects* out) {
  size_t idle = 0;  // sources in a row that have no room of their own
  while (HasRoom() && idle < line->turns.size() && let_ins_.Has(now)) {
    Turn turn = std::move(line->turns.front());
    line->turns.pop_front();
    if (line->ids.SizeOf(turn.source) == 0) {
      line->have_a_turn.erase(turn.source);
      continue;
    }
    ++idle;
    if (HasRoom(turn.source)) {
      const ConnectionId id = turn.newest ? line->ids.NewestOf(turn.source) : line->ids.OldestOf(turn.source);
      turn.newest = !turn.newest;
      Enter(now, id, State::kHandshake);
      let_ins_.Spend();
      out->emplace_back(LetIn{id});
      idle = 0;
    }
    line->turns.push_back(std::move(turn));  // removed at its next turn if nothing of it waits any more
  }
}

void GateCore::NoteFlood(BootTime now, GateEffects* out) {
  if (now - flood_logged_at_ < kFloodLoggedAgain) return;
  flood_logged_at_ = now;
  Say(Severity::kWarning,
      absl::StrCat(
          "more connections reach this port than it lets in (most are from ", connections_.at(FirstToGo()).source,
          "), so nodes that join may wait: restrict who can reach it",
          limits_.nodes_are_named ? "" : "; with a token (--token-file) this job's nodes are let in first",
          "; logged again after ", absl::FormatDuration(kFloodLoggedAgain)),
      out);
}

void GateCore::Tell(BootTime now, const std::string& source, const std::string& why, GateEffects* out) {
  if (now - told_since_ >= absl::Seconds(1)) {
    told_since_ = now;
    told_ = 0;
  }
  if (++told_ <= kMaxRefusalsTold) out->emplace_back(TellRefused{source, why});
}

}  // namespace muster::rendezvous
