#include "agent/host/last_command.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/host/core/ladder.h"
#include "base/core/one_signal.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/owned_fd.h"
#include "base/text/duration.h"

namespace muster::host {
std::string Describe(const LastCommandEnd& end) {
  const std::string what =
      end.exceeded.empty() ? DescribeEnding(end.ending) : absl::StrCat("timed out after ", end.exceeded);
  const std::string why = end.ending.error_text.empty() ? "" : absl::StrCat(": ", end.ending.error_text);
  return absl::StrCat(end.stuck && end.exceeded.empty() ? "it does not end" : what, why,
                      end.stuck ? "; it survives SIGKILL" : "");
}

void LastCommandRun::Start(const std::string& command, const EnvironmentMap& environment, Ended ended) {
  const OwnedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  WorkerCommand shell = ShellCommand(command, environment);
  shell.stdin_fd = null.valid() ? null.get() : STDIN_FILENO;
  ended_ = std::move(ended);
  const absl::StatusOr<pid_t> pid = spawner_->SpawnWorker(shell, EventsOfCommand());
  if (!pid.ok()) {
    end_.ending = {.number = kExitFault, .error_text = std::string(AsStd(pid.status().message()))};
    return OnEnded();
  }
  if (asked_at_) {
    loop_->After(limits_.grace, [this] { OnTimeOver(limits_.grace, "--termination-grace"); });
  } else {
    loop_->After(limits_.run, [this] { OnTimeOver(limits_.run, "--hook-timeout"); });
  }
}

// As with workers, processes that handle SIGTERM keep their grace period when the shell around them does not.
Spawner::WorkerEvents LastCommandRun::EventsOfCommand() {
  Spawner::WorkerEvents events;
  events.failed = [this](int exit_code, const std::string& why) {
    end_.ending = {.number = exit_code, .error_text = why};
    OnEnded();
  };
  events.exited = [this](const Ending& ending) {
    end_.ending = ending;
    if (!ending.rest_lives) OnEnded();
  };
  events.spares_rest = [this] { return terminated_ && !killed_; };
  events.rest_ended = [this] { OnEnded(); };
  return events;
}

void LastCommandRun::OnEnded() {
  if (const Ended ended = std::exchange(ended_, nullptr)) ended(end_);
}

void LastCommandRun::OnTimeOver(absl::Duration limit, const char* option) {
  if (!ended_ || killed_) return;
  if (end_.exceeded.empty()) end_.exceeded = absl::StrCat(muster::FormatDuration(limit), " (", option, ")");
  Terminate();
}

void LastCommandRun::AskToEnd() {
  const BootTime now = EventLoop::Now();
  if (asked_at_ && now < *asked_at_ + kOneSignal) return;
  const bool again = std::exchange(asked_at_, now).has_value();
  if (!ended_) return;
  again ? Kill() : Terminate();
}

void LastCommandRun::Terminate() {
  if (std::exchange(terminated_, true)) return;
  spawner_->StopWorkers(SIGTERM);
  loop_->After(limits_.grace / 2, [this] {
    if (ended_ && !killed_) spawner_->SignalRest();
  });
  loop_->After(limits_.grace, [this] { Kill(); });
}

void LastCommandRun::Kill() {
  if (!ended_ || std::exchange(killed_, true)) return;
  spawner_->SignalWorkers(SIGKILL);
  loop_->After(kStuckAfterKill, [this] {
    end_.stuck = true;
    OnEnded();
  });
}

}  // namespace muster::host
