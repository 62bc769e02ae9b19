#include "agent/host/marked.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "agent/host/event_loop.h"
#include "proto/base/status_macros.h"

namespace muster::host {
namespace {

constexpr size_t kMaxNamespaceName = 64;  // bytes: "time:[4026531834]"

using HostIds = std::set<std::string>;

struct Found {
  ProcessInfo info;
  bool marked = false;
};

struct Processes {
  std::map<pid_t, Found> living;
  std::string unknown;  // as in MarkedReport
};

// The marker's text; empty: it bears none, or is not ours to read.
std::string MarkerOf(pid_t pid, std::string* unknown) {
  absl::StatusOr<std::string> text = StartEnvironment(pid, kMarkerVariable);
  if (text.ok()) return *std::move(text);
  if (absl::IsResourceExhausted(text.status()) || absl::IsUnavailable(text.status())) {
    *unknown = AsStd(text.status().message());
  }
  return "";
}

bool IsOneOf(const HostIds& host_ids, std::string_view marker) {
  return !marker.empty() && host_ids.count(std::string(HostIdOf(marker))) > 0;
}

void LookAt(pid_t pid, const HostIds& host_ids, Processes* processes, std::string* unknown) {
  const auto info = ReadProcess(pid);
  if (info && !info->ended()) {
    const bool marked = IsOneOf(host_ids, MarkerOf(pid, unknown));
    processes->living[pid] = Found{*info, marked};
  } else if (!info && kill(pid, 0) == 0) {  // there, and ours
    *unknown = "pid " + std::to_string(pid) + " cannot be read";
  }
}

Processes LivingProcesses(const HostIds& host_ids) {
  Processes processes;
  processes.unknown =
      LookAtEachProcess([&](pid_t pid, std::string* unclear) { LookAt(pid, host_ids, &processes, unclear); });
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

bool IsAmong(const std::vector<ProcessInfo>& processes, const ProcessInfo& info) {
  return std::any_of(processes.begin(), processes.end(),
                     [&](const ProcessInfo& other) { return other.pid == info.pid && other.start == info.start; });
}

// The process is held by a pidfd before it is looked at again, so that a pid taken over in between is never hit.
void KillIfUnchanged(const ProcessInfo& seen) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, seen.pid, 0));
  if (pidfd < 0) return;
  const auto now = ReadProcess(seen.pid);
  if (now && !now->ended() && now->start == seen.start) syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  close(pidfd);
}

bool IsDeadHost(const Marker& marker) {
  const auto pid = static_cast<pid_t>(marker.pid);
  const auto process = ReadProcess(pid);
  if (!process) return !IsThere(pid);
  return process->ended() || process->start != marker.start;
}

bool IsOurUsers(pid_t pid) {
  struct stat info;
  return stat(("/proc/" + std::to_string(pid)).c_str(), &info) == 0 && info.st_uid == geteuid();
}

// Hosts of which we are a descendant ourselves: a worker may start a muster.
HostIds HostsAboveUs(std::string* unknown) {
  HostIds above;
  for (pid_t pid = getpid(); pid > 1;) {
    above.insert(std::string(HostIdOf(MarkerOf(pid, unknown))));
    const auto process = ReadProcess(pid);
    if (!process) break;
    pid = process->parent;
  }
  return above;
}

HostIds DeadHostsOfOurRun(const Marker& own, std::string* unknown) {
  HostIds dead, looked_at = HostsAboveUs(unknown);
  const std::string unclear = LookAtEachProcess([&](pid_t pid, std::string* why) {
    if (!IsOurUsers(pid)) return;
    const auto marker = ParseMarker(MarkerOf(pid, why));
    if (!marker || !MayInherit(own, *marker) || !looked_at.insert(marker->host_id).second) return;
    if (IsDeadHost(*marker)) dead.insert(marker->host_id);
  });
  if (!unclear.empty()) *unknown = unclear;
  return dead;
}

}  // namespace

MarkedReport EndMarked(const HostIds& host_ids, const std::vector<pid_t>& sessions,
                       const std::vector<ProcessInfo>& earlier) {
  const auto& [processes, unknown] = LivingProcesses(host_ids);
  std::set<pid_t> doomed_sessions = OwnedBy(processes, &ProcessInfo::session);
  doomed_sessions.insert(sessions.begin(), sessions.end());
  std::set<pid_t> doomed_groups = OwnedBy(processes, &ProcessInfo::group);
  const pid_t own_session = getsid(0);
  for (pid_t never : {own_session, pid_t{0}, pid_t{1}}) doomed_sessions.erase(never);
  for (pid_t never : {getpgrp(), pid_t{0}, pid_t{1}}) doomed_groups.erase(never);

  MarkedReport report;
  report.unknown = unknown;
  for (const auto& [pid, found] : processes) {
    if (pid == getpid() || pid == 1) continue;
    const ProcessInfo& info = found.info;
    const bool doomed = found.marked || doomed_sessions.count(info.session) > 0 ||
                        doomed_groups.count(info.group) > 0 || IsAmong(earlier, info);
    if (!doomed) continue;
    if (info.stuck()) {
      report.stuck += (report.stuck.empty() ? "" : ", ") + Describe(info);
    } else {
      // Gone or another by now: the next pass sees what is true then.
      KillIfUnchanged(info);
      report.found.push_back(info);
    }
  }
  return report;
}

bool AnyMarkedAlive(const std::string& host_id) {
  const Processes processes = LivingProcesses({host_id});
  return std::any_of(processes.living.begin(), processes.living.end(), [](const auto& entry) {
    const auto& [pid, found] = entry;
    return found.marked && pid != getpid() && !found.info.stuck();
  });
}

Marker OwnMarker(const std::string& host_id, const std::string& run_id, const std::string& boot_id,
                 const std::string& pid_namespace) {
  char time_namespace[kMaxNamespaceName];
  const ssize_t size = readlink("/proc/self/ns/time", time_namespace, sizeof(time_namespace));
  Marker marker;
  marker.host_id = host_id;
  marker.run_id = run_id;
  const auto self = ReadProcess(getpid());
  if (!self) return marker;
  marker.pid = self->pid;
  marker.start = self->start;
  marker.place = MakePlace(boot_id, pid_namespace,
                           std::string_view(time_namespace, size > 0 ? static_cast<size_t>(size) : 0));
  return marker;
}

OrphanReport EndOrphans(const Marker& own) {
  OrphanReport report;
  if (own.place.empty()) return report;
  const BootTime clear_by = EventLoop::Now() + kUnclearLimit;
  HostIds dead = DeadHostsOfOurRun(own, &report.unseen);
  while (!report.unseen.empty() && EventLoop::Now() < clear_by) {
    absl::SleepFor(kOrphanRetry);
    report.unseen.clear();
    dead.merge(DeadHostsOfOurRun(own, &report.unseen));
  }
  if (dead.empty()) return report;
  const BootTime limit = EventLoop::Now() + kOrphanLimit;
  MarkedReport pass;
  while (true) {
    pass = EndMarked(dead, {}, pass.found);
    report.left.clear();
    for (const ProcessInfo& process : pass.found) {
      report.ended.insert("pid " + std::to_string(process.pid) + " (" + process.name + ")");
      report.left += (report.left.empty() ? "" : ", ") + Describe(process);
    }
    if (pass.AllGone() || EventLoop::Now() >= limit) break;
    absl::SleepFor(kOrphanRetry);
  }
  if (!pass.unknown.empty()) report.unseen = pass.unknown;
  return report;
}

}  // namespace muster::host
