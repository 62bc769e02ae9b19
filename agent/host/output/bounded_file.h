// Bounds the size of a file that another process appends to. The file loses its oldest bytes when it exceeds a
// size, and also when its disk is full, so that the writer does not fail.
//
// The writer's descriptor stays valid. Where the file system can remove blocks from a file's front (ext4, XFS),
// the file gets shorter; where it can only free them (tmpfs, Btrfs), the file keeps its size with a hole at the
// front; where it can do neither, the file grows. Some space beyond the file's end is kept reserved, so that a
// full disk is noticed here before a write fails.
//
// Thread-compatible. Blocks as long as the file system does.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/io/owned_fd.h"
#include "base/time.h"

namespace muster::host {

// On a disk with at least kPlenty bytes free, the reserve is renewed only every kReserveEvery, because each
// renewal delays the writer a little.
inline constexpr int64_t kPlenty = int64_t{4} << 30;
inline constexpr absl::Duration kReserveEvery = absl::Milliseconds(100);
inline constexpr int64_t kReserve = int64_t{1} << 20;  // bytes reserved beyond a file's end
inline constexpr int64_t kFullReserve = int64_t{16}
                                        << 20;  // the same on a full disk, from bytes that were dropped
inline constexpr int64_t kLeastReserve = int64_t{64} << 10;  // a smaller reserve counts as a full disk

class BoundedFile {
 public:
  // fd: readable and writable. max_bytes: size limit; 0: only the disk limits it.
  BoundedFile(OwnedFd fd, std::string path, int64_t max_bytes);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // How the file changed; readers adjust their offsets.
  struct Change {
    int64_t size = -1;     // size of the file now; -1: unknown, and nothing was done
    int64_t removed = 0;   // bytes removed from the front: the byte at this offset is now at offset 0
    int64_t readable = 0;  // bytes before this offset are gone
  };
  // Brings the file within its bounds. *trouble is set on a failure of the file system, once for each kind of
  // failure; the returned change is valid in any case.
  Change Keep(BootTime now, absl::Status* trouble);

  // Makes the first reserve. Errors: the disk is full.
  absl::Status Reserve();
  // Frees the reserve once nothing writes to the file any more.
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
  int64_t block_ = 4096;  // block size of the file system
  int64_t hole_end_ = 0;  // bytes before this offset were freed in place
  int64_t reserved_end_ = 0;
  BootTime reserve_at_ = absl::InfinitePast();
  bool reserved_ = false;  // blocks may be reserved beyond the end
  bool can_collapse_ = true;
  bool can_punch_ = true;
  bool can_reserve_ = true;
  bool full_ = false;
};

}  // namespace muster::host
