#include "base/proc/keyboard.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace muster {
namespace {

bool SameModes(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag &&
         std::equal(std::begin(a.c_cc), std::end(a.c_cc), std::begin(b.c_cc));
}

}  // namespace

bool HasKeyboard() {
  // Fails if standard input is not our controlling terminal. Both calls return 0 for a process group outside of
  // our PID namespace (unshare, apptainer); two such groups are taken to be the same one.
  const pid_t foreground = tcgetpgrp(STDIN_FILENO);
  return foreground >= 0 && foreground == getpgrp();
}

bool HasDialogue() { return HasKeyboard() && isatty(STDOUT_FILENO) == 1; }

TerminalModes::TerminalModes() {
  termios modes{};
  if (HasKeyboard() && tcgetattr(STDIN_FILENO, &modes) == 0) before_ = modes;
}

TerminalModes::~TerminalModes() { Restore(); }

// SIGTTOU is blocked, so the foreground is checked first: in the background, a shell's own modes must stay.
void TerminalModes::Restore() const {
  termios now{};
  if (!before_ || !HasKeyboard() || tcgetattr(STDIN_FILENO, &now) != 0 || SameModes(now, *before_)) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

}  // namespace muster
