#include "cli/commands/local_console.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

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
    if (poll(polled.data(), polled.size(), DrawRows()) < 0) continue;  // EINTR, after a stop and continue
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (polled[i].revents != 0 && !CopySome(&streams_[i])) --open;
    }
  }
  for (Screen& screen : screens_) screen.next_draw = absl::InfinitePast();
  (void)DrawRows();
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
  screens_.push_back({fd, isatty(fd) == 1, {}, absl::InfinitePast()});
  return screens_.size() - 1;
}

// Draws the rows that have changed.
int LocalConsole::DrawRows() {
  int wait_ms = -1;
  for (Screen& screen : screens_) {
    if (!screen.rows.stale()) continue;
    const BootTime now = EventLoop::Now();
    if (now < screen.next_draw) {
      wait_ms = static_cast<int>(absl::ToInt64Milliseconds(screen.next_draw - now)) + 1;
      continue;
    }
    winsize size{};
    if (ioctl(screen.fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) size = {24, 80, 0, 0};
    std::string text;
    screen.rows.Draw(size.ws_col, size.ws_row, &text);
    WriteAll(screen.fd, text);
    screen.next_draw = now + kDrawEvery;
  }
  return wait_ms;
}

bool LocalConsole::CopySome(Stream* stream) {
  std::array<char, kReadBytes> buffer;
  const ssize_t size = read(stream->pipe, buffer.data(), buffer.size());
  if (size < 0 && errno == EINTR) return true;
  Screen& screen = screens_[stream->screen];
  std::string lines;
  const NodeOutput::Take take = [&](std::string_view rank, std::string_view piece) {
    if (!screen.terminal) {
      lines += piece;
      return;
    }
    auto row = stream->rows.find(rank);
    if (row == stream->rows.end()) row = stream->rows.emplace(rank, next_row_++).first;
    screen.rows.Take(row->second, piece, &lines);
  };
  if (size > 0) {
    stream->output.Feed({buffer.data(), static_cast<size_t>(size)}, take);
  } else {
    stream->output.End(take);
    close(stream->pipe);
    stream->pipe = -1;
  }
  WriteAll(screen.fd, lines);
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
