#include "agent/host/process/session_drain.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/host/process/leftovers.h"
#include "base/proc/proc_scan.h"

namespace muster::host {
namespace {

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

SessionMember ToMember(const ProcessInfo& info, int signal) {
  SessionMember member = {.pid = info.pid, .parent = info.parent, .start = info.start, .forked = info.forked};
  member.handles = HandlesSignal(info.pid, signal);
  member.shell = member.handles && IsShell(ProgramOf(info.pid));
  member.reads = !member.handles && ReadsFromPipe(info.pid);
  return member;
}

std::map<pid_t, std::vector<SessionMember>> MembersOf(const std::set<pid_t>& leaders, int signal) {
  std::map<pid_t, std::vector<SessionMember>> sessions;
  ForEachMember(
      leaders, [&](pid_t leader, const ProcessInfo& info) { sessions[leader].push_back(ToMember(info, signal)); });
  return sessions;
}

// What it handled before the signal counts, unless it has executed another program since.
void RefreshMember(SessionMember* member, int signal) {
  const auto pid = static_cast<pid_t>(member->pid);
  const auto now = ReadProcess(pid);
  member->ended = now ? now->ended() || now->start != member->start : !IsThere(pid);
  if (!now || member->ended || now->forked == member->forked) return;
  const int64_t parent = member->parent;
  *member = ToMember(*now, signal);
  member->parent = parent;
}

}  // namespace

int SignalHandlers(const std::set<pid_t>& leaders, int signal) {
  int count = 0;
  for (const auto& [leader, members] : MembersOf(leaders, signal)) {
    const std::vector<int64_t> handlers = TopmostHandlers(leader, members);
    for (const SessionMember& member : members) {
      if (std::find(handlers.begin(), handlers.end(), member.pid) == handlers.end()) continue;
      if (SignalProcess(static_cast<pid_t>(member.pid), member.start, signal).ok()) ++count;
    }
  }
  return count;
}

// All sessions are read before the first signal, because workers may end with their peers.
void SessionDrain::Stop(const std::set<pid_t>& leaders, int signal) {
  for (const auto& [leader, members] : MembersOf(leaders, signal)) {
    Session& session = sessions_[leader];
    session.signal = signal;
    for (const SessionMember& member : members) {
      session.processes.try_emplace(static_cast<pid_t>(member.pid), Process{.member = member});
    }
  }
  for (const pid_t leader : leaders) {
    const auto it = sessions_.find(leader);
    if (it == sessions_.end()) {  // it could not be read
      kill(-leader, signal);
      continue;
    }
    const StopPlan plan = PlanFor(leader, it->second);
    if (plan.whole_group) {
      for (auto& [pid, process] : it->second.processes) process.told = getpgid(pid) == leader;
      kill(-leader, signal);
    }
    CarryOut(leader, &it->second, plan);
  }
}

void SessionDrain::SignalRest() {
  for (auto& [leader, session] : sessions_) {
    Refresh(&session);
    Tell(&session, PlanFor(leader, session).later);
  }
}

StopPlan SessionDrain::PlanFor(pid_t leader, const Session& session) {
  std::vector<SessionMember> members;
  for (const auto& [pid, process] : session.processes) members.push_back(process.member);
  return PlanStop(leader, members, session.signal);
}

bool SessionDrain::Advance(pid_t leader, Session* session) {
  Refresh(session);
  const StopPlan plan = PlanFor(leader, *session);
  // With nobody to wait for, SIGKILL to the group of an ended leader is next.
  if (!plan.awaited.empty() || !session->leader_ended) CarryOut(leader, session, plan);
  return !plan.awaited.empty();
}

void SessionDrain::CarryOut(pid_t leader, Session* session, const StopPlan& plan) {
  Tell(session, plan.now);
  for (const int64_t pid : plan.awaited) {
    if (pid != leader) Watch(leader, &session->processes.at(static_cast<pid_t>(pid)));
  }
}

void SessionDrain::Refresh(Session* session) {
  for (auto& [pid, process] : session->processes) {
    if (!process.member.ended) RefreshMember(&process.member, session->signal);
  }
}

void SessionDrain::Tell(Session* session, const std::vector<int64_t>& pids) {
  for (const int64_t pid : pids) {
    Process& process = session->processes.at(static_cast<pid_t>(pid));
    if (std::exchange(process.told, true)) continue;
    (void)SignalProcess(static_cast<pid_t>(pid), process.member.start, session->signal);
  }
}

void SessionDrain::Watch(pid_t leader, Process* process) {
  if (std::exchange(process->watched, true)) return;
  const auto pid = static_cast<pid_t>(process->member.pid);
  spared_.insert(pid);
  // The pidfd may refer to another process that got the pid in between: OnEnded reads the process once more.
  process->pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  const bool pollable = process->pidfd >= 0 && IsAlive(pid, process->member.start);
  if (!pollable && process->pidfd >= 0) close(std::exchange(process->pidfd, -1));
  if (pollable) {
    loop_->Watch(process->pidfd, EPOLLIN, [this, leader, pid](uint32_t) { OnEnded(leader, pid); });
  } else {
    process->timer = loop_->After(kDrainRetry, [this, leader, pid] { OnEnded(leader, pid); });
  }
}

void SessionDrain::OnEnded(pid_t leader, pid_t pid) {
  const auto it = sessions_.find(leader);
  if (it == sessions_.end()) return;
  Release(&it->second.processes.at(pid));
  if (Advance(leader, &it->second) || !it->second.leader_ended) return;
  const std::function<void()> ended = std::move(it->second.ended);
  Drop(leader);
  ended();
}

bool SessionDrain::Await(pid_t leader, std::function<void()> ended) {
  const auto it = sessions_.find(leader);
  if (it == sessions_.end()) return false;
  Session& session = it->second;
  session.leader_ended = true;
  session.ended = std::move(ended);
  if (const auto first = session.processes.find(leader); first != session.processes.end()) {
    first->second.member.ended = true;
  }
  if (Advance(leader, &session)) return true;
  Drop(leader);
  return false;
}

// A leader that was reaped keeps its number while the session has a member.
void SessionDrain::Signal(int signal) {
  for (const auto& [leader, session] : sessions_) {
    const bool lives = std::any_of(session.processes.begin(), session.processes.end(), [](const auto& process) {
      const SessionMember& member = process.second.member;
      return IsAlive(static_cast<pid_t>(member.pid), member.start);
    });
    if (session.leader_ended && lives) kill(-leader, signal);
  }
}

std::set<pid_t> SessionDrain::sessions() const {
  std::set<pid_t> leaders;
  for (const auto& [leader, session] : sessions_) {
    if (session.leader_ended) leaders.insert(leader);
  }
  return leaders;
}

void SessionDrain::Forget() {
  while (!sessions_.empty()) Drop(sessions_.begin()->first);
}

void SessionDrain::Drop(pid_t leader) {
  for (auto& [pid, process] : sessions_[leader].processes) Release(&process);
  sessions_.erase(leader);
}

void SessionDrain::Release(Process* process) {
  if (!std::exchange(process->watched, false)) return;
  if (process->pidfd >= 0) {
    loop_->Unwatch(process->pidfd);
    close(std::exchange(process->pidfd, -1));
  } else {
    loop_->Cancel(process->timer);
  }
}

}  // namespace muster::host
