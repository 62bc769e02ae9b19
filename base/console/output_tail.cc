#include "base/console/output_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "absl/time/clock.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster {

std::string LastLines(std::string_view bytes) {
  std::deque<std::string> lines;
  size_t total = 0;
  while (!bytes.empty() && static_cast<int>(lines.size()) < kTailLines && total < kTailBytes) {
    if (bytes.back() == '\n') bytes.remove_suffix(1);
    const size_t newline = bytes.rfind('\n');
    std::string_view line = newline == std::string_view::npos ? bytes : bytes.substr(newline + 1);
    bytes.remove_suffix(line.size());
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const size_t redrawn = line.rfind('\r');
    if (redrawn != std::string_view::npos) line.remove_prefix(redrawn + 1);
    const bool blank = line.find_first_not_of(" \t") == std::string_view::npos;
    if (lines.empty() && blank) continue;
    const std::string clean = ToUtf8(line, line.size());
    lines.push_front(CutUtf8Front(clean, kTailBytes - total));
    total += lines.front().size() + 1;
  }
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return CutUtf8Front(text, kTailBytes);
}

std::string LastLineWith(std::string_view mark, std::string_view bytes) {
  const size_t found = bytes.rfind(mark);
  if (found == std::string_view::npos) return "";
  const size_t before = bytes.rfind('\n', found);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return ToUtf8(std::string(bytes.substr(begin, bytes.find('\n', found) - begin)), kTailBytes);
}

std::string LastLinesOfFile(const std::string& path) { return LastLines(EndOfFile(path)); }

std::string EndOfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return "";
  struct stat info = {};
  std::string bytes;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    bytes.resize(std::min<size_t>(kTailKept, static_cast<size_t>(info.st_size)));
    const ssize_t got = pread(fd, bytes.data(), bytes.size(), info.st_size - static_cast<off_t>(bytes.size()));
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  }
  close(fd);
  return bytes;
}

void OutputTail::Feed(std::string_view bytes) {
  if (bytes.size() > kTailKept) bytes.remove_prefix(bytes.size() - kTailKept);
  const MutexLock lock(mutex_);
  fed_at_ = absl::Now();
  kept_ += bytes;
  if (kept_.size() > 2 * kTailKept) kept_.erase(0, kept_.size() - kTailKept);
}

void OutputTail::End() {
  const MutexLock lock(mutex_);
  ended_ = true;
}

bool OutputTail::ended() const {
  const MutexLock lock(mutex_);
  return ended_;
}

absl::Time OutputTail::fed_at() const {
  const MutexLock lock(mutex_);
  return fed_at_;
}

std::string OutputTail::LastWith(std::string_view mark) const {
  const MutexLock lock(mutex_);
  return LastLineWith(mark, kept_);
}

std::string OutputTail::Last() const {
  const MutexLock lock(mutex_);
  return LastLines(kept_);
}

}  // namespace muster
