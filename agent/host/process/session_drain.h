// Waits for the processes of a worker's session that handle a stop signal after that signal has ended the worker's
// first process. core/session_rest selects them.
//
// Lives on the loop thread.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "agent/host/core/session_rest.h"
#include "base/io/event_loop.h"

namespace muster::host {

inline constexpr absl::Duration kDrainRetry = absl::Milliseconds(20);  // poll interval if pidfd_open fails

// Sends the signal to each process of these sessions that handles it. Returns the number of those processes.
int SignalHandlers(const std::set<pid_t>& leaders, int signal);

class SessionDrain {
 public:
  explicit SessionDrain(EventLoop* loop) : loop_(loop) {}
  ~SessionDrain() { Forget(); }
  SessionDrain(const SessionDrain&) = delete;
  SessionDrain& operator=(const SessionDrain&) = delete;

  // Records which processes handle `signal`. Call it right before sending that signal to these leaders' sessions.
  void Note(const std::set<pid_t>& leaders, int signal);
  // Returns false if no recorded process of this leader's session is alive. Otherwise calls ended() on the loop,
  // once, when the last of them has ended.
  bool Await(pid_t leader, std::function<void()> ended);
  std::set<pid_t> sessions() const;  // leaders of the sessions that are awaited
  // Processes that were awaited after their leader's end since the previous call.
  std::set<pid_t> TakeSpared() { return std::exchange(spared_, {}); }
  // Sends a signal to the process groups of the awaited sessions.
  void Signal(int signal);
  // Stops waiting; no ended() is called any more.
  void Forget();

 private:
  struct Waiting {
    std::deque<SessionMember> members;  // the first one is watched
    int pidfd = -1;                     // of the first member; -1: `timer` polls it instead
    EventLoop::TimerId timer = 0;
    std::function<void()> ended;
  };
  bool WatchFirst(pid_t leader, Waiting* waiting);  // false: no member is alive
  void OnFirstEnded(pid_t leader);
  void Release(Waiting* waiting);

  EventLoop* const loop_;
  std::map<pid_t, std::deque<SessionMember>> noted_;  // by leader
  std::map<pid_t, Waiting> waiting_;                  // by leader
  std::set<pid_t> spared_;
};

}  // namespace muster::host
