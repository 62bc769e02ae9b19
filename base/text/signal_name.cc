#include "base/text/signal_name.h"

#include <signal.h>
#include <string.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {

std::string SignalName(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? "" : absl::StrCat("SIG", name);
}

std::string DescribeSignal(int signal) {
  const std::string name = SignalName(signal);
  return name.empty() ? absl::StrCat("signal ", signal) : name;
}

int SignalNumber(std::string name) {
  absl::AsciiStrToUpper(&name);
  if (absl::StartsWith(name, "SIG")) name.erase(0, 3);
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* known = sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return 0;
}

}  // namespace muster
