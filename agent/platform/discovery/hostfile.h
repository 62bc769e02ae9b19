// DeepSpeed's hostfile: "HOST slots=N" lines, and its --include and --exclude. Pure.
//
// Source: DeepSpeed's launcher/runner.py (commit edaa72212). Differences: input that DeepSpeed accepts although it
// is certainly an error is refused (slots=4abc, host:port, digits of other scripts), max_slots= and users are read
// as Open MPI and ssh write them, and where DeepSpeed does not do what it documents, this follows the documents
// (`--include a@b:0` keeps a).
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
inline constexpr size_t kMaxSlots = 1'000'000;  // for all hosts together

struct HostSlots {
  std::string host;        // a name or an IP address, no brackets
  std::vector<int> slots;  // local numbers of the devices to use, ascending
};

// Returns the hosts in their order. Open MPI's max_slots= is ignored, and so is the user of USER@HOST, with one
// warning for the whole file, since nothing is started by SSH; warnings: nullptr, or gets it. slots=0 is refused,
// since it comes from scripts that failed. InvalidArgument: one line with `source`, the line's number and what was
// expected.
absl::StatusOr<std::vector<HostSlots>> ParseHostfile(const std::string& source, std::string_view text,
                                                     std::vector<std::string>* warnings = nullptr);

// Applies --include or --exclude, of which at most one may be given: "HOST[:SLOT,SLOT][@HOST...]", with IPv6
// addresses in brackets. Keeps the order of the file. The slots of a host that is named twice add up.
// InvalidArgument: one line.
absl::StatusOr<std::vector<HostSlots>> FilterHosts(std::vector<HostSlots> hosts, std::string_view include,
                                                   std::string_view exclude);

}  // namespace muster::discovery
