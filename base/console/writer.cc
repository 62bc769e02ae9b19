#include "base/console/writer.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/console/live_rows.h"
#include "base/core/check.h"
#include "base/io/byte_queue.h"
#include "base/io/event_loop.h"
#include "base/io/mutex.h"
#include "base/io/thread.h"

namespace muster {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kWriteBytes = PIPE_BUF;        // poll guarantees room for this in a pipe, and the write is atomic
constexpr size_t kWriteFileBytes = 256 * 1024;  // to a regular file, which has no reader that could stop
constexpr int kOurOwn = -1;                     // source number of muster's own lines; a pipe's is its descriptor
constexpr int kFirstFed = 1 << 24;              // first source number of a Feed
constexpr absl::Duration kDrawEvery = absl::Milliseconds(40);  // between two redraws of a terminal's live rows

std::string LostRemark(size_t bytes, const std::string& where, int error) {
  return "muster: " + std::to_string(bytes) + " bytes of output" + where + " were lost: " + std::strerror(error) +
         "\n";
}

size_t MostAtOnce(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? kWriteFileBytes : kWriteBytes;
}

// Standard output and standard error on one terminal share one screen, so they share one queue.
int ScreenOf(int fd) {
  struct stat ours {
  }, others{};
  if (fd != STDERR_FILENO || !isatty(STDERR_FILENO) || !isatty(STDOUT_FILENO)) return fd;
  if (fstat(STDERR_FILENO, &ours) != 0 || fstat(STDOUT_FILENO, &others) != 0) return fd;
  return ours.st_rdev == others.st_rdev ? STDOUT_FILENO : fd;
}

}  // namespace

struct Writer::State {
  // One descriptor to which the thread writes.
  struct Output {
    ByteQueue queue;
    size_t most_at_once = 0;  // bytes per write; 0: not known yet
    bool terminal = false;
    bool reader_redraws = false;  // not a terminal, see LetRedrawsPass
    // For other outputs: the source that left its last line unfinished with a carriage return.
    int redrawing = kNobody;
    LiveRows rows;                     // for a terminal
    std::optional<LineGroups> groups;  // nullopt: each line is shown as it comes
    BootTime next_draw = absl::InfinitePast();
    size_t dropped = 0;   // lines of muster's log
    bool broken = false;  // its reader is gone for good
    int error = 0;        // of the last write, if it failed; `queue` waits for the next attempt
    BootTime retry_at;
    size_t lost = 0;        // bytes, while writes failed
    bool mid_line = false;  // the last byte written did not end a line
    bool last_try = false;  // a Flush waits: what cannot be written now is lost

    static constexpr int kNobody = -2;

    bool failing() const { return error != 0; }
    bool due(BootTime now) const {
      return failing() ? now >= retry_at && (lost > 0 || !queue.empty()) : !queue.empty();
    }
  };
  // A pipe that the thread reads. Used by the thread only.
  struct Source {
    int out_fd;
    LineAssembler assembler;
    PipeTaps taps;
    std::optional<size_t> room;  // bytes that may still be shown; nullopt: no limit, the worker waits
    std::string prefix;
    bool raw = false;  // passed on as it is
    LineOrigin origin;
    bool paused = false;  // not read, since enough is queued: the rest of its last line may be in the pipe
    size_t left_out = 0;  // bytes beyond `room`
  };
  struct NewSource {
    int pipe_fd;
    int out_fd;
    std::string prefix;
    std::shared_ptr<RedrawLimit> limit;
    PipeTaps taps;
    std::optional<size_t> most_bytes;
    bool raw = false;
    int rank = kNoRank;
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
  void Add(NewSource source);
  Output& OutputOf(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void DrawRows(BootTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void MakeRoomIfFailing(Output* output, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Pass(int fd, std::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Append(int fd, const LineOrigin& origin, std::string_view lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  static void Put(Output* output, int source, std::string_view lines);
  void PutAll(Output* output, const std::vector<ShownLine>& shown) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void ShowGroups(BootTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void WriteSome(int fd);
  void ReadSome(int pipe_fd);
  std::string_view Admitted(Source* source, std::string_view bytes) ABSL_LOCKS_EXCLUDED(mutex);
  void RingForRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Remark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Failed(int fd, int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void GiveUp(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void BeginFlush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool AwaitQuiet(absl::Duration limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  int PollTimeout(BootTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const int wake_fd;
  Mutex mutex;
  Condition quiet;  // notified when idle, or when a source has ended
  std::map<int, Output> outputs ABSL_GUARDED_BY(mutex);
  std::vector<NewSource> new_sources ABSL_GUARDED_BY(mutex);
  size_t open_sources ABSL_GUARDED_BY(mutex) = 0;
  bool idle ABSL_GUARDED_BY(mutex) = true;
  int flushes ABSL_GUARDED_BY(mutex) = 0;     // callers that wait in Flush
  bool flush ABSL_GUARDED_BY(mutex) = false;  // a Flush began and the thread has not noticed it yet
  bool stop ABSL_GUARDED_BY(mutex) = false;
  std::map<int, int> screens ABSL_GUARDED_BY(mutex);  // descriptor to the one that is used in its place
  int next_source ABSL_GUARDED_BY(mutex) = kFirstFed;
  int room_fd ABSL_GUARDED_BY(mutex) = -1;  // signalled when there is room again after HasRoom() returned false
  mutable bool room_wanted ABSL_GUARDED_BY(mutex) = false;
  uint64_t written ABSL_GUARDED_BY(mutex) = 0;

  std::map<int, Source> sources;  // by pipe; used by the thread only
};

void Writer::State::Add(NewSource source) {
  fcntl(source.pipe_fd, F_SETFL, fcntl(source.pipe_fd, F_GETFL) | O_NONBLOCK);
  {
    const MutexLock lock(mutex);
    new_sources.push_back(std::move(source));
    ++open_sources;
    idle = false;
  }
  Wake();
}

Writer::State::Output& Writer::State::OutputOf(int fd) {
  const auto known = screens.find(fd);
  fd = known != screens.end() ? known->second : (screens[fd] = ScreenOf(fd));
  Output& output = outputs[fd];
  if (output.most_at_once == 0) {
    output.most_at_once = MostAtOnce(fd);
    output.terminal = isatty(fd) == 1;
  }
  return output;
}

void Writer::State::MakeRoomIfFailing(Output* output, size_t bytes) {
  if (!output->failing() || output->queue.size() + bytes <= kKeptWhileFailing) return;
  output->lost += output->queue.size();
  output->queue.Clear();
}

void Writer::State::Pass(int fd, std::string_view bytes) {
  Output& output = OutputOf(fd);
  if (output.broken) return;
  MakeRoomIfFailing(&output, bytes.size());
  output.queue.Push(bytes);
}

void Writer::State::Append(int fd, const LineOrigin& origin, std::string_view lines) {
  if (lines.empty()) return;
  Output& output = OutputOf(fd);
  if (output.broken) return;
  if (origin.rank == kNoRank) ShowGroups(absl::InfiniteFuture());
  if (output.groups) {
    std::vector<ShownLine> shown;
    output.groups->Take(EventLoop::Now(), origin, lines, &shown);
    return PutAll(&output, shown);
  }
  MakeRoomIfFailing(&output, lines.size());
  Put(&output, origin.source, lines);
}

void Writer::State::Put(Output* output, int source, std::string_view lines) {
  if (output->terminal) {
    std::string text;
    output->rows.Take(source, lines, &text);
    output->queue.Push(text);
    return;
  }
  if (output->redrawing != Output::kNobody && output->redrawing != source) output->queue.Push("\n");
  output->redrawing = lines.back() == '\r' && !output->reader_redraws ? source : Output::kNobody;
  output->queue.Push(lines);
}

void Writer::State::PutAll(Output* output, const std::vector<ShownLine>& shown) {
  for (const ShownLine& line : shown) {
    if (output->broken) return;
    MakeRoomIfFailing(output, line.text.size());
    Put(output, line.source, line.text);
  }
}

// Shows the lines that have waited for other ranks until now.
void Writer::State::ShowGroups(BootTime now) {
  for (auto& [fd, output] : outputs) {
    if (!output.groups) continue;
    std::vector<ShownLine> shown;
    output.groups->OnTime(now, &shown);
    PutAll(&output, shown);
  }
}

// Draws rows only when everything before them is written, so that a slow terminal gets the newest states.
void Writer::State::DrawRows(BootTime now) {
  for (auto& [fd, output] : outputs) {
    if (!output.rows.stale() || !output.queue.empty() || output.broken || now < output.next_draw) continue;
    winsize size{};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) size = {24, 80, 0, 0};
    std::string text;
    output.rows.Draw(size.ws_col, size.ws_row, &text);
    output.queue.Push(text);
    output.next_draw = now + kDrawEvery;
  }
}

// Reports dropped lines as soon as there is room again.
void Writer::State::Remark() {
  for (auto& [fd, output] : outputs) {
    if (output.dropped == 0 || output.failing() || !output.queue.empty()) continue;
    const std::string count = std::to_string(std::exchange(output.dropped, 0));
    Append(fd, {.source = kOurOwn},
           "muster: " + count + " lines of muster's log were dropped here: the reader was too slow\n");
  }
}

// A reader that is gone does not come back. Other errors may pass, such as a full disk or an exceeded quota.
void Writer::State::Failed(int fd, int error) {
  Output& output = outputs[fd];
  if (error == EPIPE || error == EBADF) {
    output = Output();
    output.broken = true;
    if (room_wanted) RingForRoom();
    return;
  }
  output.error = error;
  output.retry_at = EventLoop::Now() + kRetryOutput;
  if (output.last_try) GiveUp(fd);
}

// Drops the queue of a failing output and reports the loss on standard error, if that works.
void Writer::State::GiveUp(int fd) {
  Output& output = outputs[fd];
  output.last_try = false;
  output.lost += output.queue.size();
  output.queue.Clear();
  const auto elsewhere = outputs.find(STDERR_FILENO);
  const bool unsaid = fd == STDERR_FILENO ||
                      (elsewhere != outputs.end() && (elsewhere->second.failing() || elsewhere->second.broken));
  if (output.lost == 0 || unsaid) return;
  const std::string name = fd == STDOUT_FILENO ? "standard output" : "descriptor " + std::to_string(fd);
  Append(STDERR_FILENO, {.source = kOurOwn},
         LostRemark(std::exchange(output.lost, 0), " for " + name, output.error));
}

int Writer::State::PollTimeout(BootTime now) const {
  BootTime due = absl::InfiniteFuture();
  for (const auto& [fd, output] : outputs) {
    const bool waits = output.failing() && output.retry_at > now && (output.lost > 0 || !output.queue.empty());
    if (waits) due = std::min(due, output.retry_at);
    if (output.rows.stale() && output.queue.empty() && !output.broken) due = std::min(due, output.next_draw);
    if (output.groups) due = std::min(due, output.groups->due());
  }
  for (const auto& [fd, source] : sources) {
    if (!source.paused) due = std::min(due, source.assembler.due());
  }
  if (due == absl::InfiniteFuture()) return -1;
  const absl::Duration wait = std::max(due - now, absl::ZeroDuration());
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

// Writes at most kWriteBytes to a descriptor that poll reported ready, or more to a regular file, so that a
// stopped reader does not block this thread.
void Writer::State::WriteSome(int fd) {
  std::string chunk;
  size_t reported = 0;  // lost bytes; if not 0, the chunk is the message about them
  {
    const MutexLock lock(mutex);
    const Output& output = outputs[fd];
    reported = output.lost;
    chunk = reported > 0 ? LostRemark(reported, "", output.error)
                         : std::string(output.queue.front(output.most_at_once));
    if (reported > 0 && output.mid_line) chunk.insert(0, "\n");
    // Complete lines if possible, since other processes write to the same place.
    const size_t end = chunk.find_last_of("\r\n");
    if (chunk.size() == output.most_at_once && end != std::string::npos) chunk.resize(end + 1);
  }
  const ssize_t put = write(fd, chunk.data(), chunk.size());
  const int error = put < 0 ? errno : 0;
  const MutexLock lock(mutex);
  if (error == EAGAIN || error == EINTR) return;
  if (error != 0) return Failed(fd, error);
  Output& output = outputs[fd];
  const auto written = static_cast<size_t>(put);
  if (reported > 0) {
    output.lost -= reported;
    output.queue.PushFront(std::string_view(chunk).substr(written));
  } else {
    output.queue.Pop(written);
  }
  this->written += written;
  if (written > 0) output.mid_line = chunk[written - 1] != '\n' && chunk[written - 1] != '\r';
  if (output.lost > 0) {  // more has been lost meanwhile
    output.retry_at = EventLoop::Now();
    return;
  }
  output.error = 0;
  if (room_wanted && output.queue.size() < kPausePipesBytes / 2) RingForRoom();
  if (!output.queue.empty()) return;
  output.last_try = false;
  output.queue.Shrink();
}

void Writer::State::RingForRoom() {
  room_wanted = false;
  const uint64_t one = 1;
  if (room_fd >= 0) (void)!write(room_fd, &one, sizeof(one));
}

// The part of these bytes that may be shown; leaves room in the queue for muster's own lines.
std::string_view Writer::State::Admitted(Source* source, std::string_view bytes) {
  if (!source->room) return bytes;
  const MutexLock lock(mutex);
  const bool full = OutputOf(source->out_fd).queue.size() + bytes.size() > kMaxWriterBytes - kPausePipesBytes;
  const size_t fits = full ? 0 : std::min(*source->room, bytes.size());
  source->left_out += bytes.size() - fits;
  return bytes.substr(0, fits);
}

void Writer::State::ReadSome(int pipe_fd) {
  const auto it = sources.find(pipe_fd);
  std::string buffer(kReadBytes, '\0');
  const ssize_t got = read(pipe_fd, buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  std::string lines;
  const PipeTaps& taps = it->second.taps;
  if (taps.bytes != nullptr && got > 0) taps.bytes->fetch_add(static_cast<uint64_t>(got));
  if (OutputTail* tail = taps.tail.get(); tail != nullptr) {
    if (got > 0) {
      tail->Feed(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
    } else {
      tail->End();
    }
  }
  Source& source = it->second;
  if (got > 0 && source.raw) {
    const MutexLock lock(mutex);
    return Pass(source.out_fd, std::string_view(buffer).substr(0, static_cast<size_t>(got)));
  }
  if (got > 0) {
    const std::string_view bytes = std::string_view(buffer).substr(0, static_cast<size_t>(got));
    const std::string_view admitted = Admitted(&source, bytes);
    source.assembler.Feed(EventLoop::Now(), admitted, &lines);
    if (source.room) *source.room -= std::min(*source.room, std::max(admitted.size(), lines.size()));
  } else {
    source.assembler.End(&lines);
    if (source.left_out > 0) {
      lines += source.prefix + "... (" + std::to_string(source.left_out) + " bytes of output were left out)\n";
    }
  }
  const MutexLock lock(mutex);
  Append(source.out_fd, source.origin, lines);
  if (got > 0) return;
  if (Output& output = OutputOf(source.out_fd); output.groups) {
    std::vector<ShownLine> shown;
    output.groups->ShowThoseOf(source.origin.rank, &shown);
    PutAll(&output, shown);
  }
  close(pipe_fd);
  sources.erase(it);
  --open_sources;
}

// One cycle of the thread: waits, reads and writes. False: `stop` is set and nothing is left to write.
bool Writer::State::Step() {
  std::vector<pollfd> polled = {{wake_fd, POLLIN, 0}};
  size_t first_pipe = 0;
  int timeout_ms = 0;
  {
    const MutexLock lock(mutex);
    for (NewSource& added : new_sources) {
      sources.emplace(added.pipe_fd, Source{added.out_fd,
                                            LineAssembler(added.prefix, std::move(added.limit)),
                                            std::move(added.taps),
                                            added.most_bytes,
                                            added.prefix,
                                            added.raw,
                                            {added.pipe_fd, added.rank, added.prefix.size()}});
    }
    new_sources.clear();
    Remark();
    const BootTime now = EventLoop::Now();
    ShowGroups(flushes > 0 || stop ? absl::InfiniteFuture() : now);
    DrawRows(now);
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
    for (auto& [fd, source] : sources) {
      source.paused = queued >= kPausePipesBytes && !source.room;
      if (!source.paused) polled.push_back({fd, POLLIN, 0});
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
    if (source.paused) continue;
    std::string lines;
    source.assembler.OnTime(now, &lines);
    const MutexLock lock(mutex);
    Append(source.out_fd, source.origin, lines);
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
    status_ = absl::ErrnoToStatus(errno, "creating an event descriptor for the output (ulimit -n)");
    return;
  }
  absl::StatusOr<std::thread> thread = StartThread([state = state_] { state->Run(); });
  status_ = thread.status();
  if (thread.ok()) thread->detach();
}

Writer::~Writer() {
  if (!status_.ok()) return;
  if (!flushed_last_) Flush(kFlushLimit);
  {
    const MutexLock lock(state_->mutex);
    state_->stop = true;
  }
  state_->Wake();
}

void Writer::LetRedrawsPass(int fd) {
  const MutexLock lock(state_->mutex);
  state_->OutputOf(fd).reader_redraws = true;
}

void Writer::GroupLines(int fd, int ranks) {
  const MutexLock lock(state_->mutex);
  state_->OutputOf(fd).groups.emplace(ranks);
}

bool Writer::Write(int fd, std::string lines) {
  {
    const MutexLock lock(state_->mutex);
    State::Output& output = state_->OutputOf(fd);
    if (output.queue.size() + lines.size() > kMaxWriterBytes) {
      output.dropped += static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
      return false;
    }
    state_->Append(fd, {.source = kOurOwn}, lines);
    state_->idle = false;
  }
  state_->Wake();
  return true;
}

void Writer::AdoptPipe(int pipe_fd, int out_fd, std::string prefix, std::shared_ptr<RedrawLimit> limit,
                       PipeTaps taps, int rank) {
  state_->Add({pipe_fd, out_fd, std::move(prefix), std::move(limit), std::move(taps), std::nullopt, false, rank});
}

void Writer::AdoptRawPipe(int pipe_fd, int out_fd, PipeTaps taps) {
  state_->Add({pipe_fd, out_fd, "", nullptr, std::move(taps), std::nullopt, true});
}

void Writer::AdoptBoundedPipe(size_t most_bytes, int pipe_fd, int out_fd, std::string prefix,
                              std::shared_ptr<OutputTail> tail) {
  state_->Add({pipe_fd, out_fd, std::move(prefix), nullptr, PipeTaps{.tail = std::move(tail)}, most_bytes});
}

bool Writer::Feed::HasRoom(int fd) const {
  const MutexLock lock(state_->mutex);
  const State::Output& output = state_->OutputOf(fd);
  const bool room = output.broken || (!output.failing() && output.queue.size() < kPausePipesBytes);
  if (!room) state_->room_wanted = true;
  return room;
}

void Writer::Feed::Show(int fd, const LineOrigin& origin, std::string_view pieces) const {
  {
    const MutexLock lock(state_->mutex);
    state_->Append(fd, origin, pieces);
    state_->idle = false;
  }
  state_->Wake();
}

int Writer::Feed::NewSource() const {
  const MutexLock lock(state_->mutex);
  return state_->next_source++;
}

void Writer::Feed::RingForRoom(int event_fd) const {
  const MutexLock lock(state_->mutex);
  state_->room_fd = event_fd;
}

bool Writer::Feed::Redraws(int fd) const {
  const MutexLock lock(state_->mutex);
  const State::Output& output = state_->OutputOf(fd);
  return output.terminal || output.reader_redraws;
}

uint64_t Writer::Feed::Written() const {
  const MutexLock lock(state_->mutex);
  return state_->written;
}

void Writer::State::BeginFlush() {
  ++flushes;
  flush = true;
  idle = false;  // the thread sets it when everything is written
  Wake();
}

bool Writer::State::AwaitQuiet(absl::Duration limit) {
  constexpr absl::Duration kMaxFlush = absl::Hours(1);  // an infinite limit would overflow the clock
  return quiet.WaitFor(mutex, absl::ToChronoNanoseconds(std::min(limit, kMaxFlush)),
                       [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return idle && open_sources == 0; });
}

bool Writer::Flush(absl::Duration limit) {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  state.BeginFlush();
  const bool quiet = state.AwaitQuiet(limit);
  --state.flushes;
  return quiet;
}

bool Writer::FlushLast(absl::Duration limit) {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  if (!std::exchange(flushed_last_, true)) state.BeginFlush();
  return state.AwaitQuiet(limit);
}

}  // namespace muster
