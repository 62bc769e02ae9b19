#include "agent/process/core/round_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "base/wire/takeover.h"

namespace muster::agent {

std::string WhyUnsound(const v1::Round& round, int slots) {
  if (!IsSet(round.id())) return "a round without a number";
  if (!round.has_node_rank()) return "no rank for this node";
  if (std::string why = WhyImpossible(round); !why.empty()) return why;
  if (round.world_size() == 0 || int64_t{round.first_rank()} + slots <= round.world_size()) return "";
  return absl::StrCat("ranks from ", round.first_rank(), " on of a world of ", round.world_size());
}

std::string WhyUnsound(const v1::Directive& directive, int slots) {
  if (std::string why = OutOfRange(directive); !why.empty()) return why;
  if (std::string why = WhyImpossible(directive.greatest()); !why.empty()) return why;
  const int64_t lease_ms = directive.settings().lease_ms();
  if (lease_ms != 0 && absl::Milliseconds(lease_ms) < kMinLease)
    return absl::StrCat("a lease of ", lease_ms, " ms");
  return directive.has_run() ? WhyUnsound(directive.run(), slots) : "";
}

}  // namespace muster::agent
