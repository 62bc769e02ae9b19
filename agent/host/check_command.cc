#include "agent/host/check_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/owned_fd.h"
#include "base/io/pipe.h"
#include "base/text/text.h"

namespace muster::host {
absl::Status CheckCommand::Start(const std::string& name, const std::string& command,
                                 const EnvironmentMap& environment, const Ended& ended) {
  tail_.reset();
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  const OwnedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "opening /dev/null");
  WorkerCommand shell = ShellCommand(command, environment);
  shell.stdin_fd = null.get();
  shell.stdout_fd = shell.stderr_fd = output.in.get();
  Spawner::WorkerEvents events;
  events.failed = [ended](int exit_code, const std::string& why) {
    ended(Ending{.number = exit_code, .error_text = why});
  };
  events.exited = ended;
  RETURN_IF_ERROR(spawner_->SpawnWorker(shell, std::move(events)).status());
  tail_ = std::make_shared<OutputTail>();
  writer_->AdoptBoundedPipe(kMaxCheckOutput, output.out.Release(), STDERR_FILENO, name + ": ", tail_);
  return absl::OkStatus();
}

std::string CheckCommand::LastLine() const { return tail_ == nullptr ? "" : muster::LastLine(tail_->Last()); }

}  // namespace muster::host
