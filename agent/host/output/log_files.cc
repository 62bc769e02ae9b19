#include "agent/host/output/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/core/status_macros.h"
#include "base/io/temporary_folder.h"
#include "base/io/whole_file.h"

namespace muster::host {
namespace {

constexpr mode_t kFolderMode = 0777;  // reduced by the umask
constexpr mode_t kFileMode = 0666;    // so is this
constexpr int kMaxNames = 1000;       // names to try for one attempt's folder

// The folder that was just made at this path, and nothing that has been put in its place.
absl::StatusOr<OwnedFd> OpenOwn(const std::string& path) {
  OwnedFd folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!folder.valid() || fstat(folder.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, "opening the folder " + path);
  }
  if (info.st_uid == geteuid()) return folder;
  return absl::PermissionDeniedError("another user has just replaced the folder " + path);
}

bool LeadsTo(const std::string& path, int folder) {
  struct stat there {
  }, held{};
  return lstat(path.c_str(), &there) == 0 && fstat(folder, &held) == 0 && there.st_dev == held.st_dev &&
         there.st_ino == held.st_ino;
}

}  // namespace

std::string PathSafe(std::string_view run_id) {
  std::string safe(run_id.substr(0, kMaxRunIdInPath));
  for (char& c : safe) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '/') c = '_';
  }
  if (safe.empty()) return "none";
  if (safe.front() == '.') safe.front() = '_';
  return safe;
}

LogFiles::LogFiles(std::string log_dir, std::string run_id)
    : log_dir_(std::move(log_dir)), run_id_(std::move(run_id)) {}

absl::Status LogFiles::MakeRunFolder() {
  const std::string parent = log_dir_.empty() ? TemporaryFolder() : log_dir_;
  RETURN_IF_ERROR(CheckLink(parent));
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  std::error_code unknown;
  if (error && !std::filesystem::is_directory(parent, unknown)) {
    return absl::UnavailableError("making the folder " + parent + ": " + error.message());
  }
  ASSIGN_OR_RETURN(const std::string folder, MakeFolderIn(parent, PathSafe(run_id_) + "_"));
  run_folder_ = std::filesystem::absolute(folder, error).string();
  if (error) run_folder_ = folder;
  ASSIGN_OR_RETURN(run_, OpenOwn(run_folder_));
  return absl::OkStatus();
}

absl::Status LogFiles::MakeAttempt(uint32_t restart_count, int slots) {
  attempt_.clear();
  // The run's folder may have been deleted or renamed meanwhile.
  if (!LeadsTo(run_folder_, run_.get())) RETURN_IF_ERROR(MakeRunFolder());
  const std::string first = "attempt_" + std::to_string(restart_count);
  std::string name = first;
  // A restart count repeats only if a coordinator has lost its state. The older files are kept even then.
  for (int i = 2; mkdirat(run_.get(), name.c_str(), kFolderMode) != 0; ++i) {
    if (errno != EEXIST || i > kMaxNames) return MakingFailed(name);
    name = first + "_" + std::to_string(i);
  }
  for (int local_rank = 0; local_rank < slots; ++local_rank) {
    const std::string own = name + "/" + std::to_string(local_rank);
    if (mkdirat(run_.get(), own.c_str(), kFolderMode) != 0) return MakingFailed(own);
  }
  attempt_name_ = std::move(name);
  attempt_ = run_folder_ + "/" + attempt_name_;
  return absl::OkStatus();
}

absl::StatusOr<OwnedFd> LogFiles::Open(const std::string& name, int flags) const {
  OwnedFd fd(openat(run_.get(), (attempt_name_ + "/" + name).c_str(), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                    kFileMode));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "opening " + attempt_ + "/" + name);
  return fd;
}

absl::Status LogFiles::MakingFailed(const std::string& name) const {
  return absl::ErrnoToStatus(errno, "making the folder " + run_folder_ + "/" + name);
}

}  // namespace muster::host
