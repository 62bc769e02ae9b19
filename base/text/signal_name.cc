#include "base/text/signal_name.h"

#include <string.h>

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

}  // namespace muster
