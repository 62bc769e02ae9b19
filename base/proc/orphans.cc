#include "base/proc/orphans.h"

#include <cstddef>

namespace muster {
namespace {

using Processes = std::map<int64_t, SeenProcess>;

const SeenProcess* Find(const Processes& all, int64_t pid) {
  const auto it = all.find(pid);
  return it == all.end() ? nullptr : &it->second;
}

uint64_t HostStart(const SeenProcess& process, const OrphanEvidence& evidence) {
  return evidence.host_start != 0 ? evidence.host_start : process.host_start;
}

enum class Answer { kNo, kPerhaps, kYes };

// The nearest ancestor that is not ending: the parent now or in a moment. The number of steps is limited, since
// parents that were read at different moments could form a cycle.
int64_t LastingParent(const SeenProcess& process, const Processes& all) {
  int64_t parent = process.parent;
  for (std::size_t steps = 0; steps < all.size(); ++steps) {
    const SeenProcess* const found = Find(all, parent);
    if (found == nullptr || !found->exiting) break;
    parent = found->parent;
  }
  return parent;
}

// Whether `process` was adopted by its parent after the dead host ended.
Answer WasAdopted(const SeenProcess& process, const Processes& all, const OrphanEvidence& evidence) {
  const int64_t parent = LastingParent(process, all);
  if (evidence.adopter != 0 && parent == evidence.adopter) return Answer::kYes;
  const SeenProcess* const adopter = Find(all, parent);
  if (adopter == nullptr && parent > 1)
    return Answer::kPerhaps;  // the parent has ended since, so `process` has another one now
  if (evidence.adopter != 0) return Answer::kNo;
  if (parent <= 1) return Answer::kYes;  // 0: the parent is outside of this PID namespace
  if (evidence.never_adopt.count(parent) > 0) return Answer::kNo;
  // An adopter is an ancestor of the dead host, so it is older than the host.
  const uint64_t host_start = HostStart(process, evidence);
  if (host_start != 0 && adopter->id.start > host_start) return Answer::kNo;
  return evidence.may_adopt.count(parent) > 0 ? Answer::kPerhaps : Answer::kYes;
}

// A worker leads a new session, so none of its descendants is in a session older than its host.
bool IsYoungerThanItsHost(const SeenProcess& process, const Processes& all, const OrphanEvidence& evidence) {
  const uint64_t host_start = HostStart(process, evidence);
  const SeenProcess* const leader = Find(all, process.session);
  const bool in_young_session = leader == nullptr || leader->id.start == 0 || leader->id.start >= host_start;
  return process.id.start >= host_start && in_young_session;
}

// The kernel does not reuse a session's number while a member lives, so a session whose leader is gone still
// counts.
bool IsInWorkerSession(const SeenProcess& process, const Processes& all, const OrphanEvidence& evidence) {
  if (evidence.spared_sessions.count(process.session) > 0) return false;
  for (const ProcessId& worker : evidence.sessions) {
    if (process.session != worker.pid || worker.start == 0 || process.id.start < worker.start) continue;
    const SeenProcess* const leader = Find(all, worker.pid);
    return leader == nullptr || leader->id.start == worker.start;
  }
  return false;
}

class Search {
 public:
  Search(const Processes& all, const OrphanEvidence& evidence) : all_(all), evidence_(evidence) {}

  Orphans Run() {
    for (const auto& [pid, process] : all_) LookAt(process);
    std::size_t before = 0;
    do {  // terminates: each pass but the last adds a process
      before = orphans_.pids.size();
      AddMembers(&SeenProcess::session);
      AddMembers(&SeenProcess::group);
      AddChildren();
    } while (orphans_.pids.size() > before);
    for (const int64_t pid : orphans_.pids) orphans_.unclear.erase(pid);
    return orphans_;
  }

 private:
  void Add(const SeenProcess& process) {
    if (evidence_.spared.count(process.id.pid) == 0) orphans_.pids.insert(process.id.pid);
  }

  void LookAt(const SeenProcess& process) {
    if (evidence_.found.count(process.id) > 0 || IsInWorkerSession(process, all_, evidence_)) return Add(process);
    if (process.mark == SeenProcess::Mark::kNone || !IsYoungerThanItsHost(process, all_, evidence_)) return;
    const Answer adopted = WasAdopted(process, all_, evidence_);
    if (adopted == Answer::kNo) return;
    if (adopted == Answer::kYes && process.mark == SeenProcess::Mark::kBears) return Add(process);
    if (evidence_.spared.count(process.id.pid) == 0) orphans_.unclear.insert(process.id.pid);
  }

  // Adds the members of an orphan's session or group. One whose leader is alive and no orphan belongs to others.
  void AddMembers(int64_t SeenProcess::*kind) {
    std::set<int64_t> numbers;
    for (const int64_t pid : orphans_.pids) {
      const int64_t number = all_.at(pid).*kind;
      const bool led_by_orphan = orphans_.pids.count(number) > 0 || Find(all_, number) == nullptr;
      if (number > 1 && led_by_orphan && evidence_.spared_sessions.count(number) == 0) numbers.insert(number);
    }
    for (const auto& [pid, process] : all_) {
      if (numbers.count(process.*kind) > 0) Add(process);
    }
  }

  void AddChildren() {
    for (const auto& [pid, process] : all_) {
      if (orphans_.pids.count(process.parent) > 0) Add(process);
    }
  }

  const Processes& all_;
  const OrphanEvidence& evidence_;
  Orphans orphans_;
};

}  // namespace

bool MayBeTopmost(const SeenProcess& process, const Processes& all, const OrphanEvidence& evidence) {
  return evidence.spared.count(process.id.pid) == 0 && IsYoungerThanItsHost(process, all, evidence) &&
         WasAdopted(process, all, evidence) != Answer::kNo;
}

Orphans FindOrphans(const Processes& all, const OrphanEvidence& evidence) { return Search(all, evidence).Run(); }

}  // namespace muster
