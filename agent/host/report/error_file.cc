#include "agent/host/report/error_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/host/core/host_core.h"
#include "base/core/status_macros.h"
#include "base/io/bounded_call.h"
#include "base/io/temporary_folder.h"
#include "base/io/thread.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster::host {
namespace {

constexpr size_t kMaxShownBytes = 200;  // of a malformed file's first line
constexpr int64_t kMaxTimestamp = 100'000'000'000;
constexpr absl::Duration kRemoveLimit = absl::Milliseconds(500);  // for removing the files when the host ends

WorkerError Malformed(const std::string& what, const std::string& content) {
  const std::string line = ToUtf8(content.substr(0, content.find('\n')), kMaxShownBytes);
  return {.message = "the error file " + what + (line.empty() ? "" : ": " + line),
          .callstack = "",
          .failed_at_s = {},
          .written_at = {}};
}

std::optional<int64_t> TimestampOf(const nlohmann::json& object) {
  if (!object.is_object() || !object.contains("timestamp")) return std::nullopt;
  const nlohmann::json& stamp = object["timestamp"];
  double seconds = 0;
  if (stamp.is_number()) seconds = stamp.get<double>();
  if (stamp.is_string() && !absl::SimpleAtod(stamp.get<std::string>(), &seconds)) return std::nullopt;
  if (!(seconds > 0) || seconds > static_cast<double>(kMaxTimestamp)) return std::nullopt;
  return static_cast<int64_t>(seconds);
}

// Keeps the first line, which says what it is, and the last lines, which say where it happened.
std::string Shortened(const std::string& callstack) {
  if (callstack.size() <= kMaxErrorText) return callstack;
  constexpr size_t kMaxFirstLine = 100;
  const std::string first = ToUtf8(callstack.substr(0, callstack.find('\n')), kMaxFirstLine) + "\n  [...]\n";
  std::string end = CutUtf8Front(callstack, kMaxErrorText - first.size());
  const size_t line = end.find('\n');
  if (line != std::string::npos && line + 1 < end.size()) end.erase(0, line + 1);
  return first + end;
}

std::string PathIn(const std::string& folder, int local_rank) {
  return folder + "/error-" + std::to_string(local_rank) + ".json";
}

std::string DonePathIn(const std::string& folder, int local_rank) {
  return folder + "/done-" + std::to_string(local_rank);
}

std::string HeartbeatPathIn(const std::string& folder, int local_rank) {
  return folder + "/heartbeat-" + std::to_string(local_rank);
}

void RemoveFiles(const std::string& folder, int files) {
  std::error_code error;  // a worker may have put a folder there
  for (int i = 0; i < files; ++i) {
    std::filesystem::remove_all(PathIn(folder, i), error);
    std::filesystem::remove_all(DonePathIn(folder, i), error);
    std::filesystem::remove_all(HeartbeatPathIn(folder, i), error);
  }
}

}  // namespace

WorkerError ParseErrorFile(const std::string& content) {
  if (content.empty()) return Malformed("is empty", content);
  const auto json = nlohmann::json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Malformed("is not JSON", content);
  if (!json.is_object() || !json.contains("message")) return Malformed("has no \"message\"", content);
  const nlohmann::json& message = json["message"];
  WorkerError error;
  if (message.is_string()) {
    error.message = CutUtf8(message.get<std::string>(), kMaxErrorText);
    error.failed_at_s = TimestampOf(json);
    return error;
  }
  if (!message.is_object()) return Malformed("has a \"message\" that is no text", content);
  const auto extra = message.find("extraInfo");
  if (extra != message.end()) {
    error.failed_at_s = TimestampOf(*extra);
    const auto stack = extra->is_object() ? extra->find("py_callstack") : extra->end();
    if (stack != extra->end() && stack->is_string()) error.callstack = Shortened(stack->get<std::string>());
  }
  const auto text = message.find("message");
  if (text != message.end() && text->is_string()) error.message = CutUtf8(text->get<std::string>(), kMaxErrorText);
  if (error.message.empty()) error.message = CutUtf8(LastLine(error.callstack), kMaxErrorText);
  if (error.message.empty()) return Malformed("says nothing in its \"message\"", content);
  return error;
}

std::optional<WorkerError> ReadErrorFile(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ENOENT) return std::nullopt;
    return Malformed(std::string("cannot be read: ") + std::strerror(errno), "");
  }
  std::string content(kMaxErrorFileBytes + 1, '\0');
  size_t size = 0;
  ssize_t got = 1;
  while (size < content.size() && (got = read(fd, content.data() + size, content.size() - size)) > 0) {
    size += static_cast<size_t>(got);
  }
  const int error = got < 0 ? errno : 0;
  struct stat info = {};
  const bool dated = fstat(fd, &info) == 0 && info.st_mtim.tv_nsec != 0;  // 0: the file system keeps whole seconds
  close(fd);
  if (error != 0) return Malformed(std::string("cannot be read: ") + std::strerror(error), "");
  content.resize(size);
  if (size > kMaxErrorFileBytes) {
    return Malformed("is longer than " + std::to_string(kMaxErrorFileBytes) + " bytes", content);
  }
  WorkerError parsed = ParseErrorFile(content);
  if (dated) parsed.written_at = absl::TimeFromTimespec(info.st_mtim);
  return parsed;
}

std::optional<absl::Time> ModifiedAt(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return absl::TimeFromTimespec(info.st_mtim);
}

bool FileExists(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0;
}

ErrorFiles::~ErrorFiles() {
  if (folder_ == nullptr) return;
  (void)CallWithin(kRemoveLimit, [folder = folder_] {
    folder->Remove();
    return true;
  });
}

absl::Status ErrorFiles::BeginRound(int slots, absl::Duration limit) {
  if (gave_up_) return absl::OkStatus();
  files_ = std::max(files_, slots);
  const bool first = folder_ == nullptr;
  using Folder = std::shared_ptr<ScratchFolder>;
  const auto folder = CallWithin(limit, [folder = folder_, files = files_]() -> absl::StatusOr<Folder> {
    if (folder == nullptr) {
      ASSIGN_OR_RETURN(ScratchFolder made, ScratchFolder::Make());
      return std::make_shared<ScratchFolder>(std::move(made));
    }
    RemoveFiles(folder->path(), files);
    return folder;
  });
  gave_up_ = !folder || !folder->ok();
  if (!folder) {
    return absl::DeadlineExceededError(absl::StrCat("the file system of ", TemporaryFolder(), " does not answer"));
  }
  RETURN_IF_ERROR(folder->status());
  folder_ = **folder;
  if (first) {  // in the background, so that the workers' start does not wait for it
    if (auto thread = StartThread([] { RemoveAbandonedFolders(); }); thread.ok()) thread->detach();
  }
  return absl::OkStatus();
}

std::string ErrorFiles::PathOf(int local_rank) const {
  return gave_up_ || folder_ == nullptr ? "" : PathIn(folder_->path(), local_rank);
}

std::string ErrorFiles::DonePathOf(int local_rank) const {
  return gave_up_ || folder_ == nullptr ? "" : DonePathIn(folder_->path(), local_rank);
}

std::string ErrorFiles::HeartbeatPathOf(int local_rank) const {
  return gave_up_ || folder_ == nullptr ? "" : HeartbeatPathIn(folder_->path(), local_rank);
}

}  // namespace muster::host
