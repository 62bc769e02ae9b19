// Refused nodes: what the log and the waiting nodes hear of them. A refused node may retry forever, and there may
// be many of them, so each one is logged once, and only a few are named.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/core/time.h"
#include "rendezvous/core/effects.h"

namespace muster::rendezvous {

class Refusals {
 public:
  // The core refused this stream's status; one line for each stream. name: shown, so cut and made one line.
  void NoteRefused(BootTime now, StreamId stream, const std::string& name, const std::string& reason,
                   Effects* out);
  // The shell rejected a connection before its first status.
  void NoteTurnedAway(BootTime now, const std::string& name, const std::string& reason, Effects* out);
  void ForgetStream(StreamId stream) { streams_.erase(stream); }
  void BeginRound();  // waiting nodes hear of refusals since the last round started

  // Suffix for the reason why others wait; empty: none was refused. It names the first few and then stays the
  // same, because every node logs each change of it.
  std::string Describe() const;

 private:
  struct Logged {
    std::set<std::string> whom;             // "NAME (reason)"; at most kMaxRefusalsLogged
    BootTime since = absl::InfinitePast();  // when the first of them was logged
  };

  void Name(const std::string& whom);
  void Note(BootTime now, const std::string& name, const std::string& reason, Logged* logged, Effects* out);

  std::set<StreamId> streams_;
  std::vector<std::string> named_;  // the first few: "NAME (reason)"
  bool more_ = false;               // than named_ lists
  Logged refused_;
  Logged turned_away_;  // separate, so that strangers cannot use up refused_
};

}  // namespace muster::rendezvous
