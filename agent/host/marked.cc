#include "agent/host/marked.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "agent/host/core/worker_environment.h"
#include "agent/host/proc_scan.h"

namespace muster::host {
namespace {

bool BearsMarker(pid_t pid, const std::string& host_id) {
  return StartEnvironment(pid, kMarkerVariable) == host_id;
}

struct Found {
  ProcessInfo info;
  bool marked = false;
};

std::map<pid_t, Found> LivingProcesses(const std::string& host_id) {
  std::map<pid_t, Found> processes;
  ForEachProcess([&](pid_t pid) {
    if (const auto info = ReadProcess(pid); info && !info->ended()) {
      processes[pid] = Found{*info, BearsMarker(pid, host_id)};
    }
  });
  return processes;
}

// The marked processes' sessions and groups. One whose leader is alive and bears no marker is somebody else's, in
// which a marked process is a guest.
std::set<pid_t> OwnedBy(const std::map<pid_t, Found>& processes, pid_t ProcessInfo::*kind) {
  std::set<pid_t> ids;
  for (const auto& [pid, found] : processes) {
    if (!found.marked) continue;
    const pid_t id = found.info.*kind;
    const auto leader = processes.find(id);
    if (id > 1 && (leader == processes.end() || leader->second.marked)) ids.insert(id);
  }
  return ids;
}

// The process is held by a pidfd before it is looked at again, so that a pid taken over in between is never hit.
bool KillIfUnchanged(const ProcessInfo& seen) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, seen.pid, 0));
  if (pidfd < 0) return false;
  const auto now = ReadProcess(seen.pid);
  const bool same = now && !now->ended() && now->session == seen.session && now->name == seen.name;
  if (same) syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  close(pidfd);
  return same;
}

}  // namespace

MarkedReport EndMarked(const std::string& host_id, const std::vector<pid_t>& sessions) {
  const std::map<pid_t, Found> processes = LivingProcesses(host_id);
  std::set<pid_t> doomed_sessions = OwnedBy(processes, &ProcessInfo::session);
  doomed_sessions.insert(sessions.begin(), sessions.end());
  std::set<pid_t> doomed_groups = OwnedBy(processes, &ProcessInfo::group);
  const pid_t own_session = getsid(0);
  for (pid_t never : {own_session, pid_t{0}, pid_t{1}}) doomed_sessions.erase(never);
  for (pid_t never : {getpgrp(), pid_t{0}, pid_t{1}}) doomed_groups.erase(never);

  MarkedReport report;
  for (const auto& [pid, found] : processes) {
    if (pid == getpid() || pid == 1) continue;
    const ProcessInfo& info = found.info;
    if (!found.marked && doomed_sessions.count(info.session) == 0 && doomed_groups.count(info.group) == 0)
      continue;
    if (info.stuck()) {
      report.stuck += (report.stuck.empty() ? "" : ", ") + Describe(info);
    } else {
      // Gone or another by now: the next pass sees what is true then.
      KillIfUnchanged(info);
      ++report.alive;
    }
  }
  return report;
}

bool AnyMarkedAlive(const std::string& host_id) {
  bool alive = false;
  ForEachProcess([&](pid_t pid) {
    if (alive || pid == getpid() || !BearsMarker(pid, host_id)) return;
    const auto info = ReadProcess(pid);
    alive = info && !info->ended() && !info->stuck();
  });
  return alive;
}

}  // namespace muster::host
