#include "base/proc/dead_hosts.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/proc/environ_reader.h"

namespace muster {
namespace {

constexpr size_t kMaxNamespaceName = 64;         // bytes: "time:[4026531834]"
constexpr timespec kAdoptionPoll = {0, 50'000};  // 50 us, in FindAdopter()

using HostIds = std::set<std::string>;

struct Snapshot {
  std::map<int64_t, SeenProcess> seen;
  std::map<int64_t, ProcessInfo> info;  // of the same processes
  std::string unknown;                  // as in MarkedReport
};

// Adds parents that /proc hides from us (hidepid).
void AddHiddenParents(Snapshot* snapshot) {
  std::set<int64_t> missing;
  for (const auto& [pid, process] : snapshot->seen) {
    if (process.parent > 1 && snapshot->seen.count(process.parent) == 0) missing.insert(process.parent);
  }
  for (const int64_t parent : missing) {
    const auto pid = static_cast<pid_t>(parent);
    if (ReadProcess(pid) || kill(pid, 0) == 0 || errno != EPERM) continue;
    snapshot->seen[parent].id.pid = parent;
  }
}

Snapshot TakeSnapshot() {
  Snapshot snapshot;
  snapshot.unknown = LookAtEachProcess([&](pid_t pid, std::string* unclear) {
    const auto info = ReadProcess(pid);
    if (!info && kill(pid, 0) == 0)
      *unclear = "pid " + std::to_string(pid) + " cannot be read";  // it exists, and is ours
    if (!info || info->ended() || info->kernel_thread) return;
    SeenProcess& process = snapshot.seen[pid];
    process.id = {.pid = pid, .start = info->start};
    process.parent = info->parent;
    process.group = info->group;
    process.session = info->session;
    process.exiting = info->exiting;
    snapshot.info[pid] = *info;
  });
  AddHiddenParents(&snapshot);
  return snapshot;
}

bool MayBeRead(pid_t pid) {
  struct stat info;
  return geteuid() == 0 ||
         (stat(("/proc/" + std::to_string(pid)).c_str(), &info) == 0 && info.st_uid == geteuid());
}

// Reads a second time, after all others, what could not be read: an exec, or a wait for the disk, has mostly ended
// by then.
EnvironReader::Answers ReadMarkers(const std::vector<ProcessInfo>& processes, EnvironReader* reader) {
  EnvironReader::Answers markers = reader->ReadAll(processes);
  std::vector<ProcessInfo> again;
  for (const ProcessInfo& process : processes) {
    if (!IsUnknown(markers.at(process.pid))) continue;
    if (const auto now = ReadProcess(process.pid)) again.push_back(*now);
  }
  for (auto& [pid, marker] : reader->ReadAll(again)) markers.insert_or_assign(pid, std::move(marker));
  return markers;
}

// A process that ends during the scan may leave orphans that the snapshot does not show as such: if it had
// children, or if it was an orphan itself and has started others since. Most processes that end on a busy machine
// are neither.
class OrphanSources {
 public:
  OrphanSources(const Snapshot& snapshot, int64_t adopter) : adopters_(Ancestors()) {
    adopters_.insert({0, 1, adopter});
    for (const auto& [pid, process] : snapshot.seen) parents_.insert(process.parent);
  }
  bool operator()(const SeenProcess& process) const {
    return parents_.count(process.id.pid) > 0 || adopters_.count(process.parent) > 0;
  }

 private:
  std::set<int64_t> parents_;
  std::set<int64_t> adopters_;  // processes that adopt our orphans, or may have adopted those of the dead host
};

// Reads the markers that the evidence needs. Returns why some could not be read; empty: all were.
std::string ReadMarks(const DeadHosts& hosts, const OrphanEvidence& evidence, EnvironReader* reader,
                      Snapshot* snapshot) {
  std::vector<ProcessInfo> readable;
  for (const auto& [pid, process] : snapshot->seen) {
    const auto info = snapshot->info.find(pid);
    if (info == snapshot->info.end() || info->second.stuck() || process.exiting) continue;
    if (MayBeTopmost(process, snapshot->seen, evidence) && MayBeRead(info->second.pid)) {
      readable.push_back(info->second);
    }
  }
  std::string unknown;
  const OrphanSources may_leave_orphans(*snapshot, hosts.adopter);
  for (const auto& [pid, marker] : ReadMarkers(readable, reader)) {
    SeenProcess& process = snapshot->seen[pid];
    if (IsUnknown(marker)) {
      process.mark = SeenProcess::Mark::kUnknown;
      unknown = AsStd(marker.status().message());
    } else if (!marker.ok() && may_leave_orphans(process) && HasEndedSince(snapshot->info[pid])) {
      process.mark = SeenProcess::Mark::kUnknown;
      unknown = "pid " + std::to_string(pid) + " ended during the scan";
    } else if (marker.ok() && hosts.ids.count(std::string(HostIdOf(*marker))) > 0) {
      process.mark = SeenProcess::Mark::kBears;
      const auto parsed = ParseMarker(*marker);
      process.host_start = parsed ? parsed->start : 0;
    }
  }
  return unknown;
}

OrphanEvidence EvidenceOf(const DeadHosts& hosts, const std::vector<ProcessInfo>& earlier) {
  OrphanEvidence evidence;
  evidence.sessions = hosts.sessions;
  for (const ProcessInfo& process : earlier) evidence.found.insert({.pid = process.pid, .start = process.start});
  evidence.adopter = hosts.adopter;
  evidence.never_adopt = hosts.never_adopt;
  evidence.may_adopt = hosts.may_adopt;
  evidence.host_start = hosts.start;
  evidence.spared_sessions = {getsid(0), getpgrp()};
  evidence.spared = {getpid(), 1};
  return evidence;
}

// Returns the processes that were sent SIGKILL; the next pass shows which of them still exist.
std::vector<ProcessInfo> Kill(const std::set<int64_t>& pids, const Snapshot& snapshot, std::string* stuck) {
  std::vector<ProcessInfo> killed;
  for (const int64_t pid : pids) {
    const auto info = snapshot.info.find(pid);
    if (info == snapshot.info.end()) continue;
    if (info->second.stuck()) {
      *stuck += (stuck->empty() ? "" : ", ") + Describe(info->second);
    } else {
      (void)SignalProcess(info->second.pid, info->second.start, SIGKILL);
      killed.push_back(info->second);
    }
  }
  return killed;
}

// Our ancestors from our parent upwards, without process 1.
std::vector<int64_t> LineOfAncestors() {
  std::vector<int64_t> line;
  for (auto process = ReadProcess(getpid()); process && process->parent > 1;) {
    if (std::find(line.begin(), line.end(), process->parent) != line.end()) break;
    line.push_back(process->parent);
    process = ReadProcess(process->parent);
  }
  return line;
}

// The hosts from which this process descends itself: a worker may start a muster.
HostIds HostsAboveUs(std::string* unknown) {
  std::set<int64_t> pids = Ancestors();
  pids.insert(getpid());
  std::vector<ProcessInfo> chain;
  for (const int64_t pid : pids) {
    if (const auto process = ReadProcess(static_cast<pid_t>(pid))) chain.push_back(*process);
  }
  HostIds above;
  for (const auto& [pid, marker] : ReadMarkers(chain, &MarkerReader())) {
    if (marker.ok()) above.insert(std::string(HostIdOf(*marker)));
    if (IsUnknown(marker)) *unknown = AsStd(marker.status().message());
  }
  return above;
}

// A process cannot join an existing session: it descends from the session's leader, which bears the same marker.
bool IsLeaderKnown(const ProcessInfo& process, const EnvironReader::Answers& markers) {
  const auto leader = process.session == process.pid ? markers.end() : markers.find(process.session);
  if (leader == markers.end() || IsUnknown(leader->second)) return false;
  const auto now = ReadProcess(process.session);
  return now && !now->ended() && !now->exiting;  // else its environment may have been gone
}

}  // namespace

HostIds DeadHostsOfOurRun(const Marker& own, std::string* unknown) {
  std::vector<ProcessInfo> ours;
  const std::set<int64_t> above = Ancestors();
  const std::string unclear = LookAtEachProcess([&](pid_t pid, std::string* why) {
    struct stat owner;
    if (pid == 1 || pid == getpid() || above.count(pid) > 0)
      return;  // not of a worker, or checked by HostsAboveUs
    if (stat(("/proc/" + std::to_string(pid)).c_str(), &owner) != 0 || owner.st_uid != geteuid()) return;
    const auto process = ReadProcess(pid);
    if (!process && kill(pid, 0) == 0) *why = "pid " + std::to_string(pid) + " cannot be read";
    if (process && !process->ended() && !process->kernel_thread) ours.push_back(*process);
  });
  if (!unclear.empty()) *unknown = unclear;
  HostIds dead, looked_at = HostsAboveUs(unknown);
  const EnvironReader::Answers markers = ReadMarkers(ours, &MarkerReader());
  for (const ProcessInfo& process : ours) {
    const auto& text = markers.at(process.pid);
    if (IsUnknown(text) && above.count(process.session) == 0 && !IsLeaderKnown(process, markers)) {
      *unknown = AsStd(text.status().message());
    }
    const auto marker = text.ok() ? ParseMarker(*text) : std::nullopt;
    if (!marker || !MayInherit(own, *marker) || !looked_at.insert(marker->host_id).second) continue;
    if (!IsAlive(static_cast<pid_t>(marker->pid), marker->start)) dead.insert(marker->host_id);
  }
  return dead;
}

MarkedReport EndMarked(const DeadHosts& hosts, const std::vector<ProcessInfo>& earlier, EnvironReader* reader) {
  const OrphanEvidence evidence = EvidenceOf(hosts, earlier);
  Snapshot snapshot = TakeSnapshot();
  MarkedReport report;
  if (!evidence.sessions.empty() || !evidence.found.empty()) {
    std::string stuck;
    Kill(FindOrphans(snapshot.seen, evidence).pids, snapshot, &stuck);
  }
  const std::string unread = ReadMarks(hosts, evidence, reader, &snapshot);
  const Orphans orphans = FindOrphans(snapshot.seen, evidence);
  report.found = Kill(orphans.pids, snapshot, &report.stuck);
  report.unknown = snapshot.unknown;
  for (const int64_t pid : orphans.unclear) {
    const ProcessInfo& info = snapshot.info[pid];
    report.unknown = unread.empty() ? Describe(info) + " may have been left by a dead host" : unread;
  }
  return report;
}

std::optional<bool> BearsMarkerOf(std::string_view host_id, const ProcessInfo& process, EnvironReader* reader) {
  if (process.exiting) return std::nullopt;
  const auto marker = reader->ReadAll({process}).at(process.pid);
  if (IsUnknown(marker) || (!marker.ok() && HasEndedSince(process))) return std::nullopt;
  return marker.ok() && HostIdOf(*marker) == host_id;
}

void EndDescendants(const std::set<pid_t>& ancestors) {
  const Snapshot snapshot = TakeSnapshot();
  std::set<int64_t> family(ancestors.begin(), ancestors.end()), descendants;
  size_t before = 0;
  do {  // terminates: each pass but the last adds a process
    before = family.size();
    for (const auto& [pid, process] : snapshot.seen) {
      if (family.count(process.parent) > 0 && family.insert(pid).second) descendants.insert(pid);
    }
  } while (family.size() > before);
  std::string stuck;
  Kill(descendants, snapshot, &stuck);
}

std::set<int64_t> Ancestors() {
  const std::vector<int64_t> line = LineOfAncestors();
  return {line.begin(), line.end()};
}

// After fork(), only async-signal-safe calls are made: the process has other threads.
pid_t FindAdopter() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return 0;
  int subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t parent = getpid();
    if (fork() == 0) {
      while (getppid() == parent) nanosleep(&kAdoptionPoll, nullptr);
      const pid_t adopter = getppid();
      (void)!write(fds[1], &adopter, sizeof(adopter));
    }
    _exit(0);
  }
  close(fds[1]);
  pid_t adopter = 0;
  if (child < 0 || read(fds[0], &adopter, sizeof(adopter)) != static_cast<ssize_t>(sizeof(adopter))) adopter = 0;
  close(fds[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  prctl(PR_SET_CHILD_SUBREAPER, subreaper);
  return adopter;
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
  DeadHosts dead;
  dead.ids = DeadHostsOfOurRun(own, &report.unseen);
  while (!report.unseen.empty() && EventLoop::Now() < clear_by) {
    absl::SleepFor(kOrphanRetry);
    report.unseen.clear();
    dead.ids.merge(DeadHostsOfOurRun(own, &report.unseen));
  }
  if (dead.ids.empty()) return report;
  // Ancestors below the process that adopts our own orphans adopt none. The dead host's adopter may be farther up.
  const pid_t adopter = FindAdopter();
  const std::vector<int64_t> line = LineOfAncestors();
  const auto nearest = std::find(line.begin(), line.end(), adopter);
  dead.never_adopt.insert(line.begin(), nearest);
  dead.never_adopt.insert(getpid());
  if (nearest != line.end()) dead.may_adopt.insert(nearest + 1, line.end());
  const BootTime limit = EventLoop::Now() + kOrphanLimit;
  MarkedReport pass;
  while (true) {
    pass = EndMarked(dead, pass.found);
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

}  // namespace muster
