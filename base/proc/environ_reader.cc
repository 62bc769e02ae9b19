#include "base/proc/environ_reader.h"

#include <unistd.h>

#include <cstdlib>
#include <deque>

#include "base/io/thread.h"
#include "base/proc/marker.h"

namespace muster {
namespace {

absl::Status NotReadable(const ProcessInfo& process) {
  return absl::UnavailableError("the environment of " + Describe(process) + " cannot be read now");
}

}  // namespace

// Shared with the thread, which may outlive its EnvironReader.
struct EnvironReader::Batch {
  Mutex mutex;
  Condition condition;
  std::deque<absl::StatusOr<std::string>> answers ABSL_GUARDED_BY(mutex);  // for the first processes of the batch
  bool given_up ABSL_GUARDED_BY(mutex) = false;
};

EnvironReader::~EnvironReader() = default;

EnvironReader::Answers EnvironReader::ReadAll(const std::vector<ProcessInfo>& processes) {
  Answers answers;
  std::vector<ProcessInfo> todo;
  for (const ProcessInfo& process : processes) {
    if (IsHeld({process.pid, process.start}, &answers)) continue;
    if (process.state == 'D') {
      answers.insert_or_assign(process.pid, NotReadable(process));
    } else {
      todo.push_back(process);
    }
  }
  while (!todo.empty()) {
    const size_t count = ReadSome(todo, &answers);
    todo.erase(todo.begin(), todo.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return answers;
}

// True: `answers` gets an entry, since an earlier thread reads this process: its late result if there is one by
// now, else Unavailable.
bool EnvironReader::IsHeld(const Key& key, Answers* answers) {
  const MutexLock lock(mutex_);
  const auto held = held_.find(key);
  if (held == held_.end()) return false;
  const std::shared_ptr<Batch> batch = held->second;
  const MutexLock batch_lock(batch->mutex);
  if (batch->answers.empty()) {
    ProcessInfo process;
    process.pid = key.first;
    answers->insert_or_assign(key.first, NotReadable(ReadProcess(key.first).value_or(process)));
    return true;
  }
  answers->insert_or_assign(key.first, batch->answers.back());
  held_.erase(held);
  return true;
}

// Drops late results to make room. They are kept until then because the result of a process that is always slow is
// only ever known this way.
void EnvironReader::DropAnswered() {
  std::erase_if(held_, [](const auto& entry) {
    const MutexLock lock(entry.second->mutex);
    return !entry.second->answers.empty();
  });
}

size_t EnvironReader::ReadSome(const std::vector<ProcessInfo>& todo, Answers* answers) {
  const auto batch = std::make_shared<Batch>();
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : todo) pids.push_back(process.pid);
  const auto run = [batch, pids, read = read_] {
    for (const pid_t pid : pids) {
      absl::StatusOr<std::string> answer = read(pid);
      const MutexLock lock(batch->mutex);
      if (batch->given_up) {  // while this process was being read
        batch->answers = {std::move(answer)};
        return;
      }
      batch->answers.push_back(std::move(answer));
      batch->condition.NotifyAll();
    }
  };
  {
    const MutexLock lock(mutex_);
    if (held_.size() >= kMaxHeldReads) DropAnswered();
    if (held_.size() >= kMaxHeldReads) {
      for (const ProcessInfo& process : todo) answers->insert_or_assign(process.pid, NotReadable(process));
      return todo.size();
    }
  }
  auto thread = StartThread(run);
  // Without a thread, read here: a process that blocks the read is rarer than a machine without threads to spare.
  if (thread.ok()) {
    thread->detach();
  } else {
    run();
  }
  const size_t count = Await(batch.get(), pids, answers);
  if (count == pids.size()) return count;
  answers->insert_or_assign(pids[count], NotReadable(todo[count]));
  const MutexLock lock(mutex_);
  held_[{todo[count].pid, todo[count].start}] = batch;
  return count + 1;
}

// Takes the answers as they arrive and returns their number. Gives the batch up when none arrives within the
// limit.
size_t EnvironReader::Await(Batch* batch, const std::vector<pid_t>& pids, Answers* answers) const {
  const MutexLock lock(batch->mutex);
  bool advances = true;
  while (advances && batch->answers.size() < pids.size()) {
    const size_t before = batch->answers.size();
    advances = batch->condition.WaitFor(
        batch->mutex, absl::ToChronoNanoseconds(limit_),
        [batch, before]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(batch->mutex) { return batch->answers.size() > before; });
  }
  const size_t count = batch->answers.size();
  for (size_t i = 0; i < count; ++i) answers->insert_or_assign(pids[i], std::move(batch->answers[i]));
  batch->given_up = count < pids.size();
  batch->answers.clear();
  return count;
}

EnvironReader& MarkerReader() {
  static EnvironReader* const reader = new EnvironReader([](pid_t pid) -> absl::StatusOr<std::string> {
    if (pid != getpid()) return StartEnvironment(pid, kMarkerVariable);
    const char* const own = std::getenv(kMarkerVariable);  // /proc may not show it: see KeepMemoryPrivate
    if (own == nullptr) return absl::NotFoundError(kMarkerVariable);
    return std::string(own);
  });
  return *reader;
}

}  // namespace muster
