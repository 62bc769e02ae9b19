#include "agent/host/process/sweeper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/proc/proc_scan.h"

namespace muster::host {
namespace {

constexpr int kMaxNamed = 8;  // processes named in one report

}  // namespace

Sweeper::Sweeper(EventLoop* loop, Spawner* spawner, Swept swept, EndHidden end_hidden,
                 ComesFromWorker comes_from_worker)
    : loop_(loop),
      spawner_(spawner),
      swept_(std::move(swept)),
      end_hidden_(std::move(end_hidden)),
      comes_from_worker_(std::move(comes_from_worker)) {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    status_ = absl::ErrnoToStatus(errno,
                                  "prctl(PR_SET_CHILD_SUBREAPER) is refused here (kernel, sandbox or seccomp "
                                  "profile), so orphans of the workers could not be killed");
    return;
  }
  const auto children = Children();
  status_ = children.status();
  if (!children.ok()) return;
  for (const ProcessInfo& child : *children) {
    if (!spawner_->Knows(child.pid)) strangers_.insert(child.pid);
  }
  had_strangers_ = !strangers_.empty();
}

Sweeper::~Sweeper() {
  if (timer_ != 0) loop_->Cancel(timer_);
}

void Sweeper::Sweep() {
  if (!sweeping_) {
    sweeping_ = true;
    ended_.clear();
    retry_ = kSweepRetry;
    next_report_ = EventLoop::Now() + kSweepReport;
  }
  Passes();
}

void Sweeper::OnChildSignal() {
  CollectEnded();
  if (sweeping_) Passes();
}

// The spawner reaps its own processes, all others are reaped here. False: this one stays, for now.
bool Sweeper::Collect(pid_t pid) {
  if (spawner_->Knows(pid)) {
    spawner_->Collect(pid);
    return !spawner_->Knows(pid);
  }
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | __WALL) != 0) return false;
  if (strangers_.erase(pid) == 0 && sweeping_) ended_.insert(pid);
  return true;
}

// Peeks before it reaps. A child that stays would be seen forever, so all of them are listed then.
void Sweeper::CollectEnded() {
  while (true) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid == 0) return;
    if (!Collect(info.si_pid)) break;
  }
  for (const ProcessInfo& child : Children().value_or(std::vector<ProcessInfo>())) {
    if (child.ended()) Collect(child.pid);
  }
}

// Collecting a child may call Sweep() recursively; such a call only requests another pass of this loop.
void Sweeper::Passes() {
  again_ = true;
  if (in_pass_) return;
  in_pass_ = true;
  std::string left;
  while (again_ && sweeping_) {
    again_ = false;
    left = KillOnce();
    CollectEnded();
    // Processes that have just died may have left their children to this process, so look once more.
    if (!left.empty()) left = KillOnce();
  }
  in_pass_ = false;
  if (!sweeping_) return;
  if (left.empty()) {
    Finish();
    return;
  }
  RetryLater();
  if (EventLoop::Now() < next_report_) return;
  next_report_ = EventLoop::Now() + kSweepReport;
  if (end_hidden_) end_hidden_(held_);
  swept_(left);
}

std::string Sweeper::KillOnce() {
  spawner_->KillWorkers();
  std::string left;
  int count = 0;
  const auto still = [&](const ProcessInfo& process) {
    if (++count <= kMaxNamed) left += (left.empty() ? "" : ", ") + Describe(process);
  };
  const auto children = Children();
  if (!children.ok()) {  // it is unknown whether anything is left
    ++count;
    left = "children that cannot be listed: " + std::string(AsStd(children.status().message()));
  }
  held_.clear();
  for (const ProcessInfo& child : children.value_or(std::vector<ProcessInfo>())) {
    if (spawner_->Knows(child.pid)) continue;
    const Owner owner = OwnerOf(child);
    if (owner == Owner::kStranger) continue;
    still(child);
    if (owner == Owner::kUnknown) continue;
    kill(child.pid, SIGKILL);  // an unreaped child, so the pid is its own
    held_.insert(child.pid);
  }
  for (pid_t pid : spawner_->LiveWorkers()) {
    ProcessInfo unreadable;  // not reaped, so it exists even if /proc cannot be read (no descriptor left, say)
    unreadable.pid = pid;
    still(ReadProcess(pid).value_or(unreadable));
    held_.insert(pid);
  }
  if (count > kMaxNamed) left += " and " + std::to_string(count - kMaxNamed) + " more";
  return left;
}

// Parentage alone does not show whether an orphan comes from a worker or a stranger: both become children of this
// process, and orphans of orphans do so even after all strangers have ended. A worker and its descendants are
// never in this process's session, and carry the marker unless they overwrote it.
Sweeper::Owner Sweeper::OwnerOf(const ProcessInfo& child) {
  if (!had_strangers_) return Owner::kWorker;
  if (strangers_.count(child.pid) > 0) return Owner::kStranger;
  std::optional<bool> from_worker = false;
  if (child.session != getsid(0) && comes_from_worker_) from_worker = comes_from_worker_(child);
  if (!from_worker) return Owner::kUnknown;
  if (*from_worker) return Owner::kWorker;
  strangers_.insert(child.pid);
  return Owner::kStranger;
}

void Sweeper::Finish() {
  sweeping_ = false;
  if (timer_ != 0) loop_->Cancel(timer_);
  timer_ = 0;
  swept_("");
}

// SIGCHLD also triggers a pass; the timer is for changes that cause no SIGCHLD.
void Sweeper::RetryLater() {
  if (timer_ != 0) return;
  timer_ = loop_->After(retry_, [this] {
    timer_ = 0;
    retry_ = std::min(retry_ * 2, kSweepRetryMax);
    if (sweeping_) OnChildSignal();
  });
}

}  // namespace muster::host
