#include "agent/host/job_end.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "agent/host/line_assembler.h"
#include "agent/host/log.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "proto/base/thread.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

absl::Status WriteAll(int fd, const std::string& path, const std::string& content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t put = write(fd, content.data() + done, content.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return absl::ErrnoToStatus(errno, absl::StrCat("writing ", path));
    done += static_cast<size_t>(put);
  }
  return absl::OkStatus();
}

// What is to be written, and how far it has come; shared with the thread, which a file system may keep for ever.
struct Task {
  std::vector<std::pair<std::string, std::function<absl::Status()>>> writes;  // path first
  Mutex mutex;
  Condition done;
  size_t finished ABSL_GUARDED_BY(mutex) = 0;
  std::vector<std::string> problems ABSL_GUARDED_BY(mutex);

  void Run() {
    for (const auto& [path, call] : writes) {
      const absl::Status status = call();
      const MutexLock lock(mutex);
      if (!status.ok()) {
        problems.push_back(absl::StrCat("how the job ended is not told in ", path, ": ", status.message()));
      }
      ++finished;
      done.NotifyAll();
    }
  }
};

}  // namespace

absl::Status OverwriteFile(const std::string& path, const std::string& content) {
  const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("opening ", path));
  const absl::Cleanup closer = [fd] { close(fd); };
  return WriteAll(fd, path, content);
}

absl::Status FillFile(const std::string& path, const std::string& content) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("opening ", path));
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat info = {};
  const bool said = fstat(fd, &info) == 0 && info.st_size > 0;
  return said ? absl::OkStatus() : WriteAll(fd, path, content);
}

absl::Status ReplaceFile(const std::string& path, const std::string& content) {
  struct stat info = {};
  const bool there = stat(path.c_str(), &info) == 0;
  if (there && !S_ISREG(info.st_mode)) return OverwriteFile(path, content);
  std::string target = path;
  if (there) {  // the file that a link leads to, not the link
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
    if (real != nullptr) target = real.get();
  }
  // Random: nodes in containers may share the folder, and have the same pid.
  const std::string beside = absl::StrCat(target, ".", absl::Hex(std::random_device{}()), ".tmp");
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("making ", beside));
  absl::Status status = WriteAll(fd, beside, content);
  if (close(fd) != 0 && status.ok()) status = absl::ErrnoToStatus(errno, absl::StrCat("writing ", beside));
  if (status.ok() && rename(beside.c_str(), target.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("renaming ", beside, " to ", target));
  }
  if (!status.ok()) unlink(beside.c_str());
  return status;
}

std::string ReportPath(const std::string& pattern, const JobEnd& end) {
  std::string node = end.place ? absl::StrCat(*end.place) : "none";
  if (end.last.has_node_rank()) node = absl::StrCat(end.last.node_rank());
  return Expand(pattern, {{"node_rank", std::move(node)}, {"hostname", end.host}});
}

void WriteReports(const ReportPlan& plan, const JobEnd& end) {
  const auto task = std::make_shared<Task>();
  const auto add = [&task](const std::string& path, std::string content, const auto& how) {
    if (path.empty() || content.empty()) return;
    task->writes.emplace_back(path, [path, content = std::move(content), how] { return how(path, content); });
  };
  add(ReportPath(plan.report_file, end), ReportJson(end), ReplaceFile);
  add(plan.error_file, ErrorFileJson(end), ReplaceFile);
  add(plan.failure_file, FailureFileText(end), FillFile);
  add(plan.termination_log, TerminationMessage(end), OverwriteFile);
  if (task->writes.empty()) return;
  absl::StatusOr<std::thread> thread = StartThread([task] { task->Run(); });
  if (!thread.ok()) {
    Log(Severity::kWarning, kPart, absl::StrCat("no report is written: ", thread.status().message()));
    return;
  }
  thread->detach();
  const MutexLock lock(task->mutex);
  const bool all = task->done.WaitFor(
      task->mutex, absl::ToChronoNanoseconds(kReportLimit),
      [&task]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(task->mutex) { return task->finished == task->writes.size(); });
  for (const std::string& problem : task->problems) Log(Severity::kWarning, kPart, problem);
  if (!all) {
    Log(Severity::kWarning, kPart,
        absl::StrCat(task->writes[task->finished].first, " was not written within ",
                     absl::FormatDuration(kReportLimit)));
  }
}

}  // namespace muster::host
