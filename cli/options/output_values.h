// Parsers for the values of options for output and signals. Pure; errors are InvalidArgument with only
// the reason, to which the caller adds the option. The grammar of torchrun's options is that of torch 2.13,
// without its limit to one-digit ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/output_plan.h"
#include "cli/options/values.h"

namespace muster::cli {

// "3" for all ranks, or "0:1,12:3" for the named ranks and no stream for the others.
struct StreamChoice {
  host::Streams everywhere = host::Streams::kNone;
  std::map<int, host::Streams> by_rank;  // key: local rank

  host::Streams Of(int local_rank) const;
  bool IsNothing() const;
};

struct SignalChoice {
  std::vector<int> numbers;
  std::vector<std::string> unknown;  // names that this system does not have
};

inline constexpr Bounds<int> kStreams = {0, 3};  // 1: stdout, 2: stderr

inline constexpr int64_t kLeastLogBytes = int64_t{64} << 10;  // half of it must be able to hold a long line
inline constexpr int64_t kMostLogBytes = int64_t{1} << 50;
std::string ShowLogSizes();  // "64k to 1048576G"

absl::StatusOr<StreamChoice> ParseStreams(std::string_view text);
absl::StatusOr<std::vector<int>> ParseLocalRanks(std::string_view text);       // "0,1"
absl::StatusOr<std::vector<std::string>> ParseFilters(std::string_view text);  // "error,warning"; ",," is a comma
absl::StatusOr<std::vector<std::string>> ParseEventNames(std::string_view text);  // "node_lost,hang", or "all"
absl::StatusOr<int64_t> ParseSize(std::string_view text);          // "500k", "20M", "1G": bytes, powers of 1024
absl::StatusOr<SignalChoice> ParseSignals(std::string_view text);  // "SIGTERM,SIGUSR1"
absl::StatusOr<std::string> ParseNumaBinding(std::string_view text);
absl::StatusOr<std::string> ParseOptionName(std::string_view text);  // value of --pass-local-rank

}  // namespace muster::cli
