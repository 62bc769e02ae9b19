// How many steps each worker of a round has made, as far as it shows them: by the numbers in its lines, or by
// touches of its heartbeat file. For the coordinator, which compares them (rendezvous/core/stragglers.h). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace muster::host {

// The number of the newest step in these lines: "step 120", "Iteration: 120/1000", "global_step=120", or tqdm's
// " 12%|#2   | 120/1000 [00:10<01:20"; nullopt: they have none.
std::optional<int64_t> StepIn(std::string_view lines);

// What one look has shown, by local rank.
struct StepsSeen {
  std::map<int, int64_t> numbers = {};  // of the newest steps in their lines
  std::set<int> touched = {};           // whose heartbeat file was touched
  bool empty() const { return numbers.empty() && touched.empty(); }
};

class StepCounts {
 public:
  void BeginRound(int workers) { workers_.assign(static_cast<size_t>(workers), {}); }
  void EndRound() { workers_.clear(); }
  void OnSeen(const StepsSeen& seen);

  // By local rank, of the first kMaxRanksSent; 0: it has shown none. Touches count if there are any, else numbers.
  // Those of one look count as one touch. A number below the one before it belongs to another epoch, which begins
  // there.
  std::vector<int64_t> Counts() const;

 private:
  struct Worker {
    int64_t touches = 0;
    int64_t steps = 0;                   // by numbers
    std::optional<int64_t> number = {};  // the newest
  };
  std::vector<Worker> workers_;  // empty: no round
};

}  // namespace muster::host
