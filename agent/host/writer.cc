#include "agent/host/writer.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "agent/host/event_loop.h"
#include "agent/host/line_assembler.h"
#include "proto/base/check.h"
#include "proto/base/mutex.h"
#include "proto/base/thread.h"

namespace muster::host {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kWriteBytes = PIPE_BUF;  // poll promises room for this much in a pipe, and it is written whole
constexpr int kOurOwn = -1;               // the source of our own lines

std::string LostRemark(size_t bytes, const std::string& where, int error) {
  return "muster: " + std::to_string(bytes) + " bytes of output" + where + " were lost: " + std::strerror(error) +
         "\n";
}

}  // namespace

struct Writer::State {
  // One descriptor that is written to.
  struct Output {
    std::string queue;
    size_t dropped = 0;   // lines of our own
    bool broken = false;  // its reader is gone for good
    int error = 0;        // of the last write: it fails for now, and `queue` waits for the next try
    BootTime retry_at;
    size_t lost = 0;        // bytes, while it failed
    bool mid_line = false;  // the last byte that was written ended no line
    bool last_try = false;  // someone waits for it in Flush: what cannot be written now is lost

    bool failing() const { return error != 0; }
    bool due(BootTime now) const {
      return failing() ? now >= retry_at && (lost > 0 || !queue.empty()) : !queue.empty();
    }
  };
  // A pipe that is read; the thread's own.
  struct Source {
    int out_fd;
    LineAssembler assembler;
  };
  struct NewSource {
    int pipe_fd;
    int out_fd;
    std::string prefix;
  };

  State() : wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~State() {
    if (wake_fd >= 0) close(wake_fd);
  }

  void Wake() const {
    const uint64_t one = 1;
    (void)!write(wake_fd, &one, sizeof(one));
  }

  void Run();
  bool Step();
  void Append(int fd, int source, const std::string& lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void WriteSome(int fd);
  void ReadSome(int pipe_fd);
  void Remark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Failed(int fd, int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void GiveUp(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  int PollTimeout(BootTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const int wake_fd;
  Mutex mutex;
  Condition quiet;  // idle, or a source has ended
  std::map<int, Output> outputs ABSL_GUARDED_BY(mutex);
  std::vector<NewSource> new_sources ABSL_GUARDED_BY(mutex);
  size_t open_sources ABSL_GUARDED_BY(mutex) = 0;
  bool idle ABSL_GUARDED_BY(mutex) = true;
  int flushes ABSL_GUARDED_BY(mutex) = 0;     // callers that wait in Flush
  bool flush ABSL_GUARDED_BY(mutex) = false;  // one began, and the thread has not seen it
  bool stop ABSL_GUARDED_BY(mutex) = false;
  // The screen line that a source left unfinished with a carriage return, by descriptor; terminals are one.
  std::map<int, int> redrawing ABSL_GUARDED_BY(mutex);

  std::map<int, Source> sources;  // the thread's own, by pipe
};

void Writer::State::Append(int fd, int source, const std::string& lines) {
  if (lines.empty()) return;
  Output& output = outputs[fd];
  if (output.broken) return;
  const int screen = isatty(fd) ? -1 : fd;
  const auto open = redrawing.find(screen);
  if (open != redrawing.end() && open->second != source) output.queue += '\n';
  redrawing.erase(screen);
  if (output.failing() && output.queue.size() + lines.size() > kKeptWhileFailing) {
    output.lost += output.queue.size();
    output.queue.clear();
  }
  if (lines.back() == '\r') redrawing[screen] = source;
  output.queue += lines;
}

// What was dropped is said as soon as there is room again.
void Writer::State::Remark() {
  for (auto& [fd, output] : outputs) {
    if (output.dropped == 0 || output.failing() || !output.queue.empty()) continue;
    const std::string count = std::to_string(std::exchange(output.dropped, 0));
    Append(fd, kOurOwn, "muster: " + count + " lines of our own were dropped here: nobody read them\n");
  }
}

// A reader that is gone does not come back; anything else may pass, a full disk or quota above all.
void Writer::State::Failed(int fd, int error) {
  Output& output = outputs[fd];
  if (error == EPIPE || error == EBADF) {
    output = Output();
    output.broken = true;
    return;
  }
  output.error = error;
  output.retry_at = EventLoop::Now() + kRetryOutput;
  if (output.last_try) GiveUp(fd);
}

// Said where it can still be read, if anywhere.
void Writer::State::GiveUp(int fd) {
  Output& output = outputs[fd];
  output.last_try = false;
  output.lost += std::exchange(output.queue, "").size();
  const auto elsewhere = outputs.find(STDERR_FILENO);
  const bool unsaid = fd == STDERR_FILENO ||
                      (elsewhere != outputs.end() && (elsewhere->second.failing() || elsewhere->second.broken));
  if (output.lost == 0 || unsaid) return;
  const std::string name = fd == STDOUT_FILENO ? "standard output" : "descriptor " + std::to_string(fd);
  Append(STDERR_FILENO, kOurOwn, LostRemark(std::exchange(output.lost, 0), " for " + name, output.error));
}

int Writer::State::PollTimeout(BootTime now) const {
  BootTime due = absl::InfiniteFuture();
  for (const auto& [fd, output] : outputs) {
    const bool waits = output.failing() && output.retry_at > now && (output.lost > 0 || !output.queue.empty());
    if (waits) due = std::min(due, output.retry_at);
  }
  for (const auto& [fd, source] : sources) due = std::min(due, source.assembler.due());
  if (due == absl::InfiniteFuture()) return -1;
  const absl::Duration wait = std::max(due - now, absl::ZeroDuration());
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

// Only ever at most kWriteBytes to a descriptor that poll called ready: a stopped reader does not stop this
// thread.
void Writer::State::WriteSome(int fd) {
  std::string chunk;
  size_t said = 0;  // of what was lost: then the chunk is the remark
  {
    const MutexLock lock(mutex);
    const Output& output = outputs[fd];
    said = output.lost;
    chunk = said > 0 ? LostRemark(said, "", output.error) : output.queue.substr(0, kWriteBytes);
    if (said > 0 && output.mid_line) chunk.insert(0, "\n");
    // Whole lines where it can be: other processes write to the same place.
    const size_t end = chunk.find_last_of("\r\n");
    if (chunk.size() == kWriteBytes && end != std::string::npos) chunk.resize(end + 1);
  }
  const ssize_t put = write(fd, chunk.data(), chunk.size());
  const int error = put < 0 ? errno : 0;
  const MutexLock lock(mutex);
  if (error == EAGAIN || error == EINTR) return;
  if (error != 0) return Failed(fd, error);
  Output& output = outputs[fd];
  const auto written = static_cast<size_t>(put);
  if (said > 0) {
    output.lost -= said;
    output.queue.insert(0, chunk.substr(written));
  } else {
    output.queue.erase(0, written);
  }
  if (written > 0) output.mid_line = chunk[written - 1] != '\n' && chunk[written - 1] != '\r';
  if (output.lost > 0) {  // more has been lost meanwhile
    output.retry_at = EventLoop::Now();
    return;
  }
  output.error = 0;
  if (!output.queue.empty()) return;
  output.last_try = false;
  output.queue.shrink_to_fit();
}

void Writer::State::ReadSome(int pipe_fd) {
  const auto it = sources.find(pipe_fd);
  std::string buffer(kReadBytes, '\0');
  const ssize_t got = read(pipe_fd, buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  std::string lines;
  if (got > 0) {
    it->second.assembler.Feed(EventLoop::Now(), std::string_view(buffer).substr(0, static_cast<size_t>(got)),
                              &lines);
  } else {
    it->second.assembler.End(&lines);
  }
  const MutexLock lock(mutex);
  Append(it->second.out_fd, pipe_fd, lines);
  if (got > 0) return;
  close(pipe_fd);
  sources.erase(it);
  --open_sources;
}

// One turn: waits, reads, writes. False: told to stop, and nothing is left to write.
bool Writer::State::Step() {
  std::vector<pollfd> polled = {{wake_fd, POLLIN, 0}};
  size_t first_pipe = 0;
  int timeout_ms = 0;
  {
    const MutexLock lock(mutex);
    for (NewSource& added : new_sources) {
      sources.emplace(added.pipe_fd, Source{added.out_fd, LineAssembler(std::move(added.prefix))});
    }
    new_sources.clear();
    Remark();
    const BootTime now = EventLoop::Now();
    const bool flush_begins = std::exchange(flush, false);
    size_t queued = 0;
    idle = true;
    for (auto& [fd, output] : outputs) {
      if ((flush_begins && output.lost > 0) || (flushes > 0 && !output.queue.empty())) {
        output.last_try = true;
        output.retry_at = now;
      }
      if (output.due(now)) polled.push_back({fd, POLLOUT, 0});
      if (!output.failing()) queued += output.queue.size();
      if (output.last_try) idle = false;
    }
    if (queued > 0) idle = false;
    if (idle) quiet.NotifyAll();
    if (stop && idle) return false;
    first_pipe = polled.size();
    if (queued < kPausePipesBytes) {
      for (const auto& [fd, source] : sources) polled.push_back({fd, POLLIN, 0});
    }
    timeout_ms = PollTimeout(now);
  }
  if (poll(polled.data(), polled.size(), timeout_ms) < 0) {
    MUSTER_CHECK(errno == EINTR, "poll failed");
    return true;
  }
  uint64_t count = 0;
  if (polled[0].revents != 0) (void)!read(wake_fd, &count, sizeof(count));
  for (size_t i = 1; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    if (i < first_pipe) {
      WriteSome(polled[i].fd);
    } else {
      ReadSome(polled[i].fd);
    }
  }
  const BootTime now = EventLoop::Now();
  for (auto& [fd, source] : sources) {
    std::string lines;
    source.assembler.OnTime(now, &lines);
    const MutexLock lock(mutex);
    Append(source.out_fd, fd, lines);
  }
  return true;
}

void Writer::State::Run() {
  prctl(PR_SET_NAME, "muster-writer");
  while (Step()) {
  }
  for (const auto& [fd, source] : sources) close(fd);
  sources.clear();
  const MutexLock lock(mutex);
  idle = true;
  open_sources = 0;
  quiet.NotifyAll();
}

Writer::Writer() : state_(std::make_shared<State>()) {
  if (state_->wake_fd < 0) {
    status_ = absl::ErrnoToStatus(errno, "making an event descriptor for the output (ulimit -n)");
    return;
  }
  absl::StatusOr<std::thread> thread = StartThread([state = state_] { state->Run(); });
  status_ = thread.status();
  if (thread.ok()) thread->detach();
}

Writer::~Writer() {
  if (!status_.ok()) return;
  Flush(kFlushLimit);
  {
    const MutexLock lock(state_->mutex);
    state_->stop = true;
  }
  state_->Wake();
}

bool Writer::Write(int fd, std::string lines) {
  {
    const MutexLock lock(state_->mutex);
    State::Output& output = state_->outputs[fd];
    if (output.queue.size() + lines.size() > kMaxWriterBytes) {
      output.dropped += static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
      return false;
    }
    state_->Append(fd, kOurOwn, lines);
    state_->idle = false;
  }
  state_->Wake();
  return true;
}

void Writer::Drain(int pipe_fd, int out_fd, std::string prefix) {
  fcntl(pipe_fd, F_SETFL, fcntl(pipe_fd, F_GETFL) | O_NONBLOCK);
  {
    const MutexLock lock(state_->mutex);
    state_->new_sources.push_back({pipe_fd, out_fd, std::move(prefix)});
    ++state_->open_sources;
    state_->idle = false;
  }
  state_->Wake();
}

bool Writer::Flush(absl::Duration limit) {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  ++state.flushes;
  state.flush = true;
  state.idle = false;  // the thread says when it is
  state.Wake();
  constexpr absl::Duration kMaxFlush = absl::Hours(1);  // more would overflow the clock
  // By a steady clock, which nobody sets.
  const bool quiet = state.quiet.WaitFor(
      state.mutex, absl::ToChronoNanoseconds(std::min(limit, kMaxFlush)),
      [&state]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { return state.idle && state.open_sources == 0; });
  --state.flushes;
  return quiet;
}

}  // namespace muster::host
