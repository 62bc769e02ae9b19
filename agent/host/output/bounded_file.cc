#include "agent/host/output/bounded_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

namespace muster::host {
namespace {

bool IsNoSpace(int error) { return error == ENOSPC || error == EDQUOT; }

// 0, or errno.
int Allocate(int fd, int mode, int64_t begin, int64_t bytes) {
  int result = 0;
  do {
    result = fallocate(fd, mode, begin, bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

// Free bytes of the file system; nullopt: unknown.
std::optional<int64_t> FreeBytes(int fd) {
  struct statfs about {};
  if (fstatfs(fd, &about) != 0 || about.f_bsize <= 0) return std::nullopt;  // FUSE may report 0 in all fields
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto blocks = static_cast<int64_t>(about.f_bavail);
  return blocks > kMost / about.f_bsize ? kMost : blocks * about.f_bsize;
}

}  // namespace

int64_t ShareOfReserve(int fd, int files) {
  const std::optional<int64_t> free = FreeBytes(fd);
  if (!free || files <= 0) return kReserve;
  return std::clamp(*free / 2 / files, kLeastReserve, kReserve);
}

BoundedFile::BoundedFile(OwnedFd fd, std::string path, int64_t max_bytes, int64_t max_unread)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      max_bytes_(max_bytes),
      max_unread_(std::max(max_bytes, max_unread)) {
  struct statfs about {};
  if (fstatfs(fd_.get(), &about) == 0 && about.f_bsize > 0) block_ = about.f_bsize;
}

bool BoundedFile::TryReserve(int64_t size, int64_t bytes) {
  const int error = Allocate(fd_.get(), FALLOC_FL_KEEP_SIZE, size, bytes);
  if (error == 0) {
    reserved_end_ = size + bytes;
    reserved_ = true;
    return true;
  }
  if (!IsNoSpace(error)) can_reserve_ = false;  // not supported here: a full disk shows only at a write
  return !can_reserve_;
}

absl::Status BoundedFile::Reserve(int64_t bytes) {
  reserve_ = bytes;
  for (; bytes >= kLeastReserve; bytes /= 2) {
    if (TryReserve(0, bytes)) return absl::OkStatus();
  }
  return absl::ResourceExhaustedError("no space is left for " + path_);
}

void BoundedFile::Release() {
  struct stat about {};
  if (!reserved_ || fstat(fd_.get(), &about) != 0) return;
  (void)!ftruncate(fd_.get(), about.st_size);  // frees the blocks beyond the end
  reserved_ = false;
}

// How much of the front, the hole included, exceeds the limit. Dropping may make the file system copy what stays,
// so it is done in large parts: each time at least as much as stays.
int64_t BoundedFile::BytesToDrop(int64_t size, int64_t unread_from) const {
  const int64_t held = size - hole_end_;
  if (max_bytes_ == 0 || held <= max_bytes_) return 0;
  if (held > max_unread_) return size - max_unread_ / 2;
  const int64_t bytes = std::min(size - max_bytes_ / 2, unread_from);
  return bytes - hole_end_ >= held / 2 ? bytes : 0;
}

// Drops whole blocks within the first `bytes`, hole included. Returns how many bytes were removed; if they were
// freed in place instead, hole_end_ moves and the result is 0.
int64_t BoundedFile::DropFront(int64_t size, int64_t bytes, absl::Status* trouble) {
  const int64_t end = std::min(bytes, size - 1) / block_ * block_;  // never the whole file: that is refused
  if (end <= hole_end_) return 0;
  if (can_collapse_) {
    if (Allocate(fd_.get(), FALLOC_FL_COLLAPSE_RANGE, 0, end) == 0) {
      reserved_end_ = 0;  // some file systems free the reserve at that
      reserve_at_ = absl::InfinitePast();
      return end;
    }
    can_collapse_ = false;
  }
  if (!can_punch_) return 0;
  const int error = Allocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole_end_, end - hole_end_);
  if (error == 0) {
    hole_end_ = end;
  } else {
    can_punch_ = false;
    *trouble = absl::ErrnoToStatus(error, path_ + " grows without a bound: this file system cannot shorten it");
  }
  return 0;
}

BoundedFile::Change BoundedFile::KeepToLimit(int64_t unread_from, absl::Status* trouble) {
  Change change;
  struct stat about {};
  if (fstat(fd_.get(), &about) != 0) return change;
  change.size = about.st_size;
  if (change.size < hole_end_) hole_end_ = reserved_end_ = 0;  // another process truncated it
  if (const int64_t bytes = BytesToDrop(change.size, unread_from); bytes > 0) {
    change.removed = DropFront(change.size, bytes, trouble);
    change.size -= change.removed;
  }
  change.readable = hole_end_;
  exceeds_limit_ = max_bytes_ > 0 && change.size - hole_end_ > max_bytes_;
  return change;
}

BoundedFile::Change BoundedFile::Keep(BootTime now, int64_t unread_from, absl::Status* trouble) {
  Change change = KeepToLimit(unread_from, trouble);
  if (change.size < 0) return change;
  if (can_reserve_ && now >= reserve_at_ && change.size + reserve_ / 2 > reserved_end_) {
    KeepReserve(&change, trouble);
    if (HasPlenty()) reserve_at_ = now + kReserveEvery;
  }
  change.readable = hole_end_;
  return change;
}

bool BoundedFile::HasPlenty() const { return FreeBytes(fd_.get()).value_or(0) > kPlenty; }

void BoundedFile::KeepReserve(Change* change, absl::Status* trouble) {
  if (TryReserve(change->size, full_ ? kFullReserve : reserve_)) return;
  if (!full_) {
    *trouble = absl::ResourceExhaustedError("no space is left for " + path_ +
                                            ": from now on the newest output replaces the oldest");
  }
  full_ = true;
  const int64_t held = change->size - hole_end_;
  const int64_t freed_from = hole_end_;
  const int64_t removed = DropFront(change->size, change->size - (held / 2 > reserve_ ? held / 2 : 0), trouble);
  change->size -= removed;
  change->removed += removed;
  // The new bytes take the place of the old ones; a file without old ones leaves the disk to others.
  const int64_t most = removed > 0 || hole_end_ > freed_from ? kFullReserve : reserve_;
  for (int64_t bytes = kFullReserve; bytes >= kLeastReserve; bytes /= 2) {
    if (bytes <= most && TryReserve(change->size, bytes)) return;
  }
}

}  // namespace muster::host
