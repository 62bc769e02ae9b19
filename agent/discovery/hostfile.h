// DeepSpeed's hostfile: "HOST slots=N" lines, and its --include and --exclude. Pure.
//
// Facts: DeepSpeed's launcher/runner.py (commit edaa72212). Stricter than that where it reads what nobody meant
// (slots=4abc, host:port, digits of other scripts), and as documented where it errs (`--include a@b:0` keeps a).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::discovery {

inline constexpr char kDefaultHostfile[] = "/job/hostfile";
inline constexpr size_t kMaxHostfileBytes = 4 * 1024 * 1024;
inline constexpr int kMaxHosts = 100'000;
inline constexpr int kMaxHostSlots = 1'024;
inline constexpr size_t kMaxSlots = 1'000'000;  // of all hosts together

struct HostSlots {
  std::string host;        // a name or an IP address, no brackets
  std::vector<int> slots;  // local numbers of the devices to be used, ascending
};

// The hosts in their order. Those without slots are refused: it is what failed scripts write. InvalidArgument:
// one line that names `source`, the line and what was expected.
absl::StatusOr<std::vector<HostSlots>> ParseHostfile(const std::string& source, std::string_view text);

// "HOST[:SLOT,SLOT][@HOST...]", at most one of both given, an IPv6 address in brackets; the order of the file
// stays. A host that is named twice is named with the slots of both. InvalidArgument: one line.
absl::StatusOr<std::vector<HostSlots>> FilterHosts(std::vector<HostSlots> hosts, std::string_view include,
                                                   std::string_view exclude);

}  // namespace muster::discovery
