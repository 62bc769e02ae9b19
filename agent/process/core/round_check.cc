#include "agent/process/core/round_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"

namespace muster::agent {

std::string WhyUnsound(const v1::Round& round, int slots) {
  if (!IsSet(round.id())) return "a round without a number";
  if (!round.has_node_rank()) return "no rank for this node";
  if (std::string why = WhyImpossible(round); !why.empty()) return why;
  if (round.world_size() == 0 || int64_t{round.first_rank()} + slots <= round.world_size()) return "";
  return absl::StrCat("ranks from ", round.first_rank(), " on of a world of ", round.world_size());
}

}  // namespace muster::agent
