// What an agent does about hosts that are gone: ends everything its own one left behind, and looks whether a
// place's former holder is dead.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/io/event_loop.h"
#include "base/proc/marked.h"
#include "base/proc/proc_scan.h"
#include "muster/v1/host.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kHostDeathLimit =
    absl::Seconds(10);                                              // SIGKILL to the host's end: then it is stuck
inline constexpr absl::Duration kHostExitLimit = absl::Seconds(1);  // its link's end to its own
inline constexpr absl::Duration kSweepInterval = absl::Milliseconds(20);
inline constexpr size_t kMaxLeftText = 1024;  // bytes, of what names those left
inline constexpr absl::Duration kSweepLimit =
    absl::Seconds(10);  // SIGKILL to all to their end: then it is given up

// Lives on the loop thread.
class HostEnder {
 public:
  struct Events {
    std::function<void()> on_swept;                             // nothing of the host is alive
    std::function<void(const std::string& left)> on_not_swept;  // some of it is, or may be, after the limit
    std::function<void()> on_host_lives;  // it closed the link and goes on: it has dropped us
    std::function<void(const std::string& line)> on_remark;
  };
  // pidfd: of the host, borrowed; -1: it is gone already. adopter: asked at each pass, once the host is dead: who
  // has its orphans; 0: not known.
  HostEnder(EventLoop* loop, int pidfd, DeadHosts host, std::function<pid_t()> adopter, Events events,
            absl::Duration sweep_limit = kSweepLimit);
  ~HostEnder();

  void Begin(bool kill_first);

 private:
  void OnHostEnded();
  void OnHostStays(bool killed);
  void Sweep();

  EventLoop* const loop_;
  const int pidfd_;
  DeadHosts host_;
  const std::function<pid_t()> adopter_;
  const Events events_;
  const absl::Duration sweep_limit_;
  EventLoop::TimerId timer_ = 0;
  BootTime sweep_until_;
  std::vector<ProcessInfo> found_;  // by the last sweep
};

// True only if it is proved: the former holder was of this boot and PID namespace, its process is no more, and
// nothing bears its marker. What still bears the marker of a dead one is sent SIGKILL: a later call says true.
bool IsProvedDead(const v1::Predecessor& predecessor, const v1::NodeConfig& self, int64_t own_host_pid);

// pidfd_open(2): -1 if there is no such process.
int OpenPidFd(pid_t pid);

}  // namespace muster::agent
