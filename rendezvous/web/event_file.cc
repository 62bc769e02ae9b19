#include "rendezvous/web/event_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/io/bounded_call.h"
#include "base/io/owned_fd.h"
#include "rendezvous/web/event_json.h"

namespace muster::rendezvous {
namespace {

absl::Status Append(const std::string& path, std::string_view lines) {
  const OwnedFd file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
  struct stat info = {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "it cannot be opened");
  const size_t before = S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) : 0;
  if (before + lines.size() > kMaxEventFileBytes)
    return absl::ResourceExhaustedError(absl::StrCat("it has ", kMaxEventFileBytes >> 20, " MiB"));
  while (!lines.empty()) {
    const ssize_t written = write(file.get(), lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "it cannot be written");
    lines.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

void EventFile::Complain(BootTime now, const std::string& why) {
  if (!complaints_.Take(now)) return;
  note_({Severity::kWarning, absl::StrCat("--events ", path_, ": ", why, "; events are missing there")});
}

void EventFile::TakeWritten(BootTime now) {
  if (!writing_ || writing_->wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  const absl::Status written = writing_->get();
  writing_.reset();
  is_torn_ = !written.ok();
  if (!written.ok()) Complain(now, std::string(AsStd(written.message())));
}

void EventFile::Write(BootTime now, const v1::Events& news) {
  TakeWritten(now);
  for (const v1::Event& event : news.newest()) {
    const std::string line = absl::StrCat(EventJson(event, run_id_, absl::Now()), "\n");
    if (lines_.size() + line.size() <= kMaxUnwrittenBytes)
      lines_ += line;
    else
      Complain(now, "its file system does not answer");
  }
  if (writing_ || lines_.empty()) return;
  writing_ = CallAside(
      [path = path_, lines = absl::StrCat(is_torn_ ? "\n" : "", lines_)] { return Append(path, lines); });
  if (writing_) lines_.clear();  // else no thread could be started: again
}

}  // namespace muster::rendezvous
