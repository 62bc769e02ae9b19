#include "agent/host/signal_watch.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace muster::host {
namespace {

constexpr int kHandledSignals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};

}  // namespace

SignalWatch::~SignalWatch() {
  if (fd_ < 0) return;
  loop_->Unwatch(fd_);
  close(fd_);
}

absl::Status SignalWatch::Start(const sigset_t& ignored, const std::set<int>& also,
                                std::function<void(int signal)> on_signal) {
  on_signal_ = std::move(on_signal);
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : kHandledSignals) {
    if (sigismember(&ignored, signal) != 1) sigaddset(&handled, signal);
  }
  for (const int signal : also) sigaddset(&handled, signal);
  fd_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) return absl::ErrnoToStatus(errno, "making a descriptor for signals");
  loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { Read(); });
  return absl::OkStatus();
}

void SignalWatch::Read() {
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    on_signal_(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace muster::host
