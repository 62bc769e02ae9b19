#include "agent/host/core/ending.h"

#include "absl/strings/str_cat.h"
#include "base/text/signal_name.h"

namespace muster::host {

std::string DescribeEnding(const Ending& ending) {
  if (!ending.by_signal) return absl::StrCat("exit code ", ending.number);
  const std::string name = SignalName(ending.number);
  return absl::StrCat("killed by signal ", ending.number, name.empty() ? "" : absl::StrCat(" (", name, ")"));
}

}  // namespace muster::host
