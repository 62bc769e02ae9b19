#include "agent/process/host_ender.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/crypto/whereabouts.h"
#include "base/proc/proc_scan.h"

namespace muster::agent {

int OpenPidFd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

HostEnder::HostEnder(EventLoop* loop, int pidfd, DeadHosts host, std::function<pid_t()> adopter, Events events,
                     absl::Duration sweep_limit)
    : loop_(loop),
      pidfd_(pidfd),
      host_(std::move(host)),
      adopter_(std::move(adopter)),
      events_(std::move(events)),
      sweep_limit_(sweep_limit) {}

HostEnder::~HostEnder() {
  loop_->Cancel(timer_);
  if (pidfd_ >= 0) loop_->Unwatch(pidfd_);
}

void HostEnder::Begin(bool kill_first) {
  if (pidfd_ < 0) {
    timer_ = loop_->After(absl::ZeroDuration(), [this] { OnHostEnded(); });
    return;
  }
  if (kill_first && syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0) != 0 && errno != ESRCH) {
    events_.on_remark("cannot send SIGKILL to the host, which does not respond: " +
                      std::string(std::strerror(errno)));
  }
  loop_->Watch(pidfd_, EPOLLIN, [this](uint32_t) { OnHostEnded(); });  // fires at once if it has ended already
  timer_ =
      loop_->After(kill_first ? kHostDeathLimit : kHostExitLimit, [this, kill_first] { OnHostStays(kill_first); });
}

void HostEnder::OnHostEnded() {
  loop_->Cancel(timer_);
  if (pidfd_ >= 0) loop_->Unwatch(pidfd_);
  sweep_until_ = EventLoop::Now() + sweep_limit_;
  Sweep();
}

void HostEnder::OnHostStays(bool killed) {
  if (!killed) {
    loop_->Unwatch(pidfd_);
    events_.on_host_lives();
    return;
  }
  // SIGKILL is pending: the host executes none of its own code any more, wherever the kernel holds it.
  events_.on_remark("the host has not ended " + absl::FormatDuration(kHostDeathLimit) +
                    " after SIGKILL; it is treated as ended");
  OnHostEnded();
}

void HostEnder::Sweep() {
  host_.adopter = adopter_();
  const MarkedReport report = EndMarked(host_, found_);
  found_ = report.found;
  if (report.AllGone()) {
    if (!report.stuck.empty()) {
      events_.on_remark("killed, but still held by the kernel; treated as ended: " + report.stuck);
    }
    events_.on_swept();
    return;
  }
  // What is left belongs to another user, or cannot be read.
  if (EventLoop::Now() >= sweep_until_) {
    std::string left = report.unknown.empty() ? "" : "not all processes can be read (" + report.unknown + ")";
    for (const ProcessInfo& process : report.found) {
      left += (left.empty() ? "" : ", ") + Describe(process);
      if (left.size() >= kMaxLeftText) break;
    }
    events_.on_not_swept(left);
    return;
  }
  timer_ = loop_->After(kSweepInterval, [this] { Sweep(); });
}

bool IsProvedDead(const std::string& process, const Marker& own, const v1::NodeConfig& self,
                  int64_t own_host_pid) {
  if (process.empty() || ProcHidesProcesses()) return false;
  bool lives = false;
  std::string unknown = LookAtEachProcess([&](pid_t pid, std::string* /*unclear*/) {
    const bool is_it = pid != own_host_pid && ProcessHash(self.whereabouts().user(), pid) == process;
    if (!is_it) return;
    const std::optional<ProcessInfo> info = ReadProcess(pid);
    lives |= info ? !info->ended() : IsThere(pid);
  });
  if (lives || !unknown.empty()) return false;
  // The host is dead. Kill what it and its agent left if they died together; a later probe finds nothing. From
  // here, below a host that adopts all orphans, it cannot be known whether our ancestors adopted its children.
  const std::set<std::string> dead = DeadHostsOfOurRun(own, &unknown);
  if (!unknown.empty()) return false;
  return dead.empty() || EndMarked({.ids = dead, .may_adopt = Ancestors()}).AllGone();
}

}  // namespace muster::agent
