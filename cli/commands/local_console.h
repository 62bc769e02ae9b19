// Shows the output of the nodes of `muster local`: whole lines with the node as prefix, and at the bottom of a
// terminal a row for each progress bar.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/console/line_groups.h"
#include "base/console/live_rows.h"
#include "base/core/time.h"
#include "cli/plan/local_output.h"

namespace muster::cli {

// Copies pipes until end of file, on a thread of its own. Call Add for each pipe, then Start; the other functions
// are thread-safe.
class LocalConsole {
 public:
  LocalConsole();
  ~LocalConsole();
  LocalConsole(const LocalConsole&) = delete;
  LocalConsole& operator=(const LocalConsole&) = delete;

  // Before Add: what several ranks write at once is shown once (base/console/line_groups.h), on a terminal or
  // everywhere. ranks: of the whole job.
  void GroupLines(int ranks, bool everywhere);
  void Add(int pipe, int out_fd, int node);  // takes the pipe, and closes it at end of file
  absl::Status Start();

  // Readable when finished() or broken() has become true.
  int event_fd() const { return event_fd_; }
  bool finished() const { return finished_; }
  bool broken() const { return broken_; }  // our output was closed by its reader
  void Abandon() { thread_.detach(); }     // only immediately before the process ends
  // "45 bytes of output were lost: No space left on device"; empty: nothing was lost.
  std::string Lost() const;

 private:
  // One of a node's two streams.
  struct Stream {
    int pipe = -1;
    size_t screen = 0;
    NodeOutput output;
    std::map<std::string, int, std::less<>> rows;  // row number by rank
  };
  // A destination of streams: a descriptor, or the terminal to which both lead.
  struct Screen {
    int fd = -1;
    bool terminal = false;
    LiveRows rows;  // for a terminal: one row for each progress bar
    BootTime next_draw = absl::InfinitePast();
    std::optional<LineGroups> groups;  // nullopt: each line is shown as it comes
  };

  void Copy();
  size_t ScreenOf(int fd);
  // What has waited for long enough; then rows that have changed. Milliseconds until the next call; -1: nothing
  // waits.
  int ShowWhatIsDue();
  void ShowGroups(BootTime now);
  BootTime DrawRows(Screen* screen);
  void Show(Screen* screen, const std::vector<ShownLine>& shown);
  bool CopySome(Stream* stream);
  void WriteAll(int fd, std::string_view text);
  void Wake();

  const int event_fd_;
  std::vector<Stream> streams_;
  std::vector<Screen> screens_;
  int next_row_ = 0;
  int grouped_ranks_ = 0;  // 0: lines are not grouped
  bool groups_everywhere_ = false;
  std::atomic<bool> finished_ = false;
  std::atomic<bool> broken_ = false;
  std::atomic<size_t> lost_bytes_ = 0;
  std::atomic<int> lost_error_ = 0;
  std::thread thread_;
};

}  // namespace muster::cli
