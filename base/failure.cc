#include "base/failure.h"

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"

namespace muster {

std::string DescribeEnd(const v1::Failure& failure) {
  if (WasNeverStarted(failure)) return "could not be started";
  if (failure.hung())
    return failure.hung_for_all() ? "was ended, because the round hangs" : "hangs, and was ended";
  if (failure.oom_killed()) return "was killed because memory ran out";
  return failure.has_signal() ? absl::StrCat("was killed (", DescribeSignal(failure.signal()), ")")
                              : absl::StrCat("exited with code ", failure.exit_code());
}

}  // namespace muster
