// Decides which connections are let in and when, and which are closed. Anything but an agent of this job is a
// stranger, and nothing that strangers do may keep agents out, or cost more than a bounded amount of memory and
// time.
//
// A connection waits until it has said something and there is room; then it is a visitor; once it has proved that
// it has the credentials, a guest; once the coordinator has admitted an agent on it, a member. All but members are
// counted, in all and from one address, so that a job of any size behind one address gets in, one part after the
// other. Who names the job's key in its first bytes comes before all others. Of one address, who came last and who
// came first are let in by turns. Among many who are slow on purpose an agent is the last for a moment, and need
// not wait for all who came before it; among many who come and go it is soon the first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/core/allowance.h"
#include "base/core/note.h"
#include "base/core/time.h"
#include "rendezvous/gate/by_source.h"

namespace muster::rendezvous {

// Numbers of connections.
struct GateLimits {
  size_t visitors = 512;
  size_t visitors_of_source = 128;
  // While there are so many guests nobody is let in; who is in its handshake then may still become one.
  size_t guests = 512;
  size_t guests_of_source = 256;
  size_t waiting = 4'096;        // beyond it, the source with the most loses its oldest
  bool nodes_are_named = false;  // the job has credentials, so its nodes are let in before others
};
// For a process that may open this many descriptors: strangers must leave some to agents.
GateLimits LimitsFor(size_t descriptors);

inline constexpr absl::Duration kSilenceLimit = absl::Seconds(5);  // for the first byte
inline constexpr absl::Duration kHandshakeLimit = absl::Seconds(5);
inline constexpr absl::Duration kAdmissionLimit = absl::Seconds(10);  // for an agent's first status
inline constexpr absl::Duration kWaitLimit = absl::Seconds(30);       // for a place
// Who waits for a place gets that of a visitor, or of a guest where there are too many, that has been in the same
// state for so long. A guest waits for the coordinator, which may have much to do.
inline constexpr absl::Duration kPressedLimit = absl::Seconds(1);
inline constexpr absl::Duration kPressedGuestLimit = absl::Seconds(3);
inline constexpr absl::Duration kLongestTick = absl::Seconds(1);  // more was a pause of this process
// Handshakes take time of the processor: so many may begin at once, and so many more each second. An agent that is
// admitted gives its one back.
inline constexpr int kLetInBurst = 2'000;
inline constexpr int kLetInsPerSecond = 200;
inline constexpr int kMaxRefusalsTold = 10;  // per second; the coordinator is not busied with more
inline constexpr absl::Duration kFloodLoggedAgain = absl::Hours(1);

struct LetIn {
  ConnectionId id = 0;
};
struct CloseConnection {
  ConnectionId id = 0;
};
struct TellRefused {
  std::string source;
  std::string why;
};
using GateEffect = std::variant<LetIn, CloseConnection, TellRefused, Note>;
using GateEffects = std::vector<GateEffect>;

// Events of a connection that is not known any more have no effect.
class GateCore {
 public:
  explicit GateCore(const GateLimits& limits) : limits_(limits) {}

  // source: the address that it comes from, or its network.
  void OnAccepted(BootTime now, ConnectionId id, const std::string& source, GateEffects* out);
  // named: its first bytes name the job's key. That proves nothing: names can be overheard.
  void OnSpoke(BootTime now, ConnectionId id, bool named, GateEffects* out);
  // The connection has done its handshake. proved: that showed its credentials, so it is no stranger any more.
  void OnReady(BootTime now, ConnectionId id, bool proved, GateEffects* out);
  // The coordinator has admitted an agent on it, or the agent's stream has ended.
  void OnAdmitted(BootTime now, ConnectionId id, GateEffects* out);
  void OnLeft(BootTime now, ConnectionId id, GateEffects* out);
  // The connection is closed. refused: what was wrong with it; empty: nothing.
  void OnClosed(BootTime now, ConnectionId id, const std::string& refused, GateEffects* out);
  // No descriptor is free.
  void OnShortage(BootTime now, GateEffects* out);
  void OnTick(BootTime now, GateEffects* out);

  size_t visitors() const { return visitors_.size(); }
  size_t guests() const { return guests_.size(); }
  size_t waiting() const { return unnamed_.size() + named_.ids.size(); }

 private:
  enum class State { kSilent, kSpoken, kNamed, kHandshake, kInside, kProved, kMember, kLeft, kClosing };
  struct Connection {
    std::string source;
    State state = State::kSilent;
    BootTime since;  // when it got into that state
  };
  struct Turn {
    std::string source;
    bool newest = true;  // the newest of its connections is let in, else the oldest
  };
  // Connections that have spoken, in line for a place.
  struct Line {
    BySource ids;
    std::deque<Turn> turns;             // sources that may have connections in it
    std::set<std::string> have_a_turn;  // the same
  };

  BySource* CountOf(State state);
  Line* LineOf(State state);
  bool IsSlow(BootTime now, const Connection& connection);
  bool HasRoom() const;
  bool HasRoom(const std::string& source) const;
  void Enter(BootTime now, ConnectionId id, State state);
  void Close(BootTime now, ConnectionId id, GateEffects* out);
  void CloseLate(BootTime now, ConnectionId id, GateEffects* out);
  void MakePlaces(BootTime now, GateEffects* out);
  void ForgetPause(BootTime now);
  absl::Duration LimitOf(State state) const;
  ConnectionId FirstToGo() const;
  void LetNextIn(BootTime now, GateEffects* out);
  void LetInFrom(Line* line, BootTime now, GateEffects* out);
  void NoteFlood(BootTime now, GateEffects* out);
  void Tell(BootTime now, const std::string& source, const std::string& why, GateEffects* out);

  const GateLimits limits_;
  std::map<ConnectionId, Connection> connections_;
  std::set<ConnectionId> timed_;  // all but members
  BySource unnamed_;              // they wait, silent or not, and have not named the job's key
  Line spoken_;                   // of them, those that have said something
  Line named_;                    // those that name the job's key: let in before the others
  BySource visitors_;             // let in, and not known to have the credentials
  BySource guests_;               // they have the credentials
  Allowance let_ins_{kLetInBurst, kLetInsPerSecond};
  BootTime last_tick_ = absl::InfiniteFuture();
  BootTime flood_logged_at_ = absl::InfinitePast();
  int told_ = 0;  // since told_since_
  BootTime told_since_ = absl::InfinitePast();
};

}  // namespace muster::rendezvous
