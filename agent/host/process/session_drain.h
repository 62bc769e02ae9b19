// Waits for the processes of a worker's session that handle a stop signal themselves, where the signal has ended
// the worker's first process. core/session_rest decides which these are.
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

inline constexpr absl::Duration kDrainRetry = absl::Milliseconds(20);  // where a process cannot be watched

// Sends the signal to each process of these sessions that handles it. The answer: to how many.
int SignalHandlers(const std::set<pid_t>& leaders, int signal);

class SessionDrain {
 public:
  explicit SessionDrain(EventLoop* loop) : loop_(loop) {}
  ~SessionDrain() { Forget(); }
  SessionDrain(const SessionDrain&) = delete;
  SessionDrain& operator=(const SessionDrain&) = delete;

  // To be called right before `signal` is sent to the sessions of these leaders.
  void Note(const std::set<pid_t>& leaders, int signal);
  // False: none of those noted for this leader's session lives. Else ended() is called on the loop, once, when
  // none does any more.
  bool Await(pid_t leader, std::function<void()> ended);
  std::set<pid_t> sessions() const;  // that are awaited
  // Processes that were waited for after their leader's end, since this was asked last.
  std::set<pid_t> TakeSpared() { return std::exchange(spared_, {}); }
  // To the process groups of those sessions.
  void Signal(int signal);
  // Stops waiting. What was awaited is not told any more.
  void Forget();

 private:
  struct Waiting {
    std::deque<SessionMember> members;  // the first one is watched
    int pidfd = -1;                     // of that one; -1: `timer` looks at it again
    EventLoop::TimerId timer = 0;
    std::function<void()> ended;
  };
  bool WatchFirst(pid_t leader, Waiting* waiting);  // false: none lives
  void OnFirstEnded(pid_t leader);
  void Release(Waiting* waiting);

  EventLoop* const loop_;
  std::map<pid_t, std::deque<SessionMember>> noted_;  // by leader
  std::map<pid_t, Waiting> waiting_;                  // by leader
  std::set<pid_t> spared_;
};

}  // namespace muster::host
