// Bounds the size of a file that another process appends to. The file loses its oldest bytes when it exceeds a
// size, and also when its disk is full, so that the writer does not fail.
//
// The file may exceed its size by bytes that have not been read yet, because the writer is never slowed down and
// the reader may be slower. That has its own bound, kMaxUnread, because a reader may also stand still.
//
// The writer's descriptor stays valid. Where the file system can remove blocks from a file's front (ext4, XFS),
// the file gets shorter; where it can only free them (tmpfs, Btrfs), the file keeps its size with a hole at the
// front; where it can do neither, the file grows. Some space beyond the file's end is kept reserved, so that a
// full disk is noticed here before a write fails.
//
// Thread-compatible. Blocks as long as the file system does.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "base/core/time.h"
#include "base/io/owned_fd.h"

namespace muster::host {

// On a disk with at least kPlenty bytes free, the reserve is renewed only every kReserveEvery, because each
// renewal delays the writer a little.
inline constexpr int64_t kPlenty = int64_t{4} << 30;
inline constexpr absl::Duration kReserveEvery = absl::Milliseconds(100);
inline constexpr int64_t kReserve = int64_t{1} << 20;  // bytes reserved beyond a file's end
inline constexpr int64_t kFullReserve = int64_t{16}
                                        << 20;  // the same on a full disk, from bytes that were dropped
inline constexpr int64_t kLeastReserve = int64_t{64} << 10;  // a smaller reserve counts as a full disk
inline constexpr int64_t kMaxUnread = int64_t{512} << 20;    // bytes of a limited file if some are still unread
inline constexpr int64_t kAllRead = std::numeric_limits<int64_t>::max();  // no byte of the file is to be read

// The reserve for each of `files` new files in the file system of fd: kReserve, or less on a small or nearly full
// disk, of which one half stays free for what is written to it otherwise.
int64_t ShareOfReserve(int fd, int files);

class BoundedFile {
 public:
  // fd: readable and writable. max_bytes: size limit; 0: only the disk limits it. max_unread: takes the place of
  // max_bytes, if it is larger, while unread bytes would be dropped otherwise.
  BoundedFile(OwnedFd fd, std::string path, int64_t max_bytes, int64_t max_unread = kMaxUnread);
  ~BoundedFile() { Release(); }
  BoundedFile(const BoundedFile&) = delete;
  BoundedFile& operator=(const BoundedFile&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // How the file changed; readers adjust their offsets.
  struct Change {
    int64_t size = -1;     // size of the file now; -1: unknown, and nothing was done
    int64_t removed = 0;   // bytes removed from the front: the byte at this offset is now at offset 0
    int64_t readable = 0;  // bytes before this offset are gone
  };
  // Brings the file within its bounds. unread_from: bytes from this offset on are still to be read. *trouble is
  // set on a failure of the file system, once for each kind of failure; the returned change is valid in any case.
  Change Keep(BootTime now, int64_t unread_from, absl::Status* trouble);
  // The same without a reserve, for a file that nothing writes to any more.
  Change KeepToLimit(int64_t unread_from, absl::Status* trouble);

  // Makes the first reserve, of at most this size; later ones have at most this size, too, until the disk is full.
  // Errors: the disk is full.
  absl::Status Reserve(int64_t bytes = kReserve);
  // Frees the reserve once nothing writes to the file any more. The destructor does it, too.
  void Release();

  bool on_full_disk() const { return full_; }
  // After Keep: unread bytes keep the file above its size limit.
  bool exceeds_limit() const { return exceeds_limit_; }

 private:
  int64_t BytesToDrop(int64_t size, int64_t unread_from) const;
  int64_t DropFront(int64_t size, int64_t bytes, absl::Status* trouble);
  bool TryReserve(int64_t size, int64_t bytes);
  void KeepReserve(Change* change, absl::Status* trouble);
  bool HasPlenty() const;

  OwnedFd fd_;
  const std::string path_;
  const int64_t max_bytes_;
  const int64_t max_unread_;
  int64_t reserve_ = kReserve;
  int64_t block_ = 4096;  // block size of the file system
  int64_t hole_end_ = 0;  // bytes before this offset were freed in place
  int64_t reserved_end_ = 0;
  BootTime reserve_at_ = absl::InfinitePast();
  bool reserved_ = false;  // blocks may be reserved beyond the end
  bool can_collapse_ = true;
  bool can_punch_ = true;
  bool can_reserve_ = true;
  bool full_ = false;
  bool exceeds_limit_ = false;
};

}  // namespace muster::host
