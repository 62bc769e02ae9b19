#include "base/failure.h"

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"

namespace muster {

std::string DescribeEnd(const v1::Failure& failure) {
  const bool is_usage = failure.exit_code() == kExitUsage;  // the options' fault, so its line is all that matters
  if (WasNeverStarted(failure)) {
    return absl::StrCat("could not be started", is_usage ? ": " : "", is_usage ? failure.error_text() : "");
  }
  if (failure.hung()) {
    return absl::StrCat(failure.hung_for_all() ? "was ended, because the round hangs" : "hangs, and was ended",
                        failure.error_text().empty() ? "" : ": ", failure.error_text());
  }
  if (failure.oom_killed()) return "was killed because memory ran out";
  return failure.has_signal() ? absl::StrCat("was killed (", DescribeSignal(failure.signal()), ")")
                              : absl::StrCat("exited with code ", failure.exit_code());
}

}  // namespace muster
