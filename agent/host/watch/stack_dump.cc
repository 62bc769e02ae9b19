#include "agent/host/watch/stack_dump.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/memory_file.h"
#include "base/proc/proc_scan.h"
#include "base/stacks/faulthandler.h"

namespace muster::host {
namespace {

constexpr char kFileName[] = "muster-stacks";

// Whether this descriptor of the worker leads to our file. The link's text comes first: to look at a file of the
// script's would wait for its file system.
bool HasFile(pid_t worker, int file) {
  const std::string path = absl::StrCat("/proc/", worker, "/fd/", kStacksFd);
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  if (length <= 0) return false;
  if (!absl::StartsWith(absl::string_view(target, static_cast<size_t>(length)),
                        absl::StrCat("/memfd:", kFileName))) {
    return false;
  }
  struct stat ours {
  }, theirs{};
  return fstat(file, &ours) == 0 && stat(path.c_str(), &theirs) == 0 && ours.st_ino == theirs.st_ino &&
         ours.st_dev == theirs.st_dev;
}

std::string Read(int file, off_t size) {
  std::string text(std::min(static_cast<size_t>(size), kMaxFaulthandlerBytes), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace

int StacksSignal() { return SIGRTMAX - 2; }

absl::StatusOr<OwnedFd> MakeStacksFile() {
  ASSIGN_OR_RETURN(OwnedFd file, MemoryFile(kFileName, ""));
  if (fcntl(file.get(), F_SETFL, O_APPEND) != 0) return absl::ErrnoToStatus(errno, "having a file appended to");
  return file;
}

StackDump::StackDump(std::shared_ptr<const OwnedFd> file, pid_t worker, BootTime now)
    : file_(std::move(file)),
      worker_(worker),
      time_before_(ProcessorTimeOfSleeper(worker)),
      begun_at_(now),
      grew_at_(now) {}

absl::Status StackDump::Ask() const {
  if (!HasFile(worker_, file_->get())) {
    return absl::FailedPreconditionError("it has closed its descriptor for stacks");
  }
  // The signal's default action would end the worker; a blocked one would reach the program that it executes next.
  if (!TakesSignal(worker_, StacksSignal())) {
    return absl::FailedPreconditionError("it does not take the signal for its stack");
  }
  if (ftruncate(file_->get(), 0) != 0) return absl::ErrnoToStatus(errno, "emptying the file for its stack");
  // Last, right before the signal.
  if (!time_before_ || ProcessorTimeOfSleeper(worker_) != time_before_) {
    return absl::UnavailableError("its main thread does not wait, so that a signal for its stack could end it");
  }
  // To its first thread, whose stack it is.
  if (syscall(SYS_tgkill, worker_, worker_, StacksSignal()) != 0) {
    return absl::ErrnoToStatus(errno, "asking for its stack");
  }
  return absl::OkStatus();
}

std::optional<StackDump::Answer> StackDump::Poll(BootTime now) {
  if (!asked_) {
    if (now - begun_at_ < kMustWait) return std::nullopt;
    if (const absl::Status asked = Ask(); !asked.ok()) return asked;
    asked_ = true;
  }
  struct stat file {};
  if (fstat(file_->get(), &file) != 0) return absl::ErrnoToStatus(errno, "reading its stack");
  if (file.st_size != size_) {
    size_ = file.st_size;
    grew_at_ = now;
  }
  const bool is_late = now - begun_at_ >= kStackDumpLimit;
  if (!is_late && (size_ == 0 || now - grew_at_ < kStackDumpQuiet)) return std::nullopt;
  const std::string text = Read(file_->get(), size_);
  Answer answer = ParseFaulthandler(text);
  if (answer.ok() && text.ends_with('\n')) return answer;  // else a line is not complete
  if (!is_late) return std::nullopt;
  return absl::DeadlineExceededError(
      absl::StrCat("it did not write its stack within ", absl::FormatDuration(kStackDumpLimit)));
}

}  // namespace muster::host
