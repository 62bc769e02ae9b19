// Strict readers of single environment variables, shared by several sources. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr int kMaxNodes = 100'000;      // limit for the number of nodes of a job
inline constexpr int kMaxNamedNodes = 10'000;  // with more nodes a view lists no names; they are only for messages
inline constexpr uint16_t kTorchPort = 29500;  // torch's default MASTER_PORT

// The value without surrounding blanks; nullopt: the variable is absent or blank.
std::optional<std::string> TextOf(const Environment& environment, const std::string& variable);

// Whether the variable exists, even if it is blank.
bool IsSet(const Environment& environment, const std::string& variable);

// Parses a whole number in plain digits from `low` to `high`. Errors name `variable`; `advice` as in Problem.
absl::StatusOr<int> NumberIn(const std::string& variable, const std::string& text, int low, int high,
                             const std::string& advice = "");

// The number in a variable that must be set.
absl::StatusOr<int> RequiredNumber(const Environment& environment, const std::string& variable, int low, int high,
                                   const std::string& advice = "");

// A rank below `count`. count_source: where the count comes from ("PET_NNODES 3"), for the error.
absl::StatusOr<int> RankIn(const std::string& variable, const std::string& text, int count,
                           const std::string& count_source, const std::string& advice = "");

// A name or address without a port; an IPv6 address needs no brackets.
absl::StatusOr<std::string> HostIn(const std::string& variable, const std::string& text,
                                   const std::string& advice = "");

// Refuses 0.0.0.0 and :: as the primary's address, named by `variable`, on all nodes but node 0: another node that
// connects to it reaches itself.
absl::Status CheckReachable(const std::string& variable, const ClusterView& view);

// The port in a variable, or `otherwise` if it is not set.
absl::StatusOr<uint16_t> PortOr(const Environment& environment, const std::string& variable, uint16_t otherwise);

// The greatest number of nodes in a value as for --nnodes: "3" is 3, "2:4" is 4.
absl::StatusOr<int> MaxNodesIn(const std::string& variable, const std::string& text);

// A run's name derived from a value that all nodes of a job share: "k8s-job-0.svc". To suit file systems and logs,
// all characters of `common` except letters, digits, '.' and '_' become '-'.
std::string RunNameOf(std::string_view kind, std::string_view common);

}  // namespace muster::discovery
