#include "agent/host/core/worker_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/text.h"

namespace muster::host {

void WorkerTable::Reset(int slots) {
  workers_.clear();
  for (int i = 0; i < slots; ++i) workers_[i] = Worker{};
}

void WorkerTable::OnSpawned(const std::vector<v1::Worker>& workers) {
  for (const v1::Worker& worker : workers) {
    const auto it = workers_.find(worker.local_rank());
    if (it == workers_.end()) continue;
    it->second.pid = worker.pid();
    it->second.start_ticks = worker.start_ticks();
  }
}

bool WorkerTable::OnExecuting(int local_rank) {
  const auto it = workers_.find(local_rank);
  if (it == workers_.end() || it->second.state != State::kSpawned) return false;
  it->second.state = State::kExecuting;
  return true;
}

std::optional<int64_t> WorkerTable::OnExit(BootTime now, int local_rank, bool rest_lives) {
  const auto it = workers_.find(local_rank);
  if (it == workers_.end()) return std::nullopt;
  Worker& worker = it->second;
  if (worker.state == State::kFinishing || worker.state == State::kEnded) return std::nullopt;
  worker.state = rest_lives && !worker.rest_ended ? State::kFinishing : State::kEnded;
  worker.ended_at = now;
  return worker.pid;
}

void WorkerTable::OnRestEnded(int local_rank) {
  if (const auto it = workers_.find(local_rank); it != workers_.end()) EndRest(&it->second);
}

void WorkerTable::OnSwept() {
  for (auto& [rank, worker] : workers_) EndRest(&worker);
}

void WorkerTable::EndRest(Worker* worker) {
  worker->rest_ended = true;
  if (worker->state == State::kFinishing) worker->state = State::kEnded;
}

int WorkerTable::live() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const auto& entry) { return entry.second.state != State::kEnded; }));
}

std::string WorkerTable::NamesOfLive(int first_rank) const {
  std::vector<std::string> names;
  for (const auto& [local_rank, worker] : workers_) {
    if (worker.state == State::kEnded) continue;
    names.push_back(absl::StrCat("rank ", first_rank + local_rank));
    if (worker.pid != 0) absl::StrAppend(&names.back(), " (pid ", worker.pid, ")");
  }
  return JoinAtMost(names, kMaxWorkersNamed);
}

std::optional<WorkerTable::NotStarted> WorkerTable::FindNotStarted() const {
  for (const auto& [rank, worker] : workers_) {
    if (worker.state == State::kSpawned) return NotStarted{rank, worker.pid};
  }
  return std::nullopt;
}

std::vector<int> WorkerTable::TakeFinishing(BootTime now) {
  std::vector<int> ranks;
  for (auto& [rank, worker] : workers_) {
    if (worker.state != State::kFinishing || now - worker.ended_at < kSayFinishing) continue;
    if (!std::exchange(worker.said_that_it_finishes, true)) ranks.push_back(rank);
  }
  return ranks;
}

void WorkerTable::Describe(v1::HostStatus* status) const {
  for (const auto& [rank, worker] : workers_) {
    if (worker.state == State::kEnded) continue;
    v1::Worker* entry = status->add_workers();
    entry->set_local_rank(rank);
    entry->set_pid(worker.pid);
    entry->set_start_ticks(worker.start_ticks);
  }
}

}  // namespace muster::host
