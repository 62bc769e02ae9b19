#include "agent/host/output/log_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/io/temporary_folder.h"
#include "base/status_macros.h"

namespace muster::host {
namespace {

constexpr mode_t kFolderMode = 0777;  // reduced by the umask
constexpr int kMaxNames = 1000;       // names to try for one attempt's folder

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), kFolderMode) != 0) return absl::ErrnoToStatus(errno, "making the folder " + path);
  return absl::OkStatus();
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
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  std::error_code unknown;
  if (error && !std::filesystem::is_directory(parent, unknown)) {
    return absl::UnavailableError("making the folder " + parent + ": " + error.message());
  }
  ASSIGN_OR_RETURN(const std::string folder, MakeFolderIn(parent, PathSafe(run_id_) + "_"));
  run_folder_ = std::filesystem::absolute(folder, error).string();
  if (error) run_folder_ = folder;
  return absl::OkStatus();
}

absl::Status LogFiles::MakeAttempt(uint32_t restart_count, int slots) {
  attempt_.clear();
  if (run_folder_.empty()) RETURN_IF_ERROR(MakeRunFolder());
  const std::string attempt = "/attempt_" + std::to_string(restart_count);
  std::string name = run_folder_ + attempt;
  std::string folder = name;
  // A restart count repeats only if a coordinator has lost its state. The older files are kept even then.
  bool made_again = false;
  for (int i = 2; mkdir(folder.c_str(), kFolderMode) != 0; ++i) {
    if (errno == ENOENT && !std::exchange(made_again, true)) {  // the run folder was deleted meanwhile
      RETURN_IF_ERROR(MakeRunFolder());
      name = folder = run_folder_ + attempt;
      continue;
    }
    if (errno != EEXIST || i > kMaxNames) return absl::ErrnoToStatus(errno, "making the folder " + folder);
    folder = name + "_" + std::to_string(i);
  }
  for (int local_rank = 0; local_rank < slots; ++local_rank) {
    RETURN_IF_ERROR(MakeFolder(folder + "/" + std::to_string(local_rank)));
  }
  attempt_ = std::move(folder);
  return absl::OkStatus();
}

}  // namespace muster::host
