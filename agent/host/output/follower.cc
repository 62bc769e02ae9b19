#include "agent/host/output/follower.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/console/log.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/io/mutex.h"
#include "base/io/thread.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr size_t kReadBytes = 64 * 1024;
constexpr int kReadsInTurn = 8;  // reads of one file before it is the next file's turn
// Bytes to read from a growing file in each kBusyPoll: reading faster would take memory bandwidth and CPU time
// from its worker. A file above its limit is read at full speed.
constexpr int64_t kBusyBytes = int64_t{7} << 19;
constexpr absl::Duration kBusyPoll = absl::Milliseconds(10);
constexpr absl::Duration kFullDiskPoll = absl::Milliseconds(1);
constexpr absl::Duration kQuietPoll = absl::Milliseconds(100);
constexpr absl::Duration kBusyFor = absl::Milliseconds(200);  // time for which a file is polled after it has grown
constexpr int kNice = 10;                                     // workers have priority if all CPUs are busy

// One destination of a file's lines.
struct Reader {
  LineAssembler assembler;
  int out_fd;  // stream that shows the lines; -1: they go to `filtered`
  LineOrigin origin;
  std::shared_ptr<FilteredLines> filtered;
  int64_t offset = 0;
  int64_t skipped = 0;   // bytes not shown: they were dropped before they were read, or belong to a cut line
  int64_t look_for = 0;  // while skipping the rest of a cut line: bytes within which its end is expected
  bool at_end = false;

  // Returns how many of these bytes belong to a line whose beginning was dropped.
  size_t SkipToLine(std::string_view bytes) {
    if (look_for == 0) return 0;
    const size_t end = bytes.find_first_of("\r\n");
    const size_t taken =
        std::min(end == std::string_view::npos ? bytes.size() : end + 1, static_cast<size_t>(look_for));
    look_for = end == std::string_view::npos ? look_for - static_cast<int64_t>(taken) : 0;
    skipped += static_cast<int64_t>(taken);
    return taken;
  }
};

struct File {
  std::unique_ptr<BoundedFile> bounded;
  OwnedFd worker_end;
  std::vector<Reader> readers;
  int64_t size = 0;
  uint64_t round = 0;
  bool ending = false;                     // a later round has begun, or none will
  bool failed = false;                     // it cannot be read, and that was logged
  bool blocked = false;                    // the writer's queue for its stream is full
  bool is_behind = false;                  // unread bytes keep the file above its limit
  BootTime period = absl::InfinitePast();  // when the current kBusyPoll began
  int64_t period_bytes = 0;                // bytes read in that period
  int watch = -1;
  BootTime visit_at = absl::InfinitePast();  // next visit; InfiniteFuture: when its inotify watch fires
  BootTime busy_until = absl::InfinitePast();

  // Offset from which a reader still needs the file's bytes.
  int64_t UnreadFrom() const {
    int64_t from = kAllRead;
    if (failed) return from;
    for (const Reader& reader : readers) from = std::min(from, reader.offset);
    return from;
  }
  bool HasReadEnough() const { return period_bytes >= kBusyBytes && !is_behind; }
};

}  // namespace

// ---- filtered lines ----

FilteredLines::FilteredLines(OwnedFd fd, std::string path, std::vector<std::string> texts)
    : fd_(std::move(fd)), path_(std::move(path)), texts_(std::move(texts)) {}

void FilteredLines::Take(std::string_view lines, size_t prefix_size) {
  std::string matching;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n') + 1);
    lines.remove_prefix(line.empty() ? lines.size() : line.size());
    const bool matches = std::any_of(texts_.begin(), texts_.end(), [&](const std::string& text) {
      return line.find(text, prefix_size) != std::string_view::npos;
    });
    if (matches) matching += line;
  }
  for (std::string_view rest = matching; !rest.empty();) {
    const ssize_t put = write(fd_.get(), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const std::string why = std::strerror(errno);
      if (!std::exchange(failed_, true)) {
        Log(Severity::kWarning, kPart, path_ + " is incomplete, because a write failed: " + why);
      }
      return;
    }
    rest.remove_prefix(static_cast<size_t>(put));
  }
}

// ---- the thread ----

struct Follower::State {
  explicit State(Writer::Feed writer)
      : feed(std::move(writer)),
        wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        room_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        inotify_fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}
  ~State() { feed.RingForRoom(-1); }

  void Wake() const {
    const uint64_t one = 1;
    (void)!write(wake_fd.get(), &one, sizeof(one));
  }

  void Run();
  bool TakeOrders();
  BootTime VisitAll();
  void Visit(BootTime now, File* file);
  void KeepWithinBounds(BootTime now, File* file);
  bool Read(BootTime now, File* file, Reader* reader);
  void Show(const Reader& reader, std::string_view pieces) const;
  void Rest(BootTime now, File* file);
  void LogDropped(const File& file) const;
  void Finish(File* file);
  void GiveUp(File* file) const;
  void Wait(BootTime until);
  void ReadNotices();

  const Writer::Feed feed;
  const OwnedFd wake_fd;
  const OwnedFd room_fd;
  const OwnedFd inotify_fd;  // -1: all files are polled

  Mutex mutex;
  Condition moved;  // notified when a file was closed
  std::vector<File> new_files ABSL_GUARDED_BY(mutex);
  size_t open_files ABSL_GUARDED_BY(mutex) = 0;
  uint64_t round ABSL_GUARDED_BY(mutex) = 0;  // round number for files that are added now
  bool give_up ABSL_GUARDED_BY(mutex) = false;
  bool stop ABSL_GUARDED_BY(mutex) = false;
  uint64_t bytes_read ABSL_GUARDED_BY(mutex) = 0;

  // Used by the thread alone.
  std::vector<File> files;
  std::vector<char> buffer = std::vector<char>(kReadBytes);
  std::string pieces;
};

void Follower::State::Run() {
  prctl(PR_SET_NAME, "muster-follower");
  (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice);  // applies to this thread only
  while (TakeOrders()) Wait(VisitAll());
}

// Takes new files and requests from the other threads. False: stop.
bool Follower::State::TakeOrders() {
  bool gives_up = false;
  {
    const MutexLock lock(mutex);
    if (stop) return false;
    for (File& file : new_files) files.push_back(std::move(file));
    new_files.clear();
    for (File& file : files) file.ending = file.round < round;
    gives_up = give_up;
  }
  for (File& file : files) {
    file.worker_end.Reset();
    if (file.ending) file.visit_at = absl::InfinitePast();
    if (gives_up && file.ending) GiveUp(&file);
  }
  if (!gives_up) return true;
  files.clear();
  const MutexLock lock(mutex);
  open_files = 0;
  give_up = false;
  moved.NotifyAll();
  return true;
}

// Visits all files that are due; returns when the next one is due.
BootTime Follower::State::VisitAll() {
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (const File& file : files) oldest = std::min(oldest, file.round);
  BootTime next = absl::InfiniteFuture();
  for (File& file : files) {
    const BootTime now = EventLoop::Now();
    if (now >= file.visit_at) {
      KeepWithinBounds(now, &file);
      if (file.round == oldest) {
        Visit(now, &file);
        Rest(now, &file);
      } else {
        file.visit_at = now + kBusyPoll;
      }
    }
    for (Reader& reader : file.readers) {
      if (!reader.at_end && !file.failed) continue;  // the rest of its last line is in the file
      pieces.clear();
      reader.assembler.OnTime(now, &pieces);
      Show(reader, pieces);
      next = std::min(next, reader.assembler.due());
    }
    next = std::min(next, file.visit_at);
  }
  const auto done = [oldest](const File& file) {
    return file.ending && file.round == oldest &&
           std::all_of(file.readers.begin(), file.readers.end(),
                       [&](const Reader& reader) { return reader.at_end || file.failed; });
  };
  size_t let_go = 0;
  for (File& file : files) {
    if (!done(file)) continue;
    Finish(&file);
    ++let_go;
  }
  if (let_go == 0) return next;
  files.erase(std::remove_if(files.begin(), files.end(), done), files.end());
  const MutexLock lock(mutex);
  open_files -= let_go;
  moved.NotifyAll();
  return EventLoop::Now();  // the files of a later round may have waited for these
}

void Follower::State::KeepWithinBounds(BootTime now, File* file) {
  absl::Status trouble;
  const int64_t unread_from = file->UnreadFrom();
  const BoundedFile::Change change = file->ending ? file->bounded->KeepToLimit(unread_from, &trouble)
                                                  : file->bounded->Keep(now, unread_from, &trouble);
  if (!trouble.ok()) Log(Severity::kWarning, kPart, AsStd(trouble.message()));
  if (change.size < 0) return;
  if (change.size != file->size) file->busy_until = now + (file->ending ? absl::ZeroDuration() : kBusyFor);
  file->size = change.size;
  file->is_behind = file->bounded->exceeds_limit();
  for (Reader& reader : file->readers) {
    const int64_t before = reader.offset - change.removed;
    reader.offset = std::max(before, change.readable);
    const bool emptied = reader.offset > change.size;  // another process truncated it
    if (emptied) reader.offset = 0;
    if (!emptied && reader.offset == before) continue;
    if (!emptied) {
      reader.skipped += reader.offset - before;
      reader.look_for = kMaxLineBytes;
    }
    pieces.clear();
    reader.assembler.Break(&pieces);
    Show(reader, pieces);
  }
}

void Follower::State::Visit(BootTime now, File* file) {
  file->blocked = false;
  if (now >= file->period + kBusyPoll || now >= file->busy_until || file->ending) {
    file->period = now;
    file->period_bytes = 0;
  }
  for (Reader& reader : file->readers) {
    int turns = 0;
    while (turns < kReadsInTurn && Read(now, file, &reader)) ++turns;
  }
}

// Reads one chunk. False: there is nothing to read, or the writer's queue is full.
bool Follower::State::Read(BootTime now, File* file, Reader* reader) {
  reader->at_end = reader->offset >= file->size;
  if (reader->at_end || file->HasReadEnough()) return false;
  if (reader->out_fd >= 0 && !feed.HasRoom(reader->out_fd)) {
    file->blocked = true;
    return false;
  }
  const ssize_t got = pread(file->bounded->fd(), buffer.data(), buffer.size(), reader->offset);
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    const std::string why = std::strerror(errno);
    if (!std::exchange(file->failed, true)) {
      Log(Severity::kWarning, kPart,
          file->bounded->path() + " cannot be read, so its lines are not shown: " + why);
    }
    return false;
  }
  reader->at_end = got == 0;
  if (got == 0) return false;
  reader->offset += got;
  if (now < file->busy_until) file->period_bytes += got;
  pieces.clear();
  std::string_view bytes(buffer.data(), static_cast<size_t>(got));
  bytes.remove_prefix(reader->SkipToLine(bytes));
  reader->assembler.Feed(now, bytes, &pieces);
  Show(*reader, pieces);
  const MutexLock lock(mutex);
  bytes_read += static_cast<uint64_t>(got);
  return true;
}

void Follower::State::Show(const Reader& reader, std::string_view shown) const {
  if (shown.empty()) return;
  if (reader.out_fd >= 0) {
    feed.Show(reader.out_fd, reader.origin, shown);
  } else {
    reader.filtered->Take(shown, reader.origin.prefix_bytes);
  }
}

// Sets the file's next visit.
void Follower::State::Rest(BootTime now, File* file) {
  const bool more = std::any_of(file->readers.begin(), file->readers.end(), [&](const Reader& reader) {
    return !reader.at_end && !file->failed && !file->blocked;
  });
  if (more) {
    file->visit_at = file->HasReadEnough() ? file->period + kBusyPoll : now;
  } else if (file->bounded->on_full_disk()) {
    file->visit_at = now + (now < file->busy_until ? kFullDiskPoll : kBusyPoll);
  } else if (now < file->busy_until) {
    file->visit_at = now + kBusyPoll;
  } else if (file->blocked || file->ending || !inotify_fd.valid()) {
    file->visit_at = now + kQuietPoll;
  } else if (file->watch >= 0) {
    file->visit_at = absl::InfiniteFuture();  // no growth was missed: it was visited after the watch was set
  } else {
    const std::string path = "/proc/self/fd/" + std::to_string(file->bounded->fd());
    file->watch = inotify_add_watch(inotify_fd.get(), path.c_str(), IN_MODIFY | IN_ONESHOT);
    file->visit_at = now + (file->watch >= 0 ? absl::ZeroDuration() : kQuietPoll);
  }
}

// Logs what was dropped before it was shown.
void Follower::State::LogDropped(const File& file) const {
  for (const Reader& reader : file.readers) {
    if (reader.skipped == 0 || reader.out_fd < 0) continue;
    Log(Severity::kWarning, kPart,
        std::to_string(reader.skipped) + " bytes of " + file.bounded->path() +
            " were not shown: the console was too slow, and the file's oldest bytes were dropped (--log-max-size, "
            "or a full disk)");
  }
}

void Follower::State::Finish(File* file) {
  KeepWithinBounds(EventLoop::Now(), file);  // all of it has been read
  if (file->watch >= 0) inotify_rm_watch(inotify_fd.get(), file->watch);
  for (Reader& reader : file->readers) {
    pieces.clear();
    reader.assembler.End(&pieces);
    Show(reader, pieces);
  }
  LogDropped(*file);
  file->bounded->Release();
}

// Logs what is not going to be shown, and brings the file to its limit at last.
void Follower::State::GiveUp(File* file) const {
  LogDropped(*file);
  int64_t unread = 0;
  for (const Reader& reader : file->readers) {
    if (!reader.at_end && reader.out_fd >= 0) unread = file->size - reader.offset;
  }
  absl::Status trouble;
  const BoundedFile::Change change = file->bounded->KeepToLimit(kAllRead, &trouble);
  if (unread == 0) return;
  const bool has_all = change.size < 0 || change.size - change.readable >= unread;
  Log(Severity::kWarning, kPart,
      "the last " + std::to_string(unread) + " bytes of " + file->bounded->path() +
          " were not shown, because nobody read the console; " +
          (has_all ? "they are in the file" : "the file has the newest of them"));
}

void Follower::State::Wait(BootTime until) {
  pollfd polled[] = {{wake_fd.get(), POLLIN, 0}, {room_fd.get(), POLLIN, 0}, {inotify_fd.get(), POLLIN, 0}};
  int timeout_ms = -1;
  if (until != absl::InfiniteFuture()) {
    const absl::Duration wait = std::max(until - EventLoop::Now(), absl::ZeroDuration());
    timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  }
  if (poll(polled, inotify_fd.valid() ? 3 : 2, timeout_ms) < 0) {
    MUSTER_CHECK(errno == EINTR, "poll failed");
    return;
  }
  uint64_t count = 0;
  if (polled[0].revents != 0) (void)!read(wake_fd.get(), &count, sizeof(count));
  if (polled[1].revents != 0) {
    (void)!read(room_fd.get(), &count, sizeof(count));
    for (File& file : files) {
      if (file.blocked) file.visit_at = absl::InfinitePast();
    }
  }
  if (inotify_fd.valid() && polled[2].revents != 0) ReadNotices();
}

void Follower::State::ReadNotices() {
  alignas(inotify_event) char notices[4096];
  ssize_t got = 0;
  while ((got = read(inotify_fd.get(), notices, sizeof(notices))) > 0) {
    for (ssize_t at = 0; at < got;) {
      inotify_event notice;
      std::memcpy(&notice, notices + at, sizeof(notice));
      at += static_cast<ssize_t>(sizeof(notice) + notice.len);
      for (File& file : files) {
        if (file.watch != notice.wd && (notice.mask & IN_Q_OVERFLOW) == 0) continue;
        file.watch = -1;  // IN_ONESHOT: the watch is used up
        file.visit_at = absl::InfinitePast();
        file.busy_until = EventLoop::Now() + kBusyFor;
      }
    }
  }
}

// ---- called by other threads ----

Follower::Follower(Writer::Feed feed) : state_(std::make_shared<State>(std::move(feed))) {
  if (!state_->wake_fd.valid() || !state_->room_fd.valid()) {
    status_ = absl::ErrnoToStatus(errno, "making an event descriptor for the workers' files (ulimit -n)");
    return;
  }
  state_->feed.RingForRoom(state_->room_fd.get());
  absl::StatusOr<std::thread> thread = StartThread([state = state_] { state->Run(); });
  status_ = thread.status();
  if (thread.ok()) thread->detach();
}

Follower::~Follower() {
  {
    const MutexLock lock(state_->mutex);
    state_->stop = true;
  }
  state_->Wake();
}

void Follower::Follow(FollowedFile followed) {
  File file;
  const LineOrigin origin = {state_->feed.NewSource(), followed.rank, followed.prefix.size()};
  if (followed.out_fd >= 0)
    file.readers.push_back({LineAssembler(followed.prefix, followed.redraws), followed.out_fd, origin, nullptr});
  if (followed.filtered) {
    file.readers.push_back({LineAssembler(followed.prefix, std::make_shared<RedrawLimit>()), -1, origin,
                            std::move(followed.filtered)});
  }
  file.bounded = std::move(followed.file);
  file.worker_end = std::move(followed.worker_end);
  {
    const MutexLock lock(state_->mutex);
    file.round = state_->round;
    state_->new_files.push_back(std::move(file));
    ++state_->open_files;
  }
  state_->Wake();
}

void Follower::EndRound() {
  {
    const MutexLock lock(state_->mutex);
    ++state_->round;
  }
  state_->Wake();
}

bool Follower::AwaitDrained(absl::Duration limit) {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  return state.moved.WaitFor(state.mutex, absl::ToChronoNanoseconds(limit),
                             [&state]()
                                 ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { return state.open_files == 0; });
}

uint64_t Follower::Moved() const {
  const MutexLock lock(state_->mutex);
  return state_->bytes_read + state_->feed.Written();
}

void Follower::GiveUp() {
  {
    const MutexLock lock(state_->mutex);
    state_->give_up = true;
  }
  state_->Wake();
}

}  // namespace muster::host
