// "host:port" as platforms write it. Pure: nothing is resolved.
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

// "host", "host:port", "1.2.3.4:port", "[::1]", "[::1]:port". InvalidArgument says in a few words what was
// expected ("a port from 1 to 65535"); the caller names the field and shows the value. A bare IPv6 address is
// refused even without a port: nobody can tell fd00::1:2222 from fd00::1 with port 2222.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// An IPv4 or IPv6 address, not a name.
bool IsLiteral(const std::string& host);

// 0.0.0.0 and ::, at which one listens.
bool IsAnyAddress(const std::string& host);

// 127.0.0.0/8 (also mapped into IPv6), ::1 and localhost.
bool IsLoopback(const std::string& host);

// Equal for two spellings of one host: names differ neither by case nor by a dot at their end, IPv6 addresses not
// by how their zeros are written.
std::string HostKey(const std::string& host);

// "host:port", with brackets around an IPv6 address.
std::string ToString(const std::string& host, uint16_t port);

}  // namespace muster::discovery
