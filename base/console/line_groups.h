// A line that several ranks write at nearly the same time is shown once, as "[0-63] text". Pure.
//
// Two lines are the same if they are equal but for pids, addresses of memory, times of day and the own rank as
// torch writes it ("[rank3]"). A line waits for kGroupFor at most, until all ranks have written it; the lines of
// one rank keep their order. These are shown at once, behind all that their rank has written before, and for one
// rank alone: muster's own lines, which also show all that waits; what a rank writes from a traceback on;
// unfinished lines and their rests; the line that ends a progress bar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/core/time.h"

namespace muster {

inline constexpr absl::Duration kGroupFor = absl::Seconds(1);
inline constexpr absl::Duration kTracebackFor = absl::Seconds(1);  // what follows its first line within this time
inline constexpr size_t kMaxWaitingBytes = 1024 * 1024;            // beyond it the oldest lines do not wait
inline constexpr size_t kBytesOfAGroup = 512;                      // about what each needs beside its text
inline constexpr int kWaitingSource = -3;                          // of a line that has waited: it has no row
inline constexpr int kNoRank = -1;

// Who wrote a line.
struct LineOrigin {
  int source = 0;           // of the stream, for the rows of a terminal
  int rank = kNoRank;       // global rank; kNoRank: no worker wrote it
  size_t prefix_bytes = 0;  // at the line's front; not compared
};

struct ShownLine {
  int source;        // kWaitingSource: it has waited
  std::string text;  // with its ending
};

class LineGroups {
 public:
  // ranks: those that write here. A line that all of them have written waits no longer.
  explicit LineGroups(int ranks) : all_ranks_(static_cast<size_t>(ranks)) {}

  // The next three methods append to `shown` what can be shown by now, in its order. pieces: as a LineAssembler
  // makes them, each ending with "\n" or, as a state of a progress bar, with "\r".
  void Take(BootTime now, const LineOrigin& origin, std::string_view pieces, std::vector<ShownLine>* shown);
  void OnTime(BootTime now, std::vector<ShownLine>* shown);   // InfiniteFuture: all that waits
  void ShowThoseOf(int rank, std::vector<ShownLine>* shown);  // its output has ended

  BootTime due() const;  // when to call OnTime; InfiniteFuture: nothing waits

 private:
  struct Group {
    std::string key;
    std::string line;  // of the first rank
    size_t prefix_bytes;
    std::vector<int> ranks;
    BootTime until;
  };
  struct Rank {
    uint64_t next = 0;  // number of the first group that its next line may join
    BootTime at_once_until = absl::InfinitePast();
  };

  void TakeLine(BootTime now, const LineOrigin& origin, std::string_view line, std::vector<ShownLine>* shown);
  bool IsShownAtOnce(BootTime now, const LineOrigin& origin, std::string_view text, Rank* rank);
  // text: the line without its prefix.
  void Join(BootTime now, int writer, std::string_view line, std::string_view text, Rank* rank);
  void ShowFirst(std::vector<ShownLine>* shown);
  void ShowBefore(uint64_t number, std::vector<ShownLine>* shown);

  size_t all_ranks_;
  std::deque<Group> waiting_;  // in the order of their numbers
  uint64_t first_ = 0;         // number of the first one
  size_t bytes_ = 0;
  std::unordered_map<std::string, std::deque<uint64_t>> by_key_;
  std::unordered_map<int, Rank> ranks_;
  std::unordered_set<int> redrawn_;  // sources whose last piece was a state
};

}  // namespace muster
