#include "agent/platform/discovery/variables.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/address.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"

namespace muster::discovery {
namespace {

constexpr int kMaxPort = 65535;

// Accepts no sign, leading zeros or hexadecimal, so that each number has exactly one notation.
std::optional<int> PlainNumber(const std::string& text) {
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || absl::StrCat(number) != text) return std::nullopt;
  return number;
}

std::string WholeNumber(int low, int high) {
  return low == high ? absl::StrCat(low) : absl::StrCat("a whole number from ", low, " to ", high);
}

}  // namespace

std::optional<std::string> TextOf(const Environment& environment, const std::string& variable) {
  const auto found = environment.find(variable);
  if (found == environment.end()) return std::nullopt;
  const std::string_view text = AsStd(absl::StripAsciiWhitespace(found->second));
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

bool IsSet(const Environment& environment, const std::string& variable) { return environment.count(variable) > 0; }

absl::StatusOr<int> NumberIn(const std::string& variable, const std::string& text, int low, int high,
                             const std::string& advice) {
  const std::optional<int> number = PlainNumber(text);
  if (number.has_value() && *number >= low && *number <= high) return *number;
  return ToStatus({variable, "", text, WholeNumber(low, high), advice});
}

absl::StatusOr<int> RequiredNumber(const Environment& environment, const std::string& variable, int low, int high,
                                   const std::string& advice) {
  const auto found = environment.find(variable);
  if (found == environment.end()) {
    return ToStatus({variable, "", std::nullopt, WholeNumber(low, high), advice});
  }
  return NumberIn(variable, TextOf(environment, variable).value_or(""), low, high, advice);
}

absl::StatusOr<int> RankIn(const std::string& variable, const std::string& text, int count,
                           const std::string& count_source, const std::string& advice) {
  const std::optional<int> number = PlainNumber(text);
  if (number.has_value() && *number >= 0 && *number < count) return *number;
  return ToStatus({variable, "", text,
                   absl::StrCat(WholeNumber(0, count - 1), count == 1 ? ", as there is " : ", as there are ",
                                count, count == 1 ? " node (" : " nodes (", count_source, ")"),
                   advice});
}

absl::StatusOr<std::string> HostIn(const std::string& variable, const std::string& text,
                                   const std::string& advice) {
  const bool bare_ipv6 = std::count(text.begin(), text.end(), ':') > 1 && text.front() != '[';
  const absl::StatusOr<Address> address = ParseAddress(bare_ipv6 ? absl::StrCat("[", text, "]") : text);
  if (address.ok() && !address->port.has_value()) return address->host;
  return ToStatus({variable, "", text, "a host name or address, without a port", advice});
}

absl::Status CheckReachable(const std::string& variable, const ClusterView& view) {
  if (view.nnodes == 1 || view.node_rank == 0 || !IsAnyAddress(view.primary_host)) return absl::OkStatus();
  return ToStatus({variable, "", view.primary_host,
                   "the address by which the other nodes reach node 0, not one at which it listens",
                   "set it to node 0's name or address, the same on all nodes"});
}

absl::StatusOr<uint16_t> PortOr(const Environment& environment, const std::string& variable, uint16_t otherwise) {
  const std::optional<std::string> text = TextOf(environment, variable);
  if (!text.has_value()) return otherwise;
  ASSIGN_OR_RETURN(const int port, NumberIn(variable, *text, 1, kMaxPort));
  return static_cast<uint16_t>(port);
}

absl::StatusOr<int> MaxNodesIn(const std::string& variable, const std::string& text) {
  const size_t colon = text.find(':');
  const std::string low = text.substr(0, colon);
  const std::string high = colon == std::string::npos ? low : text.substr(colon + 1);
  const std::optional<int> min = PlainNumber(low), max = PlainNumber(high);
  if (min.has_value() && max.has_value() && *min >= 1 && *min <= *max && *max <= kMaxNodes) return *max;
  return ToStatus({variable, "", text, absl::StrCat("N or MIN:MAX, from 1 to ", kMaxNodes, ", MIN not above MAX"),
                   "correct it, the same on all nodes"});
}

std::string RunNameOf(std::string_view kind, std::string_view common) {
  std::string name(kind);
  name += '-';
  for (const char c : common) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    name += plain ? c : '-';
  }
  return name;
}

}  // namespace muster::discovery
