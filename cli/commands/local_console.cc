#include "cli/commands/local_console.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/io/thread.h"

namespace muster::cli {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr absl::Duration kDrawEvery = absl::Milliseconds(40);  // interval between redraws of a terminal's rows

}  // namespace

LocalConsole::LocalConsole() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

LocalConsole::~LocalConsole() {
  if (thread_.joinable()) thread_.join();
  close(event_fd_);
}

void LocalConsole::GroupLines(int ranks, bool everywhere) {
  grouped_ranks_ = ranks;
  groups_everywhere_ = everywhere;
}

void LocalConsole::Add(int pipe, int out_fd, int node) {
  const bool colour = isatty(out_fd) == 1 && std::getenv("NO_COLOR") == nullptr;
  streams_.push_back({pipe, ScreenOf(out_fd), NodeOutput(node, colour), {}});
}

absl::Status LocalConsole::Start() {
  absl::StatusOr<std::thread> thread = StartThread([this] { Copy(); });
  RETURN_IF_ERROR(thread.status());
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

std::string LocalConsole::Lost() const {
  if (lost_bytes_ == 0) return "";
  return absl::StrCat(lost_bytes_.load(), " bytes of output were lost: ", std::strerror(lost_error_));
}

void LocalConsole::Copy() {
  std::vector<pollfd> polled(streams_.size());
  size_t open = streams_.size();
  while (open > 0) {
    for (size_t i = 0; i < streams_.size(); ++i) polled[i] = {streams_[i].pipe, POLLIN, 0};
    if (poll(polled.data(), polled.size(), ShowWhatIsDue()) < 0) continue;  // EINTR, after a stop and continue
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (polled[i].revents != 0 && !CopySome(&streams_[i])) --open;
    }
  }
  ShowGroups(absl::InfiniteFuture());
  for (Screen& screen : screens_) screen.next_draw = absl::InfinitePast();
  (void)ShowWhatIsDue();
  finished_ = true;
  Wake();
}

size_t LocalConsole::ScreenOf(int fd) {
  struct stat own {
  }, other{};
  const bool known = isatty(fd) == 1 && fstat(fd, &own) == 0;
  for (size_t i = 0; i < screens_.size(); ++i) {
    if (screens_[i].fd == fd) return i;
    if (known && screens_[i].terminal && fstat(screens_[i].fd, &other) == 0 && own.st_rdev == other.st_rdev)
      return i;
  }
  Screen& added = screens_.emplace_back();
  added.fd = fd;
  added.terminal = isatty(fd) == 1;
  if (grouped_ranks_ > 1 && (added.terminal || groups_everywhere_)) added.groups.emplace(grouped_ranks_);
  return screens_.size() - 1;
}

int LocalConsole::ShowWhatIsDue() {
  const BootTime now = EventLoop::Now();
  ShowGroups(now);
  BootTime next = absl::InfiniteFuture();
  for (Screen& screen : screens_) {
    if (screen.groups) next = std::min(next, screen.groups->due());
    next = std::min(next, DrawRows(&screen));
  }
  if (next == absl::InfiniteFuture()) return -1;
  return static_cast<int>(absl::ToInt64Milliseconds(std::max(next - now, absl::ZeroDuration()))) + 1;
}

// Shows the lines that have waited for other ranks until now.
void LocalConsole::ShowGroups(BootTime now) {
  for (Screen& screen : screens_) {
    if (!screen.groups) continue;
    std::vector<ShownLine> shown;
    screen.groups->OnTime(now, &shown);
    Show(&screen, shown);
  }
}

// Draws the rows if they have changed. Returns when to do so; InfiniteFuture: nothing has changed since.
BootTime LocalConsole::DrawRows(Screen* screen) {
  if (!screen->rows.stale()) return absl::InfiniteFuture();
  const BootTime now = EventLoop::Now();
  if (now < screen->next_draw) return screen->next_draw;
  winsize size{};
  if (ioctl(screen->fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) size = {24, 80, 0, 0};
  std::string text;
  screen->rows.Draw(size.ws_col, size.ws_row, &text);
  WriteAll(screen->fd, text);
  screen->next_draw = now + kDrawEvery;
  return absl::InfiniteFuture();
}

void LocalConsole::Show(Screen* screen, const std::vector<ShownLine>& shown) {
  std::string text;
  for (const ShownLine& line : shown) {
    if (screen->terminal) {
      screen->rows.Take(line.source, line.text, &text);
    } else {
      text += line.text;
    }
  }
  WriteAll(screen->fd, text);
}

bool LocalConsole::CopySome(Stream* stream) {
  std::array<char, kReadBytes> buffer;
  const ssize_t size = read(stream->pipe, buffer.data(), buffer.size());
  if (size < 0 && errno == EINTR) return true;
  Screen& screen = screens_[stream->screen];
  const BootTime now = EventLoop::Now();
  std::vector<ShownLine> shown;
  const NodeOutput::Take take = [&](std::string_view rank, size_t prefix_bytes, std::string_view piece) {
    auto row = stream->rows.find(rank);
    if (row == stream->rows.end()) row = stream->rows.emplace(rank, next_row_++).first;
    LineOrigin origin = {row->second, kNoRank, prefix_bytes};
    if (!absl::SimpleAtoi(AsAbsl(rank), &origin.rank)) {  // the node's own line
      origin.rank = kNoRank;
      Show(&screen, std::exchange(shown, {}));
      ShowGroups(absl::InfiniteFuture());
    }
    if (screen.groups) {
      screen.groups->Take(now, origin, piece, &shown);
    } else {
      shown.push_back({origin.source, std::string(piece)});
    }
  };
  if (size > 0) {
    stream->output.Feed({buffer.data(), static_cast<size_t>(size)}, take);
  } else {
    stream->output.End(take);
    close(stream->pipe);
    stream->pipe = -1;
  }
  Show(&screen, shown);
  return size > 0;
}

void LocalConsole::WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size >= 0) {
      text.remove_prefix(static_cast<size_t>(size));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno == EPIPE) {
      broken_ = true;
      Wake();
      return;
    } else if (errno != EINTR) {  // such as a full disk: the job continues without this output
      lost_error_ = errno;
      lost_bytes_ += text.size();
      return;
    }
  }
}

void LocalConsole::Wake() {
  const uint64_t one = 1;
  if (write(event_fd_, &one, sizeof(one)) < 0) return;  // the counter is full, so it is readable already
}

}  // namespace muster::cli
