// Single variables of an environment, read strictly: what several readings need. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr int kMaxNodes = 100'000;      // of a job, whatever a variable says
inline constexpr int kMaxNamedNodes = 10'000;  // beyond it a view lists no names: they are for messages alone
inline constexpr uint16_t kTorchPort = 29500;  // torch's MASTER_PORT where none is said

// The value without blanks around it; nullopt where the variable is absent or blank.
std::optional<std::string> TextOf(const Environment& environment, const std::string& variable);

// Whether it is there at all, blank or not.
bool IsSet(const Environment& environment, const std::string& variable);

// A whole number in plain digits from `low` to `high`. Errors name `variable`; `advice` as in Problem.
absl::StatusOr<int> NumberIn(const std::string& variable, const std::string& text, int low, int high,
                             const std::string& advice = "");

// The number of a variable that has to be there.
absl::StatusOr<int> RequiredNumber(const Environment& environment, const std::string& variable, int low, int high,
                                   const std::string& advice = "");

// A rank below `count`; the error says what the count is from ("PET_NNODES 3").
absl::StatusOr<int> RankIn(const std::string& variable, const std::string& text, int count,
                           const std::string& count_source, const std::string& advice = "");

// A name or address without a port; a bare IPv6 address is taken too.
absl::StatusOr<std::string> HostIn(const std::string& variable, const std::string& text,
                                   const std::string& advice = "");

// Whether this node can reach the primary that `variable` names. Node 0 may call itself 0.0.0.0; any other node
// that dials that reaches itself.
absl::Status CheckReachable(const std::string& variable, const ClusterView& view);

// The port of a variable, or `otherwise` where it is not set.
absl::StatusOr<uint16_t> PortOr(const Environment& environment, const std::string& variable, uint16_t otherwise);

// "3" is 3, "2:4" is 4: a number of nodes as --nnodes takes it, its greatest.
absl::StatusOr<int> MaxNodesIn(const std::string& variable, const std::string& text);

// A run's name made of what all nodes of one job read alike: "k8s-job-0.svc". Only what any file system and any
// log takes: of `common` all but letters, digits, '.' and '_' becomes '-'.
std::string RunNameOf(std::string_view kind, std::string_view common);

}  // namespace muster::discovery
