// Which machine a host name or address means. Names are resolved by c-ares: the binary is static, so getaddrinfo
// cannot be used.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster::rendezvous {

inline constexpr absl::Duration kResolveLimit = absl::Seconds(2);

// IP literals without brackets, in the order of preference. A literal is its own answer. Blocks, at most for
// limit. NotFound: no such name. DeadlineExceeded: nobody answered.
absl::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host,
                                                     absl::Duration limit = kResolveLimit);

// The address that /etc/hosts alone gives a name; empty: none, or several. No name server is asked. A literal is
// its own answer.
std::string HostsFileAddress(const std::string& host);

// Addresses of this machine's interfaces by which others may reach it: no loopback, none of one link only.
std::vector<std::string> OwnAddresses();

bool IsLiteral(const std::string& host);

// True if host, or what it resolves to, is an address of one of this machine's interfaces. Blocks as ResolveHost.
absl::StatusOr<bool> IsLocalAddress(const std::string& host, absl::Duration limit = kResolveLimit);

}  // namespace muster::rendezvous
