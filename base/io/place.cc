#include "base/io/place.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace muster {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel allows

bool IsInProc(int folder) {
  struct statfs about {};
  return fstatfs(folder, &about) == 0 && about.f_type == PROC_SUPER_MAGIC;
}

bool OwnsFolder(uid_t user, int folder) {
  struct stat info {};
  return fstat(folder, &info) == 0 && info.st_uid == user;
}

// One walk along a path, from folder to folder. Returns errno; 0: no error.
class Walk {
 public:
  Walk(const std::string& path, Links checked, Place* place) : checked_(checked), place_(*place), rest_(path) {}

  int Run() {
    for (int links = 0; links < kMaxLinks; ++links) {
      if (const int error = GoToLink(); error != 0) return error;
      if (!link_.valid()) return 0;
      place_.is_foreign_link = !MayFollow();
      place_.is_open_file = rest_.empty() && IsInProc(from());
      if (place_.is_foreign_link || place_.is_open_file) return 0;
      if (const int error = Follow(); error != 0) return error;
    }
    return Failed("following", ELOOP);
  }

 private:
  int Failed(const char* doing, int error = errno) {
    place_.doing = doing;
    return error;
  }

  int from() const { return place_.folder.valid() ? place_.folder.get() : AT_FDCWD; }

  int Enter(const std::string& folder, int links) {
    OwnedFd next(openat(from(), folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | links));
    if (!next.valid()) return Failed("opening the folder of");
    place_.folder = std::move(next);
    return 0;
  }

  // Enters what need not be checked: the root, or all folders of the rest.
  int EnterUnchecked() {
    const size_t end = checked_ == Links::kAtTheEnd ? rest_.rfind('/') + 1 : rest_.find_first_not_of('/');
    const std::string folders = rest_.substr(0, end);
    rest_.erase(0, folders.size());
    if (folders.empty()) return place_.folder.valid() ? 0 : Enter(".", 0);
    if (rest_.empty()) rest_ = ".";
    return Enter(folders, 0);
  }

  // Moves the first part of the rest to place_.name. What has a slash behind it is a folder.
  void TakePart() {
    const size_t end = std::min(rest_.find('/'), rest_.size());
    place_.name = rest_.substr(0, end);
    const bool is_folder = end < rest_.size();
    rest_.erase(0, std::min(rest_.find_first_not_of('/', end), rest_.size()));
    if (is_folder && rest_.empty()) rest_ = ".";
  }

  // Goes on to the end of the path or to a link, which link_ is then. A folder is opened as one, because that
  // mounts what is mounted on demand (autofs).
  int GoToLink() {
    link_.Reset();
    if (const int error = EnterUnchecked(); error != 0) return error;
    do {
      TakePart();
    } while (!rest_.empty() && Enter(place_.name, O_NOFOLLOW) == 0);
    return Look();
  }

  // The descriptor is of the link itself: what is checked is what is followed.
  int Look() {
    OwnedFd part(openat(from(), place_.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    place_.there = part.valid();
    if (!place_.there) return errno == ENOENT && rest_.empty() ? 0 : Failed("looking at");
    struct stat info {};
    if (fstat(part.get(), &info) != 0) return Failed("looking at");
    place_.mode = info.st_mode;
    place_.owner = info.st_uid;
    if (S_ISLNK(info.st_mode)) link_ = std::move(part);
    return rest_.empty() || link_.valid() ? 0 : Failed("looking at", ENOTDIR);
  }

  bool MayFollow() const {
    return IsTrusted(place_.owner) || (!rest_.empty() && OwnsFolder(place_.owner, from()));
  }

  // Puts the link's target before the rest. The kernel follows those of /proc, which nobody can exchange.
  int Follow() {
    if (IsInProc(from())) return Enter(place_.name, 0);
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlinkat(link_.get(), "", target.data(), target.size());
    if (size < 0) return Failed("reading the link");
    target.resize(static_cast<size_t>(size));
    rest_ = rest_.empty() ? target : target + "/" + rest_;
    return 0;
  }

  const Links checked_;
  Place& place_;      // its folder is where the walk has come
  std::string rest_;  // of the path, from there
  OwnedFd link_;
};

}  // namespace

bool IsTrusted(uid_t owner) { return owner == geteuid() || owner == 0; }

int FindPlace(const std::string& path, Links checked, Place* place) { return Walk(path, checked, place).Run(); }

OwnedFd OpenPlace(const Place& place, int flags, mode_t mode) {
  const int links = place.is_open_file ? 0 : O_NOFOLLOW;
  return OwnedFd(
      openat(place.folder.get(), place.name.c_str(), flags | links | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
}

}  // namespace muster
