#include "cli/watch/raw_terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster::cli {
namespace {

// The other screen, without a cursor; and back.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l", kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr std::array<int, 4> kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// A signal's handler has no other way to them.
termios before_us;
volatile sig_atomic_t is_taken = 0;
std::array<struct sigaction, kEnding.size()> actions_before;

// Only calls that a signal's handler may make.
void GiveBack() {
  if (is_taken == 0) return;
  is_taken = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &before_us);
  if (write(STDOUT_FILENO, kLeave, sizeof(kLeave) - 1) < 0) return;  // then there is no terminal any more
}

void OnSignal(int signal) {
  GiveBack();
  raise(signal);  // its handler was reset, so it ends the process once this function returns
}

}  // namespace

absl::Status RawTerminal::Take() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
    return absl::FailedPreconditionError("standard input and output are not both a terminal");
  if (tcgetattr(STDIN_FILENO, &before_us) != 0)
    return absl::FailedPreconditionError(absl::StrCat("the terminal does not answer: ", std::strerror(errno)));
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < kEnding.size(); ++i) {
    sigaction(kEnding[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler != SIG_IGN) sigaction(kEnding[i], &action, nullptr);
  }
  termios raw = before_us;
  cfmakeraw(&raw);
  is_taken = 1;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  if (write(STDOUT_FILENO, kEnter, sizeof(kEnter) - 1) < 0)
    return absl::UnavailableError(absl::StrCat("the terminal takes nothing: ", std::strerror(errno)));
  return absl::OkStatus();
}

RawTerminal::~RawTerminal() {
  const bool was_taken = is_taken != 0;
  GiveBack();
  if (!was_taken) return;
  for (size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &actions_before[i], nullptr);
}

Size RawTerminal::Measure() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace muster::cli
