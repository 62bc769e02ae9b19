// What the nodes of `muster local` say, shown as it comes: whole lines behind the node's name, and on a terminal a
// row at its bottom for each bar that redraws itself.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/console/live_rows.h"
#include "base/time.h"
#include "cli/plan/local_output.h"

namespace muster::cli {

// Copies pipes until their ends, on a thread of its own. Add everything, then Start; the rest is thread-safe.
class LocalConsole {
 public:
  LocalConsole();
  ~LocalConsole();
  LocalConsole(const LocalConsole&) = delete;
  LocalConsole& operator=(const LocalConsole&) = delete;

  void Add(int pipe, int out_fd, int node);  // the pipe is closed at its end
  absl::Status Start();

  // Readable when finished() or broken() has become true.
  int event_fd() const { return event_fd_; }
  bool finished() const { return finished_; }
  bool broken() const { return broken_; }  // whoever read our output has gone
  void Abandon() { thread_.detach(); }     // only right before the process ends
  // "45 bytes of output were lost: No space left on device"; empty: none were.
  std::string Lost() const;

 private:
  // One of a node's two streams.
  struct Stream {
    int pipe = -1;
    size_t screen = 0;
    NodeOutput output;
    std::map<std::string, int, std::less<>> rows;  // number of each rank's row
  };
  // Where streams are written: a descriptor, or the one terminal that both lead to.
  struct Screen {
    int fd = -1;
    bool terminal = false;
    LiveRows rows;  // of a terminal: a row for each bar that redraws itself
    BootTime next_draw = absl::InfinitePast();
  };

  void Copy();
  size_t ScreenOf(int fd);
  int DrawRows();  // milliseconds until there is more to draw; -1: there is none
  bool CopySome(Stream* stream);
  void WriteAll(int fd, std::string_view text);
  void Wake();

  const int event_fd_;
  std::vector<Stream> streams_;
  std::vector<Screen> screens_;
  int next_row_ = 0;
  std::atomic<bool> finished_ = false;
  std::atomic<bool> broken_ = false;
  std::atomic<size_t> lost_bytes_ = 0;
  std::atomic<int> lost_error_ = 0;
  std::thread thread_;
};

}  // namespace muster::cli
