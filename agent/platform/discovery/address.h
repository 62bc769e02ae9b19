// Parses "host:port" as platforms write it. Pure: resolves nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::discovery {

inline constexpr size_t kMaxHostChars = 253;  // of a DNS name
inline constexpr size_t kMaxLabelChars = 63;

struct Address {
  std::string host;  // a name or an IP address, no brackets
  std::optional<uint16_t> port;
};

// Accepts "host", "host:port", "1.2.3.4:port", "[::1]", "[::1]:port". The message of InvalidArgument is what was
// expected ("a port from 1 to 65535"); the caller adds the field and the value. An IPv6 address without brackets
// is refused even without a port, since fd00::1:2222 could mean fd00::1 with port 2222.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// Whether `host` is an IPv4 or IPv6 address, not a name.
bool IsLiteral(const std::string& host);

// Whether `host` is 0.0.0.0 or ::, which only a listener can use.
bool IsAnyAddress(const std::string& host);

// Equal for all spellings of one host: ignores the case of names, a dot at their end, and the notation of zeros in
// IPv6 addresses.
std::string HostKey(const std::string& host);

// "host:port", with brackets around an IPv6 address.
std::string ToString(const std::string& host, uint16_t port);

}  // namespace muster::discovery
