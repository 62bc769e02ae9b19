// Standard input where it is the terminal that muster runs on.
#pragma once

#include <termios.h>

#include <optional>

namespace muster {

// Whether standard input is our controlling terminal and we are in its foreground, so that a worker that reads it
// gets what is typed. In the background the shell reads there: workers lead sessions of their own, so job control
// would not stop them from taking its input.
bool HasKeyboard();

// Gives the terminal back as it was. A worker that is killed while it edits a line (at a debugger's prompt) leaves
// the terminal without echo, for the shell and for the next round. Thread-compatible.
class TerminalModes {
 public:
  TerminalModes();
  ~TerminalModes();  // restores
  TerminalModes(const TerminalModes&) = delete;
  TerminalModes& operator=(const TerminalModes&) = delete;

  // Does nothing where the modes are as they were, and in the terminal's background.
  void Restore() const;

 private:
  std::optional<termios> before_;  // none: standard input is not our keyboard
};

}  // namespace muster
