#include "agent/host/report/job_end.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/console/line_assembler.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/io/bounded_call.h"
#include "base/io/mutex.h"
#include "base/io/thread.h"
#include "base/io/whole_file.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr absl::Duration kFolderAnswers = absl::Seconds(2);

}  // namespace

std::vector<StreamFile> OwnStreams() {
  std::vector<StreamFile> streams;
  // Standard error comes first, because muster's own lines go there: if both streams lead to one file, the report
  // follows those lines.
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    struct stat info = {};
    if (fstat(fd, &info) == 0) streams.push_back({fd, info.st_dev, info.st_ino});
  }
  return streams;
}

std::optional<int> StreamAt(const std::string& path, const std::vector<StreamFile>& streams) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  for (const StreamFile& stream : streams) {
    if (stream.device == info.st_dev && stream.inode == info.st_ino) return stream.fd;
  }
  return std::nullopt;
}

std::string ReportPath(const std::string& pattern, const JobEnd& end) {
  std::string node = end.place ? absl::StrCat(*end.place) : "none";
  if (end.last.has_node_rank()) node = absl::StrCat(end.last.node_rank());
  return Expand(pattern, {{"node_rank", std::move(node)}, {"hostname", end.host}});
}

// The reports to write, and their progress.
struct Reports::Task {
  using Write = absl::Status (*)(const std::string& path, const std::string& content);
  struct Report {
    std::string path;
    std::string content;
    std::string for_stream;  // the content if the path leads to a stream, where other lines surround it
    Write write;
  };

  void Run();
  bool all_finished() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return finished == reports.size(); }

  // Constant once the thread has started.
  std::vector<Report> reports;
  std::vector<StreamFile> outer_streams;
  std::string stream_mark;
  bool silent_on_streams = false;

  Mutex mutex;
  Condition done;
  size_t finished ABSL_GUARDED_BY(mutex) = 0;
  Result result ABSL_GUARDED_BY(mutex);
};

void Reports::Task::Run() {
  std::vector<StreamFile> streams = OwnStreams();
  streams.insert(streams.end(), outer_streams.begin(), outer_streams.end());
  for (const Report& report : reports) {
    const std::optional<int> stream = StreamAt(report.path, streams);
    const absl::Status status = stream ? absl::OkStatus() : report.write(report.path, report.content);
    const MutexLock lock(mutex);
    if (stream && !silent_on_streams) {
      result.for_streams.emplace_back(*stream, absl::StrCat(stream_mark, report.for_stream));
    }
    if (!status.ok()) {
      result.problems.push_back(absl::StrCat("the report ", report.path, " was not written: ", status.message()));
    }
    ++finished;
    done.NotifyAll();
  }
}

Reports::Reports(const ReportPlan& plan, const JobEnd& end) : task_(std::make_shared<Task>()) {
  const auto add = [this](const std::string& path, const std::string& content, Task::Write write,
                          const std::string& for_stream = "") {
    if (path.empty() || content.empty()) return;
    task_->reports.push_back({path, content, for_stream.empty() ? content : for_stream, write});
  };
  add(plan.result_file, ResultJson(plan.host_id, plan.pod, end.exit_code),
      ReplaceFile);  // first: another file may hang
  add(ReportPath(plan.report_file, end), ReportJson(end), ReplaceFile, ReportJson(end, JsonLayout::kOneLine));
  add(plan.error_file, ErrorFileJson(end), ReplaceFile);
  add(plan.failure_file, FailureFileText(end), FillFile);
  add(plan.termination_log, TerminationMessage(end), OverwriteFile);
  if (task_->reports.empty()) return;
  task_->outer_streams = plan.outer_streams;
  task_->stream_mark = plan.stream_mark;
  task_->silent_on_streams = plan.told_elsewhere;
  absl::StatusOr<std::thread> thread = StartThread([task = task_] { task->Run(); });
  if (thread.ok()) {
    thread->detach();
    return;
  }
  const MutexLock lock(task_->mutex);
  task_->result.problems.push_back(absl::StrCat("no report file is written: ", thread.status().message()));
  task_->finished = task_->reports.size();
}

bool Reports::Await(absl::Duration limit) {
  Task& task = *task_;
  const MutexLock lock(task.mutex);
  return task.done.WaitFor(task.mutex, absl::ToChronoNanoseconds(limit),
                           [&task]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(task.mutex) { return task.all_finished(); });
}

Reports::Result Reports::Take() {
  const MutexLock lock(task_->mutex);
  Result result = std::exchange(task_->result, {});
  if (!task_->all_finished()) {
    result.problems.push_back(absl::StrCat("the report ", task_->reports[task_->finished].path,
                                           " was not written: its file system did not answer in time"));
  }
  return result;
}

absl::Status CheckReportFolder(const std::string& pattern) {
  const size_t slash = pattern.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : pattern.substr(0, slash);
  if (pattern.empty() || absl::StrContains(folder, "$")) return absl::OkStatus();
  const auto checked = CallWithin(kFolderAnswers, [pattern, folder]() -> absl::Status {
    struct stat info = {};
    if (stat(pattern.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
      return absl::OkStatus();  // /dev/stdout and the like
    }
    if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(pattern, " is a folder"));
    if (stat(folder.c_str(), &info) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the folder ", folder, ": ", std::strerror(errno)));
    }
    if (!S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(folder, " is no folder"));
    if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the folder ", folder, ": ", std::strerror(errno)));
  });
  return checked.value_or(absl::OkStatus());
}

void WriteReports(const ReportPlan& plan, const JobEnd& end) {
  Reports reports(plan, end);
  (void)reports.Await(kReportLimit);
  const Reports::Result result = reports.Take();
  for (const auto& [fd, text] : result.for_streams) (void)WriteAll(fd, "a stream", text);
  for (const std::string& problem : result.problems) Log(Severity::kWarning, kPart, problem);
}

}  // namespace muster::host
