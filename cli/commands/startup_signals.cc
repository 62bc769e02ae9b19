#include "cli/commands/startup_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/exit_codes.h"
#include "base/io/thread.h"
#include "base/proc/run_program.h"
#include "base/text/signal_name.h"

namespace muster::cli {
namespace {

constexpr int kEndingSignals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT};

// Writes without stdio, whose locks the first thread may hold, and only if it does not block.
void WriteAtOnce(const std::string& line) {
  pollfd polled{STDERR_FILENO, POLLOUT, 0};
  if (poll(&polled, 1, 0) == 1 && (polled.revents & POLLOUT) != 0) {
    (void)!write(STDERR_FILENO, line.data(), line.size());
  }
}

// Runs on the listening thread. The first thread may be anywhere, so no destructor runs.
[[noreturn]] void EndBy(int signal, int exit_code) {
  EndPrograms();
  const bool cancel = signal == SIGINT;
  WriteAtOnce("muster: " + DescribeSignal(signal) + " before the start: " + (cancel ? "cancelled" : "leaving") +
              "\n");
  if (cancel) EndBySignal(SIGINT);
  _exit(cancel ? kExitCancelled : exit_code);
}

}  // namespace

StartupSignals::StartupSignals(const Inherited& inherited) : exit_code_(kExitLeft) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : kEndingSignals) {
    if (sigismember(&inherited.ignored, signal) != 1) sigaddset(&watched, signal);
  }
  signal_fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (signal_fd_ < 0 || stop_fd_ < 0) return;
  absl::StatusOr<std::thread> thread = StartThread([this] { Listen(); });
  if (thread.ok()) thread_ = *std::move(thread);
}

void StartupSignals::SetRetryableExitCode(int code) { exit_code_ = code == 0 ? kExitLeft : code; }

void StartupSignals::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_fd_, 1);
    thread_.join();
  }
  for (int* fd : {&signal_fd_, &stop_fd_}) {
    if (*fd >= 0) close(std::exchange(*fd, -1));
  }
}

void StartupSignals::Listen() {
  std::array<pollfd, 2> polled = {pollfd{stop_fd_, POLLIN, 0}, pollfd{signal_fd_, POLLIN, 0}};
  while (true) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;  // EINTR
    if (polled[0].revents != 0) return;  // a signal that is pending as well is left to the host
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) continue;
    EndBy(static_cast<int>(info.ssi_signo), exit_code_);
  }
}

}  // namespace muster::cli
