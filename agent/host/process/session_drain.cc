#include "agent/host/process/session_drain.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/proc/proc_scan.h"

namespace muster::host {
namespace {

bool Lives(const SessionMember& member) { return IsAlive(static_cast<pid_t>(member.pid), member.start); }

// Visits every process of these sessions; processes that cannot be read are skipped.
void ForEachMember(const std::set<pid_t>& leaders,
                   const std::function<void(pid_t leader, const ProcessInfo&)>& visit) {
  (void)ForEachProcess([&](pid_t pid) {
    const pid_t session = getsid(pid);  // far cheaper than reading /proc, and rules out most processes
    if (leaders.count(session) == 0) return;
    const auto info = ReadProcess(pid);
    if (info && !info->ended() && info->session == session) visit(session, *info);
  });
}

}  // namespace

int SignalHandlers(const std::set<pid_t>& leaders, int signal) {
  int count = 0;
  ForEachMember(leaders, [&](pid_t, const ProcessInfo& info) {
    if (HandlesSignal(info.pid, signal) && SignalProcess(info.pid, info.start, signal).ok()) ++count;
  });
  return count;
}

void SessionDrain::Note(const std::set<pid_t>& leaders, int signal) {
  noted_.clear();
  std::map<pid_t, std::vector<SessionMember>> sessions;
  ForEachMember(leaders, [&](pid_t leader, const ProcessInfo& info) {
    sessions[leader].push_back(
        {.pid = info.pid, .parent = info.parent, .start = info.start, .handles = HandlesSignal(info.pid, signal)});
  });
  for (const auto& [leader, members] : sessions) {
    const std::vector<SessionMember> finishing = FinishingMembers(leader, members);
    if (!finishing.empty()) noted_[leader].assign(finishing.begin(), finishing.end());
  }
}

bool SessionDrain::Await(pid_t leader, std::function<void()> ended) {
  const auto noted = noted_.find(leader);
  if (noted == noted_.end()) return false;
  Waiting waiting;
  waiting.members = std::move(noted->second);
  waiting.ended = std::move(ended);
  for (const SessionMember& member : waiting.members) spared_.insert(static_cast<pid_t>(member.pid));
  noted_.erase(noted);
  if (!WatchFirst(leader, &waiting)) return false;
  waiting_[leader] = std::move(waiting);
  return true;
}

bool SessionDrain::WatchFirst(pid_t leader, Waiting* waiting) {
  for (; !waiting->members.empty(); waiting->members.pop_front()) {
    const SessionMember& first = waiting->members.front();
    // The pidfd is opened before the check, so it cannot refer to another process that got the pid in between.
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(first.pid), 0));
    if (pidfd < 0 && errno == ESRCH) continue;
    if (!Lives(first)) {
      if (pidfd >= 0) close(pidfd);
      continue;
    }
    waiting->pidfd = pidfd;
    if (pidfd >= 0) {
      loop_->Watch(pidfd, EPOLLIN, [this, leader](uint32_t) { OnFirstEnded(leader); });
    } else {
      waiting->timer = loop_->After(kDrainRetry, [this, leader] { OnFirstEnded(leader); });
    }
    return true;
  }
  return false;
}

void SessionDrain::OnFirstEnded(pid_t leader) {
  const auto it = waiting_.find(leader);
  if (it == waiting_.end()) return;
  Release(&it->second);
  if (WatchFirst(leader, &it->second)) return;
  const std::function<void()> ended = std::move(it->second.ended);
  waiting_.erase(it);
  ended();
}

// The leader was reaped, but its pid is not reused while the session has a member.
void SessionDrain::Signal(int signal) {
  for (const auto& [leader, waiting] : waiting_) {
    if (Lives(waiting.members.front())) kill(-leader, signal);
  }
}

std::set<pid_t> SessionDrain::sessions() const {
  std::set<pid_t> sessions;
  for (const auto& [leader, waiting] : waiting_) sessions.insert(leader);
  return sessions;
}

void SessionDrain::Forget() {
  for (auto& [leader, waiting] : waiting_) Release(&waiting);
  waiting_.clear();
  noted_.clear();
}

void SessionDrain::Release(Waiting* waiting) {
  if (waiting->pidfd >= 0) {
    loop_->Unwatch(waiting->pidfd);
    close(waiting->pidfd);
  } else {
    loop_->Cancel(waiting->timer);
  }
  waiting->pidfd = -1;
}

}  // namespace muster::host
