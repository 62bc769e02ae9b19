// A file that somebody else appends to, kept within bounds while they do: it loses its oldest bytes when it grows
// past a size, and so it does when its disk is full, so that the writer does not fail.
//
// The writer's descriptor stays what it is. Where the file system can take blocks out of a file's front (ext4,
// XFS) the file gets shorter; where it can only free them (tmpfs, Btrfs), the file keeps its size with a hole in
// front; where it can do neither, the file grows. Some room beyond the file's end is kept reserved: a disk that
// gets full is seen before the writer sees it.
//
// Thread-compatible. Blocks as the file system does.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/io/owned_fd.h"
#include "base/time.h"

namespace muster::host {

// A disk with so many bytes free is asked for a reserve only so often: each asking holds the writer up for a
// moment.
inline constexpr int64_t kPlenty = int64_t{4} << 30;
inline constexpr absl::Duration kReserveEvery = absl::Milliseconds(100);
inline constexpr int64_t kReserve = int64_t{1} << 20;        // bytes beyond a file's end
inline constexpr int64_t kFullReserve = int64_t{16} << 20;   // of what a full disk's file gave up
inline constexpr int64_t kLeastReserve = int64_t{64} << 10;  // less than that is no room

class BoundedFile {
 public:
  // fd: readable and writable. max_bytes: 0: no bound but the disk.
  BoundedFile(OwnedFd fd, std::string path, int64_t max_bytes);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // What happened to the bytes of the file; readers move with it.
  struct Change {
    int64_t size = -1;     // of the file now; -1: unknown, and nothing was done
    int64_t removed = 0;   // bytes taken out of the front: what was at this offset is at 0 now
    int64_t readable = 0;  // nothing is left before this offset
  };
  // Brings the file within its bounds. A failure of the file system is said by the status, once each kind, and the
  // change holds all the same.
  Change Keep(BootTime now, absl::Status* trouble);

  // Reserves the first room. Errors: the disk has none.
  absl::Status Reserve();
  // Nobody writes any more: gives the reserve back.
  void Release();

  bool on_full_disk() const { return full_; }

 private:
  int64_t DropFront(int64_t size, int64_t keep, absl::Status* trouble);
  bool TryReserve(int64_t size, int64_t bytes);
  void KeepReserve(Change* change, absl::Status* trouble);
  bool HasPlenty() const;

  OwnedFd fd_;
  const std::string path_;
  const int64_t max_bytes_;
  int64_t block_ = 4096;  // of the file system
  int64_t hole_end_ = 0;  // what is before it was freed in place
  int64_t reserved_end_ = 0;
  BootTime reserve_at_ = absl::InfinitePast();
  bool reserved_ = false;  // something lies beyond the end, or may
  bool can_collapse_ = true;
  bool can_punch_ = true;
  bool can_reserve_ = true;
  bool full_ = false;
};

}  // namespace muster::host
