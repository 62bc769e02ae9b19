#include "agent/host/last_command.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/exit_codes.h"
#include "base/io/owned_fd.h"
#include "base/status_macros.h"

namespace muster::host {
namespace {

constexpr char kShell[] = "/bin/sh";

}  // namespace

void LastCommandRun::Start(const std::string& command, const EnvironmentMap& environment, Ended ended) {
  const OwnedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  WorkerCommand shell;
  shell.argv = {"sh", "-c", command};
  shell.file = kShell;
  shell.environment = environment;
  shell.stdin_fd = null.valid() ? null.get() : STDIN_FILENO;
  ended_ = std::move(ended);
  Spawner::WorkerEvents events;
  events.failed = [this](int exit_code, const std::string& why) {
    OnEnded(Ending{.number = exit_code, .error_text = why});
  };
  events.exited = [this](const Ending& ending) { OnEnded(ending); };
  const absl::StatusOr<pid_t> pid = spawner_->SpawnWorker(shell, std::move(events));
  if (!pid.ok()) {
    return OnEnded(Ending{.number = kExitFault, .error_text = std::string(AsStd(pid.status().message()))});
  }
  loop_->After(limits_.run, [this] { AskToEnd(); });
}

void LastCommandRun::OnEnded(const Ending& ending) {
  if (const Ended ended = std::exchange(ended_, nullptr)) ended(ending);
}

void LastCommandRun::AskToEnd() {
  if (!ended_ || std::exchange(asked_, true)) return;
  spawner_->SignalWorkers(SIGTERM);
  loop_->After(limits_.grace, [this] {
    if (ended_) spawner_->SignalWorkers(SIGKILL);
  });
}

}  // namespace muster::host
