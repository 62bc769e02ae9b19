#include "agent/host/check_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/owned_fd.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace muster::host {
absl::Status CheckCommand::Start(const std::string& name, const std::string& command,
                                 const EnvironmentMap& environment, const Ended& ended) {
  tail_.reset();
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("making a pipe for the output of the ", name));
  OwnedFd out(fds[0]);
  const OwnedFd in(fds[1]), null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "opening /dev/null");
  WorkerCommand shell = ShellCommand(command, environment);
  shell.stdin_fd = null.get();
  shell.stdout_fd = shell.stderr_fd = in.get();
  Spawner::WorkerEvents events;
  events.failed = [ended](int exit_code, const std::string& why) {
    ended(Ending{.number = exit_code, .error_text = why});
  };
  events.exited = ended;
  RETURN_IF_ERROR(spawner_->SpawnWorker(shell, std::move(events)).status());
  tail_ = std::make_shared<OutputTail>();
  writer_->AdoptBoundedPipe(kMaxCheckOutput, out.Release(), STDERR_FILENO, name + ": ", tail_);
  return absl::OkStatus();
}

std::string CheckCommand::LastLine() const { return tail_ == nullptr ? "" : muster::LastLine(tail_->Last()); }

}  // namespace muster::host
