// What an agent does about dead hosts: it ends everything that its own host has left, and checks whether the
// former holder of a place is dead.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/io/event_loop.h"
#include "base/proc/dead_hosts.h"
#include "base/proc/proc_scan.h"
#include "muster/v1/host.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kHostDeathLimit = absl::Seconds(10);  // from SIGKILL to its end; later it is stuck
inline constexpr absl::Duration kHostExitLimit = absl::Seconds(1);    // from the end of its link to its own end
inline constexpr absl::Duration kSweepInterval = absl::Milliseconds(20);
inline constexpr size_t kMaxLeftText = 1024;  // bytes of the text that names the remaining processes
inline constexpr absl::Duration kSweepLimit = absl::Seconds(10);  // from SIGKILL to the end of all processes

// Lives on the loop thread.
class HostEnder {
 public:
  struct Events {
    std::function<void()> on_swept;                             // nothing of the host is alive
    std::function<void(const std::string& left)> on_not_swept;  // at the limit something is, or may be, alive
    std::function<void()> on_host_lives;  // the host closed the link and goes on: it has dropped this agent
    std::function<void(const std::string& line)> on_remark;
  };
  // pidfd: of the host, borrowed; -1: the host is gone already. adopter: returns the process that has adopted the
  // host's orphans; called in each pass once the host is dead; 0: not known.
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
  std::vector<ProcessInfo> found_;  // by the previous sweep
};

// True only with proof: no process here is the one with this hash (Whereabouts.process), which belongs to a host
// of this container and user, and nothing is left of any dead host of our run. What they have left, by the
// evidence of base/proc/orphans.h, is sent SIGKILL, so a later call returns true. The hash alone, which comes from
// another machine, ends nothing. own: of our host.
bool IsProvedDead(const std::string& process, const Marker& own, const v1::NodeConfig& self, int64_t own_host_pid);

// pidfd_open(2). -1: errno has the reason; ESRCH if there is no such process.
int OpenPidFd(pid_t pid);

}  // namespace muster::agent
