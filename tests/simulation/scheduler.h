// Virtual time: a queue of actions ordered by (time, sequence number). Time jumps from one to the next.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "tests/simulation/prng.h"

namespace muster::simulation {

class Scheduler {
 public:
  using Action = std::function<void()>;

  Micros now() const { return now_; }
  bool empty() const { return queue_.empty(); }
  uint64_t events() const { return events_; }
  // Hash of every event so far: two runs of one seed must agree.
  uint64_t hash() const { return hash_; }
  void Mix(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001B3u; }

  void At(Micros at, Action action) {
    queue_.push_back({std::max(at, now_), ++sequence_, std::move(action)});
    std::push_heap(queue_.begin(), queue_.end(), Later);
  }
  void After(Micros delay, Action action) { At(now_ + delay, std::move(action)); }

  void RunNext() {
    std::pop_heap(queue_.begin(), queue_.end(), Later);
    Entry entry = std::move(queue_.back());
    queue_.pop_back();
    now_ = entry.at;
    ++events_;
    Mix(static_cast<uint64_t>(entry.at));
    Mix(entry.sequence);
    entry.action();
  }

 private:
  struct Entry {
    Micros at;
    uint64_t sequence;
    Action action;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  std::vector<Entry> queue_;
  Micros now_ = 0;
  uint64_t sequence_ = 0;
  uint64_t events_ = 0;
  uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace muster::simulation
