#include "tests/simulation/execution.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::simulation {
namespace {

constexpr Micros kTickPeriod = 100 * kMillisecond;

}  // namespace

void Execution::Deliver(Process* process, Scheduler::Action action) {
  if (!process->alive) return;
  if (!process->runs() || !process->inbox.empty()) {
    process->inbox.push_back(std::move(action));
    return;
  }
  action();
}

void Execution::DeliverAfter(Micros delay, Process* process, Scheduler::Action action) {
  env_->scheduler().After(
      delay, [this, process, action = std::move(action)]() mutable { Deliver(process, std::move(action)); });
}

void Execution::Drain(Process* process) {
  while (process->runs() && !process->inbox.empty()) {
    Scheduler::Action action = std::move(process->inbox.front());
    process->inbox.pop_front();
    action();
  }
}

void Execution::Start(Process* process, Micros first_tick) {
  process->started = true;
  process->runs_since = env_->now();
  ScheduleTick(process, first_tick);
  Drain(process);
}

void Execution::Freeze(Process* process, Micros for_how_long) {
  if (!process->alive) return;
  if (++process->frozen == 1) process->frozen_since = env_->now();
  checks_->conduct.OnFreeze(*process);
  env_->Note("freeze", absl::StrCat(process->name, " for ", for_how_long / kMillisecond, " ms"));
  if (process->on_freeze) process->on_freeze();
  env_->scheduler().After(for_how_long, [this, process] { Continue(process); });
}

void Execution::EndFreezes(Process* process) {
  if (process->frozen == 0) return;
  process->frozen = 1;
  Continue(process);
}

void Execution::Continue(Process* process) {
  if (process->frozen == 0 || --process->frozen > 0 || !process->alive) return;
  process->runs_since = env_->now();
  env_->Note("continue", process->name);
  // An expired timer and waiting messages are both ready: the loop may take either first.
  const bool tick_first = env_->prng().Chance(50);
  if (tick_first && process->tick_missed) Tick(process);
  Drain(process);
  if (process->tick_missed) Tick(process);
}

void Execution::ScheduleTick(Process* process, Micros delay) {
  env_->scheduler().After(delay, [this, process] {
    if (!process->alive) return;
    process->tick_missed = true;
    if (process->runs()) Tick(process);
  });
}

void Execution::Tick(Process* process) {
  process->tick_missed = false;
  if (!process->alive) return;
  ScheduleTick(process, kTickPeriod);
  process->on_tick();
}

}  // namespace muster::simulation
