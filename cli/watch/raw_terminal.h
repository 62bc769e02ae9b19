// The terminal while a program draws on all of it: no echo, no line editing, the other screen. The destructor, and
// a signal that ends the process, give it back as it was. One at a time in a process.
#pragma once

#include "absl/status/status.h"
#include "cli/watch/frame.h"

namespace muster::cli {

class RawTerminal {
 public:
  // FailedPrecondition: standard input or output is not a terminal.
  RawTerminal() = default;
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  absl::Status Take();
  static Size Measure();  // of standard output; 80x24 if that is not known
};

}  // namespace muster::cli
