// Stops the workers' sessions as core/session_stop decides: sends the stop signal to some processes at once and to
// their helpers later, and waits for those that handle it, also after the worker's first process has ended.
//
// Lives on the loop thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "agent/host/core/session_stop.h"
#include "base/io/event_loop.h"

namespace muster::host {

inline constexpr absl::Duration kDrainRetry = absl::Milliseconds(20);  // poll interval if pidfd_open fails

// Sends the signal to the processes of these sessions that TopmostHandlers names. Returns the number of those
// processes.
int SignalHandlers(const std::set<pid_t>& leaders, int signal);

class SessionDrain {
 public:
  explicit SessionDrain(EventLoop* loop) : loop_(loop) {}
  ~SessionDrain() { Forget(); }
  SessionDrain(const SessionDrain&) = delete;
  SessionDrain& operator=(const SessionDrain&) = delete;

  // Begins the stop of these leaders' sessions: sends the first signal.
  void Stop(const std::set<pid_t>& leaders, int signal);
  // Half of the grace period is over: signals the processes that were left out.
  void SignalRest();
  // A leader has ended. False: no process of its session is awaited. Otherwise calls ended() on the loop, once,
  // when the last of them has ended. Before that, signals those whose turn it is now.
  bool Await(pid_t leader, std::function<void()> ended);
  std::set<pid_t> sessions() const;  // leaders that have ended and whose sessions are awaited
  // Processes other than leaders that were awaited since the previous call.
  std::set<pid_t> TakeSpared() { return std::exchange(spared_, {}); }
  // Sends a signal to the process groups of the awaited sessions.
  void Signal(int signal);
  // Stops waiting; no ended() is called any more.
  void Forget();

 private:
  struct Process {
    SessionMember member;
    bool told = false;     // it got the signal
    bool watched = false;  // its end leads to OnEnded
    int pidfd = -1;        // of a watched one; -1: `timer` polls it instead
    EventLoop::TimerId timer = 0;
  };
  struct Session {
    int signal = 0;
    std::map<pid_t, Process> processes;
    bool leader_ended = false;
    std::function<void()> ended;
  };

  static StopPlan PlanFor(pid_t leader, const Session& session);
  static void Refresh(Session* session);
  // Reads its processes again and does what is due. False: nothing is awaited.
  bool Advance(pid_t leader, Session* session);
  void CarryOut(pid_t leader, Session* session, const StopPlan& plan);
  static void Tell(Session* session, const std::vector<int64_t>& pids);
  void Watch(pid_t leader, Process* process);
  void OnEnded(pid_t leader, pid_t pid);
  void Release(Process* process);
  void Drop(pid_t leader);

  EventLoop* const loop_;
  std::map<pid_t, Session> sessions_;  // by leader
  std::set<pid_t> spared_;
};

}  // namespace muster::host
