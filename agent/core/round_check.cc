#include "agent/core/round_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace muster::agent {
namespace {

constexpr uint32_t kMaxPort = 65'535;

}  // namespace

std::string WhyImpossible(const v1::Round& round) {
  const std::array<std::pair<const char*, int>, 10> numbers = {
      {{"node rank", round.node_rank()},
       {"node count", round.node_count()},
       {"first rank", round.first_rank()},
       {"world size", round.world_size()},
       {"first rank of the role", round.role_first_rank()},
       {"world size of the role", round.role_world_size()},
       {"restart count", round.restart_count()},
       {"failures", round.failures()},
       {"restarts allowed", round.max_restarts()},
       {"seat", round.seat()}}};
  const auto negative =
      std::find_if(numbers.begin(), numbers.end(), [](const auto& one) { return one.second < 0; });
  if (negative != numbers.end()) return absl::StrCat(negative->first, " ", negative->second);
  if (round.node_count() > 0 && round.node_rank() >= round.node_count()) {
    return absl::StrCat("node rank ", round.node_rank(), " of ", round.node_count(), " nodes");
  }
  if (round.master().port() > kMaxPort) return absl::StrCat("master port ", round.master().port());
  return IsHostText(round.master().host()) ? "" : "a master address that is none";
}

std::string WhyUnsound(const v1::Round& round, int slots) {
  if (!round.has_node_rank()) return "no rank for this node";
  if (std::string why = WhyImpossible(round); !why.empty()) return why;
  if (round.world_size() == 0 || int64_t{round.first_rank()} + slots <= round.world_size()) return "";
  return absl::StrCat("ranks from ", round.first_rank(), " on of a world of ", round.world_size());
}

}  // namespace muster::agent
