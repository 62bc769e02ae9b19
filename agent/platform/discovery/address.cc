#include "agent/platform/discovery/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"

namespace muster::discovery {
namespace {

absl::Status Expected(std::string_view what) { return absl::InvalidArgumentError(AsAbsl(what)); }

absl::StatusOr<uint16_t> ParsePort(std::string_view text) {
  constexpr size_t kMaxPortDigits = 5;
  const bool digits = !text.empty() && text.size() <= kMaxPortDigits &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  int port = 0;
  if (digits) {
    for (const char c : text) port = port * 10 + (c - '0');
  }
  if (port < 1 || port > 65535) return Expected("host:port with a port from 1 to 65535");
  return static_cast<uint16_t>(port);
}

bool IsIpv4(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

// Only dots and digits: an IPv4 address or a typing error, never a name.
bool LooksLikeIpv4(const std::string& host) {
  return std::all_of(host.begin(), host.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

bool IsLabel(absl::string_view label) {
  const auto allowed = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; };
  return !label.empty() && label.size() <= kMaxLabelChars && std::all_of(label.begin(), label.end(), allowed);
}

absl::Status CheckHost(const std::string& host) {
  if (host.empty()) return Expected("host:port with a host before the colon");
  if (host.size() > kMaxHostChars) return Expected("a host of at most 253 characters");
  if (LooksLikeIpv4(host)) {
    return IsIpv4(host) ? absl::OkStatus() : Expected("an IPv4 address of four numbers up to 255");
  }
  // Programs would take such a name for an option.
  if (host.front() == '-') return Expected("a host name that does not begin with '-'");
  const std::string_view rooted = host.back() == '.' ? std::string_view(host).substr(0, host.size() - 1) : host;
  for (const absl::string_view label : absl::StrSplit(AsAbsl(rooted), '.')) {
    if (!IsLabel(label)) return Expected("a host name of letters, digits, '-', '_' and '.'");
  }
  return absl::OkStatus();
}

absl::StatusOr<Address> ParseBracketed(std::string_view text) {
  const size_t close = text.find(']');
  if (close == std::string_view::npos) return Expected("[IPv6 address]:port with both brackets");
  Address address;
  address.host = std::string(text.substr(1, close - 1));
  in6_addr ignored;
  // inet_pton would stop at an embedded NUL.
  const bool valid =
      address.host.find('\0') == std::string::npos && inet_pton(AF_INET6, address.host.c_str(), &ignored) == 1;
  if (!valid) return Expected("an IPv6 address between the brackets");
  const std::string_view rest = text.substr(close + 1);
  if (rest.empty()) return address;
  if (rest.front() != ':') return Expected("[IPv6 address]:port");
  ASSIGN_OR_RETURN(address.port, ParsePort(rest.substr(1)));
  return address;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  if (text.empty()) return Expected("host:port");
  if (text.find("://") != std::string_view::npos) return Expected("host:port without a URL scheme");
  if (text.front() == '[') return ParseBracketed(text);
  const size_t colon = text.find(':');
  if (colon != text.rfind(':')) return Expected("an IPv6 address in brackets, as in [fd00::1]:2222");
  Address address;
  address.host = std::string(text.substr(0, colon));
  RETURN_IF_ERROR(CheckHost(address.host));
  if (colon != std::string_view::npos) {
    ASSIGN_OR_RETURN(address.port, ParsePort(text.substr(colon + 1)));
  }
  return address;
}

bool IsLiteral(const std::string& host) {
  in6_addr v6;
  return IsIpv4(host) || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

bool IsAnyAddress(const std::string& host) {
  const std::string key = HostKey(host);
  return key == "0.0.0.0" || key == "::";
}

std::string HostKey(const std::string& host) {
  in6_addr v6;
  char text[INET6_ADDRSTRLEN];
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1 && inet_ntop(AF_INET6, &v6, text, sizeof(text)) != nullptr) {
    return text;
  }
  std::string key = absl::AsciiStrToLower(host);
  if (key.ends_with('.')) key.pop_back();
  return key;
}

std::string ToString(const std::string& host, uint16_t port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace muster::discovery
