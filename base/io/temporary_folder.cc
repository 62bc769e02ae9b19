#include "base/io/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/status_macros.h"

namespace muster {
namespace {

constexpr char kUsualFolder[] = "/tmp";
constexpr int kMaxTries = 10;        // another process may take the new folder for an abandoned one
constexpr int kMaxAbandoned = 1000;  // folders removed by one call
constexpr size_t kBootIdLength = 8;  // characters of the boot id in the names
constexpr size_t kRandomLength = 6;  // mkdtemp's

// "muster-1f3a9c2e-": names the current boot of this machine.
std::string NameOfScratch() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return "muster-" + boot_id.substr(0, kBootIdLength) + "-";
}

enum class Lock { kLocked, kHeldByAnother, kGone, kUnknown };  // kUnknown: this file system has no locks

Lock TryLock(const std::string& path, OwnedFd* lock) {
  lock->Reset(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock->valid()) return Lock::kGone;
  if (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Lock::kHeldByAnother : Lock::kUnknown;
  }
  struct stat now {};
  const bool ours = fstat(lock->get(), &now) == 0 && now.st_nlink > 0 && now.st_uid == geteuid();
  return ours ? Lock::kLocked : Lock::kGone;
}

// With everything in it: a worker may have put a folder where its file was expected. Links are not followed. What
// is removed is in the folder that is open, whatever has its name by now.
void RemoveWithContent(const std::string& path, int folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd/" + std::to_string(folder), error), end;
  for (; !error && entries != end; entries.increment(error)) {
    std::error_code one;
    std::filesystem::remove_all(entries->path(), one);
  }
  rmdir(path.c_str());
}

bool IsOurs(const std::filesystem::directory_entry& entry, const std::string& name) {
  const std::string found = entry.path().filename().string();
  struct stat about {};
  return found.starts_with(name) && found.size() == name.size() + kRandomLength &&
         lstat(entry.path().c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid();
}

void RemoveAbandonedFoldersIn(const std::string& parent) {
  const std::string name = NameOfScratch();
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entries(parent, error), end;
  for (; !error && entries != end && found.size() < kMaxAbandoned; entries.increment(error)) {
    if (IsOurs(*entries, name)) found.push_back(entries->path().string());
  }
  for (const std::string& path : found) {
    OwnedFd lock;
    if (TryLock(path, &lock) == Lock::kLocked) RemoveWithContent(path, lock.get());
  }
}

}  // namespace

std::string TemporaryFolder() {
  const char* const folder = std::getenv("TMPDIR");
  if (folder == nullptr || *folder == '\0') return kUsualFolder;
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(folder, error).string();
  return error ? folder : absolute;
}

absl::StatusOr<std::string> MakeFolderIn(const std::string& parent, const std::string& name) {
  std::string path = parent + "/" + name + std::string(kRandomLength, 'X');  // mkdtemp replaces the Xs
  if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, "creating a folder in " + parent);
  return path;
}

namespace {

// In $TMPDIR, which is made if it is missing; or, as Python does, in /tmp if that cannot be used.
absl::StatusOr<std::string> MakeScratch(const std::string& name) {
  const std::string parent = TemporaryFolder();
  absl::StatusOr<std::string> path = MakeFolderIn(parent, name);
  if (path.ok() || parent == kUsualFolder) return path;
  if (absl::IsNotFound(path.status())) {
    std::error_code ignored;  // the next try tells; false without an error: another process has just made it
    std::filesystem::create_directories(parent, ignored);
    path = MakeFolderIn(parent, name);
  }
  if (path.ok()) return path;
  absl::StatusOr<std::string> usual = MakeFolderIn(kUsualFolder, name);
  return usual.ok() ? usual : path;  // the error names the folder that was asked for
}

}  // namespace

absl::StatusOr<ScratchFolder> ScratchFolder::Make() {
  const std::string name = NameOfScratch();
  for (int i = 0; i < kMaxTries; ++i) {
    ASSIGN_OR_RETURN(std::string path, MakeScratch(name));
    OwnedFd lock;
    const Lock found = TryLock(path, &lock);
    if (found == Lock::kLocked || found == Lock::kUnknown) return ScratchFolder(std::move(path), std::move(lock));
    rmdir(path.c_str());  // another process took it for an abandoned folder before it was locked
  }
  return absl::UnavailableError("no folder in " + TemporaryFolder() + " could be locked");
}

void ScratchFolder::Remove() const { RemoveWithContent(path_, lock_.get()); }

void RemoveAbandonedFolders() {
  const std::string parent = TemporaryFolder();
  RemoveAbandonedFoldersIn(parent);
  if (parent != kUsualFolder) RemoveAbandonedFoldersIn(kUsualFolder);
}

}  // namespace muster
