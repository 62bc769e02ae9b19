#include "agent/host/preflight.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/io/owned_fd.h"
#include "base/status_macros.h"

namespace muster::host {
namespace {

constexpr char kShell[] = "/bin/sh";
constexpr char kPrefix[] = "preflight: ";

}  // namespace

absl::Status Preflight::Start(const EnvironmentMap& environment, const Ended& ended) {
  tail_.reset();
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe for the preflight's output");
  OwnedFd out(fds[0]);
  const OwnedFd in(fds[1]), null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "opening /dev/null");
  WorkerCommand command;
  command.argv = {"sh", "-c", command_};
  command.file = kShell;
  command.environment = environment;
  command.stdin_fd = null.get();
  command.stdout_fd = command.stderr_fd = in.get();
  Spawner::WorkerEvents events;
  events.failed = [ended](int exit_code, const std::string& why) {
    ended(Ending{.number = exit_code, .error_text = why});
  };
  events.exited = ended;
  RETURN_IF_ERROR(spawner_->SpawnWorker(command, std::move(events)).status());
  tail_ = std::make_shared<StderrTail>();
  writer_->AdoptBoundedPipe(kMaxPreflightOutput, out.Release(), STDERR_FILENO, kPrefix, tail_);
  return absl::OkStatus();
}

std::string Preflight::LastLine() const {
  const std::string last = tail_ == nullptr ? "" : tail_->Last();
  return last.substr(last.rfind('\n') + 1);
}

}  // namespace muster::host
