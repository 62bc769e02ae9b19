// Standard input when it is the terminal on which muster runs.
#pragma once

#include <termios.h>

#include <optional>

namespace muster {

// Whether standard input is our controlling terminal and we are in its foreground, so that a worker may read from
// it. In the background the shell reads the keyboard: workers lead their own sessions, so job control would not
// stop them from taking the shell's input.
bool HasKeyboard();

// The same, and standard output is a terminal: for a debugger, whose prompt must be seen.
bool HasDialogue();

// Restores the terminal's modes. A worker that is killed while it edits a line (at a debugger's prompt) leaves the
// terminal without echo, for the shell and for the next round. Thread-compatible.
class TerminalModes {
 public:
  TerminalModes();
  ~TerminalModes();  // restores
  TerminalModes(const TerminalModes&) = delete;
  TerminalModes& operator=(const TerminalModes&) = delete;

  // Does nothing if the modes are unchanged, or in the terminal's background.
  void Restore() const;

 private:
  std::optional<termios> before_;  // nullopt: standard input was not our keyboard
};

}  // namespace muster
